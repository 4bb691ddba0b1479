"""Texts of claims for a page: their formulas as MathML, which browsers show without a script.

The MathML is made here, of the documents' own LaTeX; everything else of a text is plain, for the page to show as text.
"""

import functools
import re
from typing import Literal

from latex2mathml.converter import convert

from headwater.studio.asked import Answer

PIECES = re.compile(r"(\$[^$]+\$|`[^`]+`)")


class Piece(Answer):
    """A stretch of a text: plain, a formula, or code."""

    kind: Literal["text", "math", "code"]
    text: str
    """As it is; of a formula its LaTeX."""
    mathml: str = ""


class Formula(Answer):
    """A formula on a line of its own."""

    latex: str
    mathml: str


@functools.cache
def mathml(latex: str, display: Literal["inline", "block"] = "inline") -> str:
    """A formula of ours, for a browser."""
    # The converter knows align* and not aligned, whose ampersands it would show.
    return convert(latex.replace("{aligned}", "{align*}"), display=display)


def formula(latex: str) -> Formula | None:
    """A formula on a line of its own; none where there is none."""
    return Formula(latex=latex, mathml=mathml(latex, "block")) if latex else None


def prose(text: str) -> list[Piece]:
    """A text whose formulas stand between dollar signs and whose code between backticks.

    >>> [(piece.kind, piece.text) for piece in prose("the norm $x^2$ of `x`")]
    [('text', 'the norm '), ('math', 'x^2'), ('text', ' of '), ('code', 'x')]
    """
    return [_piece(piece) for piece in PIECES.split(" ".join(text.split())) if piece]


def _piece(piece: str) -> Piece:
    if len(piece) > 2 and piece[0] == piece[-1] == "$":
        return Piece(kind="math", text=piece[1:-1], mathml=mathml(piece[1:-1]))
    if len(piece) > 2 and piece[0] == piece[-1] == "`":
        return Piece(kind="code", text=piece[1:-1])
    return Piece(kind="text", text=piece)
