"""Drawings that can be clicked in notebooks: the studio's own, as anywidget widgets, of plain data.

A value hands over what it is drawn from and a function that answers further questions; nothing else of it is known here. Where anywidget is not
installed, the page was not built or nobody runs scripts, the value is shown as it always was: its HTML and its text stay in the bundle.
"""

import importlib.util
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from headwater.errors import HeadwaterError, InputError

Kind: TypeAlias = Literal["river", "attention", "heads", "table"]
Language: TypeAlias = Literal["auto", "en", "pt"]
Theme: TypeAlias = Literal["auto", "light", "dark"]
Answer: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]
VIEW = "application/vnd.jupyter.widget-view+json"
PAGE = Path(__file__).parents[1] / "page"
MODULE, STYLE = "widgets.js", "widgets.css"


def nothing_more(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer of a drawing that knows no further questions."""
    raise InputError(f"the question {request.get('ask')!r:.40}", "none: all that there is to know is drawn", "ask in Python")


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """What is drawn: dictionaries, lists, numbers, texts, and bytes for arrays."""

    kind: Kind
    data: Mapping[str, Any]
    answer: Answer = nothing_more
    """Asked when somebody clicks for more. At its outermost level an answer may hold bytes."""


class Displayed:
    """A value that draws itself in Jupyter, VS Code and marimo, and can be clicked there."""

    def drawing(self) -> Drawing | None:
        """What is drawn, and who answers; None where there is nothing to click and the HTML says it all."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        raise NotImplementedError

    def widget(self, *, language: Language = "auto", theme: Theme = "auto") -> Any:
        """The drawing as an anywidget widget, to be placed among others or in a language of its own.

        It is what a notebook shows for the value anyway; "auto" follows the notebook.
        """
        if not can_click():
            needs_page = importlib.util.find_spec("anywidget") is not None
            raise InputError(
                "a widget" + (" without the built page" if needs_page else " without anywidget"),
                "anywidget, and widgets.js inside the package",
                "make page, from a checkout" if needs_page else "pip install 'headwater[notebook]'",
            )
        drawing = self.drawing()
        if drawing is None:
            raise InputError(f"a widget of {self!r:.80}", "something that can be clicked", "let the notebook show it")
        return widget_of(drawing, language, theme)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any] | None:
        """For Jupyter and whatever speaks like it; nothing where plain HTML or text is all that is shown anyway."""
        del include, exclude
        drawing = None if not can_click() or _is_terminal() else self.drawing()
        if drawing is None:
            return None
        # In a saved notebook, on GitHub, in a mail: where nobody knows the widget, these are shown.
        shown = {"text/plain": repr(self), "text/html": self._repr_html_()}
        made = widget_of(drawing)
        return {**shown, VIEW: {"version_major": 2, "version_minor": 0, "model_id": made.model_id}}

    def _display_(self) -> Any:
        """For marimo, which draws whatever this returns."""
        drawing = self.drawing() if can_click() else None
        return _Html(self._repr_html_()) if drawing is None else widget_of(drawing)


@dataclass(frozen=True)
class _Html:
    text: str

    def _repr_html_(self) -> str:
        return self.text


def can_click(page: Path | None = None) -> bool:
    """Whether widgets can be made: anywidget is installed, and the page was built."""
    folder = page or PAGE
    is_built = all((folder / name).is_file() for name in (MODULE, STYLE))
    return is_built and importlib.util.find_spec("anywidget") is not None


def _is_terminal() -> bool:
    """Whether IPython runs where text is all that can be shown."""
    library = sys.modules.get("IPython")
    shell = library.get_ipython() if library is not None else None
    return shell is not None and "text/html" not in shell.display_formatter.active_types


def widget_of(drawing: Drawing, language: Language = "auto", theme: Theme = "auto") -> Any:
    """A widget that draws this and passes on what it is asked."""
    data = finite(drawing.data)
    made = _widget_class(PAGE)(kind=drawing.kind, data=data, language=language, theme=theme)

    def heard(_: object, content: object, buffers: object) -> None:
        del buffers
        if isinstance(content, dict):
            _reply(made, cast(dict[str, Any], content), drawing.answer)

    made.on_msg(heard)
    return made


@cache
def _widget_class(page: Path) -> type[Any]:
    import anywidget
    import traitlets

    class HeadwaterWidget(anywidget.AnyWidget):
        """One drawing."""

        _esm = (page / MODULE).read_text("utf-8")
        _css = (page / STYLE).read_text("utf-8")
        kind = traitlets.Unicode().tag(sync=True)
        data = traitlets.Dict().tag(sync=True)
        language = traitlets.Unicode("auto").tag(sync=True)
        theme = traitlets.Unicode("auto").tag(sync=True)

    return HeadwaterWidget


def _reply(widget: Any, content: Mapping[str, Any], answer: Answer) -> None:
    """Answer one question, or say what was wrong with it; whatever happens, somebody waits for a reply."""
    number, request = content.get("question"), content.get("request")
    if not isinstance(number, int) or not isinstance(request, dict):
        return
    try:
        found = answer(cast(dict[str, Any], request))
    except HeadwaterError as error:
        widget.send({"question": number, "error": {"given": error.given, "needed": error.needed, "do": error.do}})
        return
    except Exception as error:
        told = {"given": f"{type(error).__name__}: {error}"[:400], "needed": "", "do": ""}
        widget.send({"question": number, "error": told})
        raise
    arrays = {name: value for name, value in found.items() if isinstance(value, bytes)}
    rest = {name: value for name, value in found.items() if name not in arrays}
    widget.send({"question": number, "answer": finite(rest), "arrays": list(arrays)}, buffers=list(arrays.values()))


def finite(value: Any) -> Any:
    """The same data with None for what is no number or infinite, which JSON does not have.

    >>> finite({"a": [1.5, float("nan")]})
    {'a': [1.5, None]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): finite(inner) for name, inner in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in cast(list[Any], value)]
    return value
