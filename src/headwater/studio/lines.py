"""A model and a text as Python and as a shell take them, for the lines that give the same numbers without the studio.

A text comes from an address, which anybody may have written: whoever copies a line must get that text and nothing else, whatever stands in it.
"""

import shlex
from typing import TYPE_CHECKING

from headwater.shapes import whole

if TYPE_CHECKING:
    from headwater.trace.run import Run


def text_in_python(text: str, run: "Run") -> str:
    """The text, or the ids that it is given by."""
    return repr(whole(run.tokens[0])) if text.startswith("ids:") else repr(text)


def text_in_shell(text: str, run: "Run") -> str:
    """The text as one word; by its ids where it is given by them, or where a word would not do.

    A text with a dash in front would be taken for an option. A terminal into which it is pasted takes what cannot be printed, as tabs, escapes and ends of
    lines, for something that it is to do; and there is no word with NUL in it.
    """
    is_plain = not text.startswith(("ids:", "-")) and text.isprintable()
    return shlex.quote(text) if is_plain else "--ids " + ",".join(map(str, whole(run.tokens[0])))


def recorded(model: str, text: str, run: "Run") -> str:
    """In Python: what a model does with a text."""
    return f"hw.load({model!r}).record({text_in_python(text, run)})"


def command(verb: str, model: str, text: str, run: "Run", options: str) -> str:
    """In a shell: a verb about a model and a text."""
    return f"headwater {verb} {path_in_shell(model)} {text_in_shell(text, run)} {options}"


def path_in_shell(path: str) -> str:
    """A path, or the name of a model of ours, as one word; one with a dash in front would be taken for an option.

    >>> path_in_shell("-it's")
    '\\'./-it\\'"\\'"\\'s\\''
    """
    return shlex.quote(f"./{path}" if path.startswith("-") else path)
