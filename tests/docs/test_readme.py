"""The README's example prints what the README says, and its commands exist."""

import re
import subprocess
import sys
from pathlib import Path

from headwater.cli.main import app

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_examples_print_what_the_readme_says():
    blocks = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 2
    code, printed = ("".join(parts) for parts in zip(*blocks, strict=True))
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # The certificate is rounding, which differs from machine to machine.
    assert without_certificate(result.stdout) == without_certificate(printed)
    assert float(re.search(r"certificate: (.*)", result.stdout)[1]) < 1e-5


def without_certificate(text):
    return re.sub(r"certificate: .*", "certificate", text)


def test_every_command_in_the_readme_exists_and_no_other_does():
    named = set(re.findall(r"^headwater (\w+)", README, re.MULTILINE))
    assert named == {name for name in app if not name.startswith("-")}


def test_every_file_in_the_readme_exists():
    tree = re.search(r"```\n(src/headwater/\n.*?)```", README, re.DOTALL)[1]
    folder = ROOT
    for line in tree.splitlines():
        depth, name = (len(line) - len(line.lstrip())) // 2, line.split()[0]
        folder = ROOT if depth == 0 else ROOT / "src/headwater" if depth == 1 else ROOT / "src/headwater/model"
        assert (folder / name).exists(), line


def test_every_make_target_in_the_readme_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)", README)) <= targets
