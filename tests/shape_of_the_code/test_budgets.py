"""Budgets that a reader would otherwise pay for."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import headwater

SOURCE = Path(headwater.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_fits_a_reading_and_a_function_a_screen(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if isinstance(node.body[0], ast.Expr) and ast.get_docstring(node) else node.body
            lines = node.end_lineno - body[0].lineno + 1 if body else 0
            assert lines <= 40, f"{node.name} has {lines} lines"


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["inspect", "--help"],
        ["generate", "--help"],
        ["convert", "--help"],
        ["demo", "--help"],
        *(
            [verb, "--help"]
            for verb in (
                "train",
                "eval",
                "study",
                "corpus",
                "heads",
                "check",
                "explain",
                "stream",
                "ablate",
                "attend",
                "atlas",
                "claims",
                "studio",
                "bench",
            )
        ),
    ],
)
def test_help_and_version_do_not_load_torch(arguments):
    code = f"""
import sys
from headwater.cli.main import app
app({arguments!r})
sys.exit("torch" in sys.modules)
"""
    result = run(code)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()


def test_importing_the_package_loads_no_heavy_library():
    assert (
        run("import sys, headwater; sys.exit(bool({'torch', 'numpy', 'rich', 'tokenizers'} & set(sys.modules)))").returncode
        == 0
    )


def test_public_names_are_there():
    for name in headwater.__all__:
        assert getattr(headwater, name) is not None
    with pytest.raises(AttributeError):
        _ = headwater.nothing_of_the_kind
