"""The page of all public names, made from the code: ``python book/names.py`` writes ``docs/api.md``, which a test holds against the code."""

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import headwater

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
MODULES = {
    "headwater.model": "checkpoint config export fold forward generate layout presets record reorder sources taps weights",
    "headwater.text": "corpus passages planted sources spoken tokenizer training",
    "headwater.circuits": (
        "behaviour bases capacity chance composition copying factored head norms overview panels paths placement spectrum tables"
    ),
    "headwater.trace": "attend check edits effects experts looks parts places run terms totals walk",
    "headwater.trace.view": "lens locality lookup stream",
    "headwater.train": "baselines evaluate loss ngrams predictors publish recipe recurrent run",
    "headwater.atlas": "atlas begun bugs build diff engines export found patterns quotations timeline verify",
    "headwater.claims": "claim evidence registry verdicts",
    "headwater.show": "html plots text values widgets",
}
"""What may be imported from besides ``headwater`` itself; other modules may change from one version to the next without a word."""


def public_modules() -> list[str]:
    """The names of all modules that count as public."""
    return [f"{folder}.{name}" for folder, names in MODULES.items() for name in names.split()]


def top_level() -> dict[str, Any]:
    """What ``import headwater as hw`` gives."""
    return {name: getattr(headwater, name) for name in sorted(headwater.__all__, key=str.lower) if name != "__version__"}


def defined_in(module: str) -> dict[str, Any]:
    """The functions and classes that a module defines for others."""
    inside = vars(importlib.import_module(module))
    return {
        name: thing
        for name, thing in inside.items()
        if not name.startswith("_")
        and (inspect.isclass(thing) or inspect.isroutine(thing))
        and getattr(thing, "__module__", "") == module
    }


def members(thing: type) -> Iterator[tuple[str, Any, Any]]:
    """The public methods and properties of a class, its own and those that it has from classes of ours: name, member, and what is called."""
    for name, found in inspect.getmembers_static(thing):
        owner = next(base for base in thing.__mro__ if name in vars(base))
        if name in getattr(thing, "__dataclass_fields__", {}):
            continue  # A field may hold a function; that is no method.
        called = getattr(found, "__func__", None) or getattr(found, "fget", None) or getattr(found, "func", None) or found
        if not name.startswith("_") and owner.__module__.startswith("headwater") and inspect.isfunction(inspect.unwrap(called)):
            yield name, found, called


def sentence(thing: Any) -> str:
    """The first sentence of what a thing says of itself; nothing where it says nothing."""
    inherited = inspect.isclass(thing) and not vars(thing).get("__doc__")
    first = "" if inherited else (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ").replace("``", "`")
    return re.split(r"(?<=\.) (?=[A-ZÀ-Þ`])", first, maxsplit=1)[0].replace("|", "\\|")


def arguments(thing: Any, *, is_method: bool = False) -> str:
    """``(text, *, most=…)``: names, and which may be left out."""
    try:
        listed = list(inspect.signature(thing).parameters.values())
    except (TypeError, ValueError):
        return ""
    parts = list[str]()
    for given in listed[1:] if is_method else listed:
        if given.kind is given.KEYWORD_ONLY and "*" not in parts and not any(part.startswith("*") for part in parts):
            parts.append("*")
        star = {given.VAR_POSITIONAL: "*", given.VAR_KEYWORD: "**"}.get(given.kind, "")
        parts.append(star + given.name + ("" if given.default is given.empty else "=…"))
    return f"({', '.join(parts)})"


def page() -> str:
    """The whole page."""
    return "\n".join([*_opening(), *_top(), *_classes(), *_modules()]) + "\n"


def _opening() -> list[str]:
    return [
        "# Public names\n",
        "Everything that may be relied on, with one sentence each; made from the code by `python book/names.py`, and a test fails where the two differ. Other",
        "names may change from one version to the next. `help(hw.Model)` and the [library reference](reference/library.md) say more.\n",
    ]


def _top() -> list[str]:
    rows = [f"| `hw.{name}{_given(thing)}` | {sentence(thing)} |" for name, thing in top_level().items()]
    return ["## import headwater as hw\n", "| | |\n|---|---|", *rows, ""]


def _given(thing: Any) -> str:
    return "" if inspect.isclass(thing) else arguments(thing)


def _classes() -> list[str]:
    lines = ["## Methods\n"]
    for name, thing in top_level().items():
        rows = [
            f"| `{method}{'' if _is_value(found) else arguments(called, is_method=not _is_static(found))}` | {sentence(called)} |"
            for method, found, called in (members(thing) if inspect.isclass(thing) else ())
        ]
        if rows:
            lines += [f"### hw.{name}\n", "| | |\n|---|---|", *rows, ""]
    return lines


def _is_value(found: Any) -> bool:
    """A property, computed each time or once."""
    return not isinstance(found, staticmethod | classmethod) and not inspect.isfunction(found)


def _is_static(found: Any) -> bool:
    return isinstance(found, staticmethod)


def _modules() -> list[str]:
    lines = ["## Modules\n"]
    for module in public_modules():
        rows = [f"| `{name}{_given(thing)}` | {sentence(thing)} |" for name, thing in defined_in(module).items()]
        lines += [f"### {module}\n", sentence(importlib.import_module(module)) + "\n", "| | |\n|---|---|", *rows, ""]
    return lines


if __name__ == "__main__":
    PAGE.write_text(page())
