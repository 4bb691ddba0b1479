"""Every input that was made for or found by fuzzing, through its parser: a value or a ``ModelFileError`` comes out."""

import importlib.util
from pathlib import Path

import pytest

FUZZ = Path(__file__).parents[3] / "fuzz"
SEEDS = sorted(path for path in FUZZ.glob("seeds/*/*") if path.is_file())
GOOD = {"good", "bytes", "small", "parts", "version-1"}


@pytest.fixture(scope="session")
def targets():
    spec = importlib.util.spec_from_file_location("targets", FUZZ / "targets.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_seed_is_accepted_or_refused(targets, path):
    accepted = targets.survives(path.parent.name, path.read_bytes())
    if path.parent.name not in ("config", "index") and path.name in GOOD:
        assert accepted


def test_every_parser_has_seeds(targets):
    assert {path.parent.name for path in SEEDS} == set(targets.TARGETS)
