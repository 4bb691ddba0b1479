"""Two atlases side by side."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request

from headwater.atlas.atlas import Atlas
from headwater.atlas.diff import Change, HeadChange, Standing, diff
from headwater.studio.asked import Answer, HeadAsked, Lines, Named, TokenTold, finite, shelf, worked
from headwater.studio.atlas_asked import lines, opening, token, typed
from headwater.studio.errors import Refused
from headwater.studio.limits import PARTS
from headwater.studio.lines import path_in_shell
from headwater.studio.work import Stop

router = APIRouter()


class StandingTold(Answer):
    """What one atlas knows of a lift: the number, or that it lies between two."""

    how: Literal["listed", "joined", "bounded"]
    low: float | None
    high: float | None


class ChangeTold(Answer):
    """One skip-trigram in both atlases."""

    head: str
    source: TokenTold
    dest: TokenTold
    out: TokenTold
    before: StandingTold
    after: StandingTold
    least: float | None
    """By how much its lift has changed at least."""


class Both(Answer):
    """A number of a head, before and after."""

    before: float | None
    after: float | None


class HeadChangeTold(Answer):
    """One head in both atlases; ``direct`` is the direct path."""

    head: str
    verdict_before: str | None
    verdict_after: str | None
    numbers: dict[str, Both]
    same_output: float | None
    same_source: float | None
    in_both: int


class Compared(Answer):
    """What is different in the second."""

    atlas: str
    other: str
    same_weights: bool
    settings: list[str]
    other_frequencies: bool
    only_before: list[str]
    only_after: list[str]
    heads: list[HeadChangeTold]
    counts: dict[str, int]
    appeared: list[ChangeTold]
    vanished: list[ChangeTold]
    changed: list[ChangeTold]
    lines: Lines


def _standing(one: Standing) -> StandingTold:
    return StandingTold(how=one.how, low=finite(one.low), high=finite(one.high))


def _change(atlas: Atlas, one: Change) -> ChangeTold:
    head, *ids = one.key
    source, dest, out = (token(atlas, each) for each in ids)
    before, after = _standing(one.before), _standing(one.after)
    return ChangeTold(head=head, source=source, dest=dest, out=out, before=before, after=after, least=finite(one.least))


def _head(one: HeadChange) -> HeadChangeTold:
    return HeadChangeTold(
        head=one.head,
        verdict_before=one.verdict[0],
        verdict_after=one.verdict[1],
        numbers={name: Both(before=finite(was), after=finite(now)) for name, (was, now) in one.numbers.items()},
        same_output=finite(one.same_output),
        same_source=finite(one.same_source),
        in_both=one.in_both,
    )


def _check(before: Atlas, after: Atlas, names: tuple[str, str]) -> None:
    if before.words.texts != after.words.texts:
        given = f"{names[0]} of {len(before.words):,} tokens and {names[1]} of {len(after.words):,}, which are not the same"
        raise Refused(422, given, "atlases over one vocabulary", "compare models that share a tokenizer")


@router.get("/atlas/compare")
async def compare(
    request: Request,
    atlas: Named,
    other: Named,
    head: HeadAsked | None = None,
    limit: Annotated[int, Query(ge=0, le=PARTS)] = 50,
) -> Compared:
    """Heads in both, and skip-trigrams that appeared, vanished or changed, by how much they changed at least."""

    def compute(stop: Stop) -> Compared:
        there, name = shelf(request), head and head.upper()
        before, after = there.atlas(atlas), there.atlas(other)
        _check(before, after, (there.atlases[atlas].name, there.atlases[other].name))
        with before.watched(stop.calling), after.watched(stop.calling):
            found = diff(before, after, name, limit=limit, listen=stop)
        paths = typed(request, atlas), typed(request, other)
        only: dict[str, Any] = {"head": name} if name else {}
        python = (
            "from headwater.atlas.diff import diff; "
            f"print(diff({opening(paths[0])}, {opening(paths[1])}, {name!r}, limit={limit}).plain())"
        )
        options = "".join(f" --{key} {value}" for key, value in {**only, "limit": limit}.items())
        return Compared(
            atlas=atlas,
            other=other,
            same_weights=found.besides.same_weights,
            settings=list(found.besides.settings),
            other_frequencies=found.besides.other_frequencies,
            only_before=list(found.besides.only_before),
            only_after=list(found.besides.only_after),
            heads=[_head(one) for one in found.heads],
            counts=found.counts,
            appeared=[_change(before, one) for one in found.appeared],
            vanished=[_change(before, one) for one in found.vanished],
            changed=[_change(before, one) for one in found.changed],
            lines=lines(python, f"headwater atlas diff {' '.join(map(path_in_shell, paths))}{options} --json"),
        )

    return await worked(request, "search", compute)
