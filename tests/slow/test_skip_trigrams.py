"""The page of skip-trigrams says what the atlas of the one-layer model says."""

import platform
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "skip-trigrams.md").read_text()
COMMANDS = [
    command.split("\n", 1)
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    for command in re.split(r"^\$ headwater ", block, flags=re.MULTILINE)[1:]
]
IS_SAME_TEXT = f"Python {platform.python_version()}'s library" in PAGE
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.xdist_group("skip_trigrams")]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the atlas that the page is about."""
    there = tmp_path_factory.mktemp("page")
    [build] = re.findall(r"^headwater (atlas build .*)$", PAGE, re.MULTILINE)
    result = subprocess.run(
        [sys.executable, "-m", "headwater", *shlex.split(build)], cwd=there, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return there


@pytest.mark.parametrize(("command", "printed"), COMMANDS, ids=lambda text: text[:50])
def test_a_command_prints_what_the_page_says(place, command, printed):
    result = subprocess.run(
        [sys.executable, "-m", "headwater", *shlex.split(command)], cwd=place, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    told, said = (_lines(text) for text in (result.stdout, printed))
    if IS_SAME_TEXT:
        # Counts and words are exact; the last digit of what was measured is rounding, which differs from machine to machine.
        assert [_words(line) for line in told] == [_words(line) for line in said]
    else:
        assert told[0] == said[0]


def test_the_example_in_python_runs(place):
    [(code, printed)] = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
    result = subprocess.run([sys.executable, "-c", code], cwd=place, capture_output=True, text=True, check=True)
    assert _lines(result.stdout)[0] == _lines(printed)[0]


@pytest.mark.skipif(not IS_SAME_TEXT, reason="another text, of which the page says nothing")
def test_lifts_agree_with_what_is_measured_in_rank(place):
    from headwater.atlas.atlas import open_atlas

    with open_atlas(place / "one-layer-atlas") as atlas:
        found = atlas.relation("agreement").fetchnumpy()
    agreed = {atlas.heads[head]: value for head, value in zip(found["head"].tolist(), found["lift"].tolist(), strict=True)}
    # Four of the five heads with the largest lifts; the fifth, L0H2, has few rows that stand five times in held-out text.
    assert all(agreed[head] > 0.8 for head in ("L0H3", "L0H5", "L0H6", "L0H7"))


def _lines(text):
    return [line.rstrip() for line in text.strip().splitlines()]


def _words(line):
    """A line without the numbers that have a decimal point."""
    return re.sub(r"[+-]?\d+\.\d+(e-\d+)?|[+-]\d+(?![\w])", "#", re.sub(r" +", " ", line))
