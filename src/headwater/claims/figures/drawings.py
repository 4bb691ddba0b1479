"""The figures by the ids of the claims that ask for them: what is gathered from models and runs, and how it is drawn."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from headwater.claims.given import Given
from headwater.claims.registry import check_of
from headwater.show.looks import Look, written

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Data = TypeVar("Data")


@dataclass(frozen=True)
class Drawing:
    """A figure: ``gather`` takes its numbers from models and runs, ``draw`` puts them on paper. A studio draws from the same data."""

    id: str
    gather: Callable[[Given], Any]
    draw: Callable[[Any, Look], Any]

    def data(self, given: Given) -> Any:
        """Its numbers, gathered once."""
        return given.once(f"figure {self.id}", lambda: self.gather(given))

    def file(self, given: Given, look: Look, kind: Literal["svg", "png"] = "svg") -> bytes:
        """The figure as the bytes of a file."""
        data = self.data(given)
        return written(lambda: self.draw(data, look), look, kind)


_DRAWINGS: dict[str, Drawing] = {}


def draws(
    id_: str, gather: Callable[[Given], Data]
) -> "Callable[[Callable[[Data, Look], Figure]], Callable[[Data, Look], Figure]]":
    """Says which figure a function draws, and from what."""

    def register(draw: "Callable[[Data, Look], Figure]") -> "Callable[[Data, Look], Figure]":
        _DRAWINGS[id_] = Drawing(id_, gather, draw)
        return draw

    return register


def drawing_of(id_: str) -> Drawing:
    """The figure that a claim asks for; its module is that of the claim's check."""
    check_of(id_)
    return _DRAWINGS[id_]
