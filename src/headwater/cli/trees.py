"""A tree in the terminal: guide lines, labels, signed bars around one zero line, numbers in one column, notes."""

import sys

from rich.text import Text

from headwater.cli import terminal
from headwater.cli.terminal import Screen
from headwater.show.rows import legible
from headwater.show.text import tree_lines
from headwater.show.values import Tree


def show_tree(tree: Tree) -> None:
    """The tree on stdout; what does not fit beside each other folds, nothing is left out."""
    screen = Screen(highlight=False, width=None if sys.stdout.isatty() else terminal.PIPED)
    if tree.title:
        screen.print(Text(legible(tree.title), "bold"), soft_wrap=True)
    for line in tree_lines(tree, screen.width):
        screen.print(line, soft_wrap=True)
