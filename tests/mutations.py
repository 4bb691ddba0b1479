"""Changes that make the library wrong, and the claims that must notice: each was tried, and each is caught."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """In ``file``, ``old`` becomes ``new``; the claims of ``ids`` must turn."""

    name: str
    file: str
    old: str
    new: str
    ids: tuple[str, ...]


MUTATIONS: tuple[Mutation, ...] = ()
