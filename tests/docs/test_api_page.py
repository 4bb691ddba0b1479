"""One page lists all public names; each says in a sentence what it is."""

import importlib.util
import inspect
import re
from pathlib import Path

import pytest

import headwater as hw
import typed_use
from headwater.model.reference import reference_models

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "api.md").read_text()


@pytest.fixture(scope="module")
def names():
    found = importlib.util.spec_from_file_location("names", ROOT / "book" / "names.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_the_page_is_what_the_code_says(names):
    assert names.page() == PAGE, "python book/names.py writes it"


def test_every_public_name_says_what_it_is(names):
    silent = [name for name, thing in names.top_level().items() if not names.sentence(thing)]
    for module in names.public_modules():
        silent += [f"{module}.{name}" for name, thing in names.defined_in(module).items() if not names.sentence(thing)]
    for name, thing in names.top_level().items():
        if inspect.isclass(thing):
            silent += [f"{name}.{method}" for method, _, called in names.members(thing) if not names.sentence(called)]
    assert silent == []


def test_every_public_name_is_on_the_page():
    for name in set(hw.__all__) - {"__version__"}:
        assert re.search(rf"^\| `hw\.{name}[`(]", PAGE, re.MULTILINE), name


def test_what_the_readme_and_the_guide_import_is_public(names):
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "pt").glob("*.md")]
    for page in pages:
        for module, listed in re.findall(r"^from (headwater\.[\w.]+) import (.+)$", page.read_text(), re.MULTILINE):
            assert module in names.public_modules(), f"{page.name}: {module}"
            assert {name.strip() for name in listed.split(",")} <= set(names.defined_in(module)), f"{page.name}: {listed}"


def test_a_program_with_types_runs_too():
    model = hw.load("one-layer")
    run = model.record("for line in open(")
    assert typed_use.strongest(run, "line")[0].startswith("L0H5")
    assert typed_use.without(model, run, "L0H5").shape == run.logits.shape
    assert -1 <= typed_use.copies(model.ov("L0H5")) <= model.ov("L0H5").rank() ** 0.5
    assert isinstance(typed_use.drawn(model, "for line"), str)
    assert typed_use.opened(reference_models()["one-layer"]) == model.config
