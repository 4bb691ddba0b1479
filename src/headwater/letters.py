"""Letters as they can be seen, whatever they are."""

import unicodedata

FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
"""What Unicode counts among letters, marks and symbols, and nobody draws: fillers, joiners, a pattern of Braille without dots."""
SELECTORS = (("\ufe00", "\ufe0f"), ("\U000e0100", "\U000e01ef"))
"""Marks that choose how the letter before them is drawn."""


def visible(letter: str) -> str:
    """A letter, or what stands for one that nobody would see: a control character's picture, any other's number.

    >>> [visible(letter) for letter in "a \\n\\u3164"]
    ['a', ' ', '␊', '<U+3164>']
    """
    if letter <= "\x1f":
        return chr(0x2400 + ord(letter))
    if letter == "\x7f":
        return "␡"
    is_seen = unicodedata.category(letter)[0] not in "CZ" and letter not in FILLERS
    is_drawn = is_seen and not any(first <= letter <= last for first, last in SELECTORS)
    return letter if is_drawn or letter == " " else f"<U+{ord(letter):04X}>"
