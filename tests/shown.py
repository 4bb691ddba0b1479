"""Answers to be drawn, with words of every kind in them."""

from hypothesis import strategies as st

from headwater.show.values import Branch, Tree

HOSTILE = (
    "</script><script>alert(1)</script>",
    "</style><b>bold",
    "\"' onmouseover='x' style=\"",
    "\u202eright to left\u202c",
    "\u2068‘مرحبا’\u2069",
    "a\nb\tc\x00\x1b[31md\x7f",
    "&amp; &lt; <!-- ]]>",
    "$x_1^2$ \\alpha \\$ _ % #",
    "三つ 한국어 🙂 e\u0301",
    "[bold]markup[/bold]",
    "\ud800 \ufffe \ue000",
    "  two  spaces  ",
    "",
)


def one_of_each_kind() -> Tree:
    """A number taken apart as explanations are."""
    sources = (
        Branch(label="‘one’@0", value=1.75, kind="source", note="41 %"),
        Branch(label="‘ two’@1", value=-0.5, kind="source"),
        Branch(label="5 smaller parts", value=0.25, kind="remainder", note="none above 0.1"),
    )
    parts = (
        Branch(label="L0H3", value=1.5, kind="head", branches=sources),
        Branch(label="embedding ‘,’", value=2.0, kind="embedding"),
        Branch(label="137 smaller parts", value=-0.25, kind="remainder"),
    )
    root = Branch(label="‘ three’", value=3.25, branches=parts)
    return Tree(title="Why ‘ three’", root=root, remarks=("Adds up within 4.8e-07.",))


def flat(labels: list[str]) -> Tree:
    """A tree with these words as its labels, notes, kind and titles."""
    parts = tuple(Branch(label=text, value=(-1.0) ** i * i, note=text, kind=text) for i, text in enumerate(labels))
    root = Branch(label=labels[0], value=sum(part.value for part in parts), branches=parts)
    return Tree(title=labels[-1], root=root, remarks=tuple(labels))


words = st.lists(st.text(max_size=8), min_size=1, max_size=4)
