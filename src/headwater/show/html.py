"""Answers as HTML: a fragment for notebooks, and a page that is one file and asks nothing of the network."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

from headwater.files.atomic import write_file
from headwater.show.plots import MOST_NUMBERS, check_place, drawing
from headwater.show.rows import Measure, legible, rows_of
from headwater.show.style import FRAGMENT, PAGE
from headwater.show.values import Branch, Cloud, Grid, Panel, Section, Table, Tree

ENDINGS = ("html", "htm")
OPEN = 2
"""Levels of a tree that are open at first: the number, and each of its parts."""
MOST_LETTERS = 44
"""The width of the column of labels; longer ones fold."""
MOST_ACROSS = 9
"""Letters of names that stand over a column of numbers as they are; longer ones are turned."""
MOST_CELLS = 6_400
"""Of a grid that a browser shows quickly cell by cell; larger ones are drawn as one image."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""What a page may load and run: nothing."""


def fragment(*sections: Section, remarks: Sequence[str] = ()) -> str:
    """The sections as a piece of HTML with styles of its own, which touch nothing around it: for ``_repr_html_``.

    >>> fragment(Table(title="", columns=("word",), rows=(("<b>",),))).count("&lt;b&gt;")
    1
    """
    return f'<div class="headwater"><style>{FRAGMENT}</style>{_body(sections, remarks)}</div>'


def page(title: str, sections: Sequence[Section], remarks: Sequence[str] = ()) -> str:
    """A whole document with a title, the sections below each other, and what is to be said about all of them."""
    # What the page is called need not be said twice.
    sections = [replace(section, title="") if section.title == title else section for section in sections]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{_plain(title)}</title>\n<style>{PAGE}{FRAGMENT}</style>\n</head>\n"
        f'<body>\n<main class="headwater">\n<h1>{_text(title)}</h1>\n{_body(sections, remarks)}</main>\n</body>\n</html>\n'
    )


def check_page(path: Path, option: str = "--html") -> None:
    """Refuse a place that no page can be written to, before the work is done."""
    check_place(path, ENDINGS, option)


def write_page(path: Path, title: str, sections: Sequence[Section], remarks: Sequence[str] = ()) -> None:
    """Write a page to a file: afterwards the old one is there or the new one."""
    check_page(path)
    write_file(path, page(title, sections, remarks).encode())


def _body(sections: Iterable[Section], remarks: Iterable[str]) -> str:
    return "".join(map(_section, sections)) + _remarks(remarks)


def _section(section: Section) -> str:
    if isinstance(section, Tree):
        return _tree(section)
    if isinstance(section, Table):
        return _table(section)
    if isinstance(section, Grid) and len(section.rows) * len(section.columns) <= MOST_CELLS:
        return _grid(section)
    return _plot(section)


def _plain(text: str) -> str:
    return escape(legible(text))


def _text(text: str) -> str:
    """A text in as many lines, isolated, so that one read from the right turns nothing around it."""
    return f"<bdi>{'<br>'.join(map(_plain, text.split(chr(10))))}</bdi>"


def _remarks(remarks: Iterable[str]) -> str:
    return "".join(f'<p class="hw-remark">{_text(remark)}</p>\n' for remark in remarks)


def _caption(title: str, tag: str) -> str:
    return f"<{tag}>{_text(title)}</{tag}>\n" if title else ""


def _tree(tree: Tree) -> str:
    rows = rows_of(tree)
    measure = Measure.of(row.branch.value for row in rows)
    label = min(MOST_LETTERS, max(0.9 * len(row.label) + 2.1 * row.depth for row in rows) + 3)
    number = max(len(measure.number(row.branch.value)) for row in rows)
    end = _number(measure, measure.reach)
    scale = f"<span>{end.replace('+', '−')}</span><span>0</span><span>{end}</span>"
    return (
        f'<figure class="hw-tree" style="--label:{label:.4g}ch;--number:{number + 1}ch">\n{_caption(tree.title, "figcaption")}'
        f'<div class="hw-row hw-scale" aria-hidden="true"><span></span><span class="hw-ends">{scale}</span></div>\n'
        f"{_branch(tree.root, 0, measure)}{_remarks(tree.remarks)}</figure>\n"
    )


def _branch(branch: Branch, depth: int, measure: Measure) -> str:
    kinds = f"hw-row{' hw-remainder' if branch.kind == 'remainder' else ''}"
    row = f'class="{kinds}" style="--depth:{depth}" data-kind="{_plain(branch.kind)}">{_cells(branch, measure)}'
    if not branch.branches:
        return f"<div {row}</div>\n"
    inner = "".join(_branch(each, depth + 1, measure) for each in branch.branches)
    return f"<details{' open' if depth < OPEN else ''}><summary {row}</summary>\n{inner}</details>\n"


def _cells(branch: Branch, measure: Measure) -> str:
    share = measure.share(branch.value)
    bar = f'<i class="hw-{"plus" if share > 0 else "minus"}" style="width:{50 * abs(share):.2f}%"></i>' if share else ""
    return (
        f'<span class="hw-label">{_text(legible(branch.label))}</span><span class="hw-bar" aria-hidden="true">{bar}</span>'
        f'<span class="hw-number">{_number(measure, branch.value)}</span>'
        f'<span class="hw-note">{_text(legible(branch.note)) if branch.note else ""}</span>'
    )


def _number(measure: Measure, value: float) -> str:
    return measure.number(value).replace("-", "−")


def _table(table: Table) -> str:
    kinds = [' class="hw-right"' if column.endswith("#") else "" for column in table.columns]
    heads = [_text(column.removesuffix("#")) for column in table.columns]
    head = "".join(f'<th scope="col"{kind}>{name}</th>' for kind, name in zip(kinds, heads, strict=True))
    rows = "".join(
        f"<tr>{''.join(f'<td{kind}>{_text(cell)}</td>' for kind, cell in zip(kinds, row, strict=True))}</tr>\n"
        for row in table.rows
    )
    shown = f"<thead><tr>{head}</tr></thead>\n" if any(table.columns) else ""
    return _scrolled(
        table.title, f'<table class="hw-table">\n{_caption(table.title, "caption")}{shown}<tbody>{rows}</tbody></table>'
    )


def _scrolled(title: str, inner: str) -> str:
    """What may be wider than the page moves by itself, and by keys too."""
    return f'<div class="hw-wide" role="region" aria-label="{_plain(title)}" tabindex="0">{inner}</div>\n'


def _grid(grid: Grid) -> str:
    corner = f'<th class="hw-corner"><span>{_text(grid.y)} ↓</span><span>{_text(grid.x)} →</span></th>'
    head = "".join(f'<th scope="col"><span>{_text(name)}</span></th>' for name in grid.columns)
    has_numbers = len(grid.rows) * len(grid.columns) <= MOST_NUMBERS
    rows = "".join(
        f'<tr><th scope="row">{_text(name)}</th>{"".join(_cell(grid, name, *pair, has_numbers=has_numbers) for pair in pairs)}</tr>\n'
        for name, pairs in zip(grid.rows, (zip(grid.columns, values, strict=True) for values in grid.values), strict=True)
    )
    is_flat = has_numbers and max(map(len, grid.columns), default=0) <= MOST_ACROSS
    kind = f"hw-grid{'' if has_numbers else ' hw-dense'}{' hw-flat' if is_flat else ''}"
    caption = _caption(grid.title, "caption")
    table = f'<table class="{kind}">\n{caption}<thead><tr>{corner}{head}</tr></thead>\n<tbody>{rows}</tbody></table>'
    return _scrolled(grid.title, table)


def _cell(grid: Grid, row: str, column: str, value: float, *, has_numbers: bool) -> str:
    if not math.isfinite(value):
        return f'<td title="{_plain(row)}, {_plain(column)}: none"></td>'
    away = (value - grid.middle) / grid.reach if grid.reach else 0.0
    side = ' class="hw-below"' if away < 0 else ""
    shown = f"{value:z.2f}".replace("-", "−") if has_numbers else ""
    title = f"{_plain(row)}, {_plain(column)}: {value:z.4g}"
    return f'<td{side} style="--away:{min(1.0, abs(away)) * 80:.0f}%" title="{title}">{shown}</td>'


def _plot(picture: Panel | Cloud | Grid) -> str:
    """A drawing inside the page, in the colour of its words; what it would do to the rest of the page is taken out."""
    text = drawing([picture], is_clear=True).decode().replace("#000000", "currentColor")
    svg = re.sub(r"<(metadata|style)\b.*?</\1>", "", text[text.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*">', "<g>", svg)
    named = svg.replace("<svg", f'<svg role="img" aria-label="{_plain(picture.title)}"', 1)
    return f'<figure class="hw-plot">{named}</figure>\n'
