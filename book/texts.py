"""Texts of claims as Markdown: formulas become MathML, which browsers show without a script."""

import re

from latex2mathml.converter import convert

PIECES = re.compile(r"(\$[^$]+\$|`[^`]+`)")


def formula(latex: str) -> str:
    """A formula on a line of its own."""
    return f'<div class="formula">{_math(latex, "block")}</div>'


def prose(text: str) -> str:
    """A text whose formulas stand between dollar signs; what Markdown would take for its own signs is shown as it is."""
    return "".join(_piece(piece) for piece in PIECES.split(" ".join(text.split())))


def cell(text: str) -> str:
    """The same in a table."""
    return prose(text).replace("|", "&#124;")


def _piece(piece: str) -> str:
    if piece.startswith("$") and piece.endswith("$") and len(piece) > 1:
        return _math(piece[1:-1], "inline")
    if piece.startswith("`") and piece.endswith("`") and len(piece) > 1:
        return piece
    return re.sub(r"([\\*_\[\]])", r"\\\1", piece.replace("&", "&amp;").replace("<", "&lt;"))


def _math(latex: str, display: str) -> str:
    """MathML in which nothing is left that Markdown would read."""
    return convert(latex, display=display).replace("*", "&#42;").replace("_", "&#95;").replace("|", "&#124;")


def with_formulas(page: str) -> str:
    """A page written by hand: its formulas become MathML, blocks of code stay as they are."""
    blocks = re.split(r"(^```.*?^```$)", page, flags=re.MULTILINE | re.DOTALL)
    return "".join(block if block.startswith("```") else PIECES.sub(_shown, block) for block in blocks)


def _shown(found: re.Match[str]) -> str:
    return _math(found[0][1:-1], "inline") if found[0].startswith("$") else found[0]
