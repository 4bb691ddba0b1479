"""The reference, made from the code: what each command says of itself, and every public name with its signature and docstring."""

import importlib
import inspect
import io
import pkgutil
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import headwater
from headwater.cli.main import VERBS, app


def write_reference(place: Path) -> None:
    """Both pages."""
    folder = place / "reference"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "commands.md").write_text(_commands())
    (folder / "library.md").write_text(_library())


def _commands() -> str:
    parts = ["# Commands\n", "What `headwater VERB --help` prints.\n", _helped([])]
    for verb, (_, line) in VERBS.items():
        parts += [f"## headwater {verb}\n", f"{line}\n", _helped([verb])]
        parts += [f"### headwater {verb} {name}\n\n{_helped([verb, name])}" for name in _subcommands(verb)]
    return "\n".join(parts)


def _subcommands(verb: str) -> list[str]:
    return [name for name in app[verb] if not name.startswith("-")]


def _helped(words: list[str]) -> str:
    file = io.StringIO()
    with redirect_stdout(file):
        app([*words, "--help"])
    return f"```text\n{file.getvalue().strip()}\n```\n"


def _library() -> str:
    parts = [
        "# Library\n",
        "`import headwater as hw`: the public names, by the module that they live in. Rows multiply from the left, `x @ W`; "
        "a table's axes read *from → to*.\n",
    ]
    homes: dict[str, list[str]] = {}
    for name in sorted(set(headwater.__all__) - {"__version__"}, key=str.lower):
        homes.setdefault(getattr(headwater, name).__module__, []).append(name)
    for home in sorted(homes):
        parts += [f"## {home}\n", _first(importlib.import_module(home)) + "\n"]
        parts += [_entry(name, getattr(headwater, name)) for name in homes[home]]
    return "\n".join([*parts, *_modules()])


def _first(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ").replace("``", "`")


def _entry(name: str, thing: Any) -> str:
    lines = [f"### hw.{name} {{ #hw.{name} }}\n", f"```python\n{name}{_signature(thing)}\n```\n", _documented(thing)]
    if inspect.isclass(thing):
        for method, member in inspect.getmembers(thing, _is_public):
            if method in vars(thing) and not method.startswith("_"):
                given = "" if isinstance(member, property) else _signature(member)
                lines.append(f"- `{name}.{method}{given}`: {_first(member)}")
    return "\n".join([*lines, ""])


def _is_public(member: Any) -> bool:
    return isinstance(member, property) or inspect.isfunction(member)


def _signature(thing: Any) -> str:
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for name, parameter in signature.parameters.items()
        if name != "self"
    ]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def _documented(thing: Any) -> str:
    """A docstring as Markdown: examples become blocks of code."""
    out, is_code = list[str](), False
    for line in (inspect.getdoc(thing) or "").splitlines():
        begins = line.startswith(">>>") and not is_code
        ends = is_code and not line.strip()
        out += ["```pycon"] * begins + ["```"] * ends + [line if begins or is_code else line.replace("``", "`")]
        is_code = (is_code or begins) and not ends
    return "\n".join([*out, *["```"] * is_code, ""])


def _modules() -> list[str]:
    """The folders, which show the data path."""
    lines = ["## All modules\n"]
    for found in pkgutil.walk_packages(headwater.__path__, "headwater."):
        if "__main__" not in found.name:
            lines.append(f"- `{found.name}`: {_first(importlib.import_module(found.name))}")
    return lines
