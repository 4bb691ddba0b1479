"""The commands of the documentation print what the documentation says."""

import re
import shlex
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "explanations.md").read_text()
COMMANDS = re.findall(r"```console\n\$ headwater (.*?)\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("command", "printed"), COMMANDS, ids=lambda text: text[:40])
def test_a_command_prints_what_stands_below_it(headwater, command, printed):
    result = headwater(*shlex.split(command))
    assert result.returncode == 0, result.stderr
    assert _without_rounding(result.stdout) == _without_rounding(printed)


def _without_rounding(text):
    """Certificates are rounding, which differs from machine to machine."""
    return [re.sub(r"\d(\.\d)?e-\d\d", "rounding", line.rstrip()) for line in text.splitlines()]


def test_there_are_three_explanations_each_with_its_ablation():
    sections = PAGE.split("\n## ")[1:]
    assert len(sections) == 3
    for section in sections:
        assert "$ headwater explain" in section
        assert "$ headwater ablate" in section
