"""What the pages of the book say is run: commands and examples print what stands below them, in both languages."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [page for folder in (DOCS, DOCS / "pt") for page in sorted(folder.glob("*.md"))]
ELSEWHERE = {"explanations.md", "skip-trigrams.md", "atlas-format.md"}
"""Pages with tests of their own."""
COMMANDS = [
    (page, *found)
    for page in PAGES
    if page.name not in ELSEWHERE
    for found in re.findall(r"```console\n\$ headwater (.*?)\n(.*?)```", page.read_text(), re.DOTALL)
]
EXAMPLES = [
    (page, *found)
    for page in PAGES
    if page.name not in ELSEWHERE
    for found in re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page.read_text(), re.DOTALL)
]


DONE = {}
pytestmark = pytest.mark.docs


def _name(value):
    return value.name if isinstance(value, Path) else value[:40]


@pytest.mark.parametrize(("page", "command", "printed"), COMMANDS, ids=_name)
def test_a_command_prints_what_stands_below_it(headwater, page, command, printed):
    # Pages in two languages ask for the same: it is done once.
    result = DONE[command] = DONE.get(command) or headwater(*shlex.split(command))
    assert result.returncode == 0, result.stderr
    assert _without_rounding(result.stdout) == _without_rounding(printed)


@pytest.mark.parametrize(("page", "code", "printed"), EXAMPLES, ids=_name)
def test_an_example_prints_what_stands_below_it(page, code, printed):
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert _without_rounding(result.stdout) == _without_rounding(printed)


def _without_rounding(text):
    """Certificates are rounding, which differs from machine to machine, and with it the width of a column."""
    lines = [re.sub(r"\d([.,]\d+)?e-\d\d|0.0e\+00", "rounding", line) for line in text.splitlines()]
    return [" ".join(line.split()) for line in lines]


def test_every_block_of_code_is_run():
    assert len(COMMANDS) >= 10
    for page in PAGES:
        kinds = re.findall(r"^```(\w+)\n", page.read_text(), re.MULTILINE)
        assert set(kinds) <= {"console", "python", "text", "sql"} | ({"sh"} if page.name == "scaling.md" else set()), page
        if page.name not in ELSEWHERE:
            assert kinds.count("python") == sum(page == of for of, *_ in EXAMPLES), page
            assert kinds.count("console") == sum(page == of for of, *_ in COMMANDS), page


def test_links_lead_somewhere():
    made = re.compile(r"^(documents|reference)/|^\.\./index\.html$|^https?://")
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            assert made.match(target) or (page.parent / target).exists(), f"{page.name}: {target}"
