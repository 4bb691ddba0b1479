"""What can be seen on a drawn figure: its words, its heat-maps, its curves, and words that nobody could read."""

from dataclasses import dataclass
from itertools import combinations
from typing import Any, get_args

from headwater.claims.claim import Language
from headwater.claims.evidence import Fact, beside, drawn
from headwater.claims.figures.drawings import drawing_of
from headwater.claims.given import Given
from headwater.show.looks import Look

SLACK = 1.0
"""Pixels by which the boxes of two words may meet: a box is a little larger than its letters."""


@dataclass(frozen=True)
class Shown:
    """A figure as its reader sees it."""

    words: tuple[str, ...]
    pictures: int
    """Heat-maps."""
    unreadable: tuple[str, ...]
    """Words that lie on each other or leave the paper."""

    def has(self, *words: str) -> int:
        """How many of these stand on the figure, by themselves or within a longer text."""
        return sum(any(word in text for text in self.words) for word in words)


def shown(given: Given, id_: str, language: Language = "en") -> Shown:
    """A figure, drawn and looked at."""
    return given.once(f"shown {id_} {language}", lambda: _look_at(given, id_, Look(language)))


def legible(given: Given, id_: str, on: str = "") -> Fact:
    """That every word of a figure can be read, in both languages; of somebody's own model, whose words may be longer, only how many cannot."""
    unreadable = sum(len(shown(given, id_, language).unreadable) for language in get_args(Language))
    return beside("legible", unreadable) if given.is_own(on) else drawn("legible", unreadable, equal=0)


def _look_at(given: Given, id_: str, look: Look) -> Shown:
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    drawing = drawing_of(id_)
    with mpl.rc_context(look.settings):
        figure = drawing.draw(drawing.data(given), look)
        FigureCanvasAgg(figure)
        figure.draw_without_rendering()
        beyond = {label for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for label in _beyond(axis)}
        texts: list[Any] = [text for text in figure.findobj(Text) if text not in beyond and _is_seen(text)]
        pictures = sum(len(axes.images) for axes in figure.axes)
        return Shown(tuple(text.get_text() for text in texts), pictures, _unreadable(texts, figure.bbox))


def _is_seen(text: Any) -> bool:
    """Whether it says something, and is drawn: an axes that is off hides what is its own."""
    return bool(text.get_text().strip() and text.get_visible() and text.get_window_extent().width > 0)


def _beyond(axis: Any) -> list[Any]:
    """Labels of ticks beyond the ends of an axis, which has them ready and draws none of them."""
    low, high = sorted(axis.get_view_interval())
    ticks = [
        *zip(axis.get_major_ticks(), axis.get_majorticklocs(), strict=True),
        *zip(axis.get_minor_ticks(), axis.get_minorticklocs(), strict=True),
    ]
    return [label for tick, at in ticks if not low <= at <= high for label in (tick.label1, tick.label2)]


def _unreadable(texts: list[Any], paper: Any) -> tuple[str, ...]:
    boxes = [(text.get_text(), text.get_window_extent().padded(-SLACK)) for text in texts]
    cut = [word for word, box in boxes if box.x0 < paper.x0 or box.y0 < paper.y0 or box.x1 > paper.x1 or box.y1 > paper.y1]
    clashes = [f"{one} | {other}" for (one, a), (other, b) in combinations(boxes, 2) if a.overlaps(b)]
    return (*cut, *clashes)
