"""Skip-trigrams of an atlas by their tokens and heads, places where they fire, bugs, and tokens for whoever is typing."""

import shlex
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request

from headwater.atlas.atlas import Atlas
from headwater.atlas.bug_rows import bug_rows
from headwater.atlas.reading import TABLE, Place, places
from headwater.atlas.search import EVIDENCE, SLOTS, STORED
from headwater.atlas.search import Query as Asked
from headwater.atlas.search import search as search_atlas
from headwater.studio.asked import Answer, HeadAsked, Lines, Named, TokenTold
from headwater.studio.atlas_asked import (
    Limit,
    Missing,
    Offset,
    PatternAsked,
    in_python,
    in_shell,
    lines,
    opening,
    pattern,
    read,
    token,
    typed,
    unknown,
)
from headwater.studio.lines import path_in_shell

router = APIRouter()
SUGGESTED = 50
PLACES = 20
Heads = Annotated[
    str | None, Query(max_length=400, pattern=r"^[LlHh0-9 ,]*$", description="Heads (L0H3) or layers (L0), commas between.")
]
COLUMNS = (*STORED, *EVIDENCE)
SortAsked = Annotated[
    str,
    Query(
        max_length=20,
        pattern=f"^-?({'|'.join(COLUMNS)})$",
        description="A column, the largest first; with a minus the smallest first.",
    ),
]
TokenId = Annotated[int, Query(ge=0, lt=2**32)]


class Row(Answer):
    """A skip-trigram; None for what no text was held against."""

    head: str
    source: TokenTold
    dest: TokenTold
    out: TokenTold
    score: float | None
    output: float | None
    attention: float | None
    lift: float | None
    chances: int | None
    occurs: int | None
    fires: int | None
    expected: float | None
    measured: float | None
    nats: float | None


class SearchTold(Answer):
    """A page of what was found."""

    atlas: str
    total: int
    offset: int
    rows: list[Row]
    missing: list[Missing]
    """Slots whose text means no token, as while somebody is typing; then there are no rows."""
    sorts: list[str]
    """By what rows can be sorted here."""
    above: float | None
    below: float | None
    """Every skip-trigram of these sources with a lift above the one or below the other is listed; None where that is not known."""
    strongest: int | None
    each: int | None
    k: int | None
    """What is listed of each head: so many of all, so many for every source and out, and for every dest among so many sources."""
    lines: Lines


class PlaceTold(Answer):
    """A place in the text; None among tokens is what is left out."""

    nth: int
    measured: float
    measured_attention: float
    source_position: int
    dest_position: int
    before: list[TokenTold | None]
    source: TokenTold
    between: list[TokenTold | None]
    dest: TokenTold
    after: list[TokenTold | None]
    comes: TokenTold
    text: str
    """From the first token to the dest, to be run: as a text where all are texts, else by ids."""
    is_whole: bool
    """Whether nothing is left out of it."""


class PlacesTold(Answer):
    """Where a skip-trigram fires in held-out text."""

    atlas: str
    has_text: bool
    """Whether the atlas was held against a text at all."""
    places: list[PlaceTold]
    lines: Lines


class Parent(Answer):
    """A common skip-trigram that forces a bug."""

    dest: TokenTold
    out: TokenTold
    occurs: int


class Bug(Answer):
    """A crossed skip-trigram, and what it costs."""

    head: str
    source: TokenTold
    dest: TokenTold
    out: TokenTold
    attention: float
    output: float
    lift: float
    chances: int
    expected: float
    places: int
    measured: float
    cost: float
    parents: list[Parent]


class BugsTold(Answer):
    """The costliest first."""

    atlas: str
    has_text: bool
    total: int
    cost: float
    offset: int
    rows: list[Bug]
    lines: Lines


class Suggested(Answer):
    """A token, and how often it occurs in the atlas' text."""

    token: TokenTold
    count: int


class Suggestions(Answer):
    """Tokens that begin so."""

    atlas: str
    tokens: list[Suggested]


def _heads(given: str | None) -> list[str] | None:
    names = (given or "").replace(",", " ").split()
    return names or None


@router.get("/atlas/search")
async def search(  # noqa: PLR0913  (each is one choice a person makes)
    request: Request,
    *,
    atlas: Named,
    source: PatternAsked = None,
    dest: PatternAsked = None,
    out: PatternAsked = None,
    head: Heads = None,
    sort: SortAsked = "lift",
    sign: Literal["both", "raising", "lowering"] = "both",
    limit: Limit = 100,
    offset: Offset = 0,
) -> SearchTold:
    """Skip-trigrams ``source … dest → out``."""
    asked = Asked(
        source=pattern(source), dest=pattern(dest), out=pattern(out), head=_heads(head), sort=sort, sign=sign,
        limit=limit, offset=offset,
    )  # fmt: skip

    def compute(opened: Atlas, _: object) -> SearchTold:
        settings = opened.manifest.settings
        missing = [each for slot, some in asked.patterns.items() if (each := unknown(opened, slot, some))]
        found = None if missing else search_atlas(opened, asked)
        return SearchTold(
            atlas=atlas,
            total=found.total if found else 0,
            offset=offset,
            rows=[_row(opened, row) for row in found.rows] if found else [],
            missing=missing,
            sorts=[*STORED, *(EVIDENCE if "evidence" in opened.tables else ())],
            above=found.beyond[0] if found and found.beyond else None,
            below=found.beyond[1] if found and found.beyond else None,
            strongest=settings.get("triples"),
            each=settings.get("each"),
            k=settings.get("k"),
            lines=_lines(typed(request, atlas), asked),
        )

    return await read(request, atlas, compute)


def _row(atlas: Atlas, row: dict[str, Any]) -> Row:
    numbers: dict[str, Any] = {name: row.get(name) for name in COLUMNS}
    return Row(head=row["head"], **_tokens(atlas, row), **numbers)


def _tokens(atlas: Atlas, row: dict[str, Any]) -> dict[str, Any]:
    return {slot: token(atlas, row[f"{slot}_id"]) for slot in SLOTS}


def _lines(path: str, asked: Asked) -> Lines:
    slots = {slot: in_python(some) for slot, some in asked.patterns.items()}
    names = {"head": asked.head, "sort": asked.sort, "sign": asked.sign, "limit": asked.limit, "offset": asked.offset}
    usual = {"head": None, "sort": "lift", "sign": "both", "limit": None, "offset": 0}
    told = {name: value for name, value in names.items() if value != usual[name]}
    python = ", ".join(
        f"{name}={value}" for name, value in {**slots, **{key: repr(value) for key, value in told.items()}}.items()
    )
    options = [f"--{slot} {in_shell(some)}" for slot, some in asked.patterns.items()]
    options += [f"--{name} {_written(value)}" for name, value in told.items()]
    shell = " ".join(["headwater atlas search", path_in_shell(path), *options, "--json"])
    return lines(f"print({opening(path)}.search({python}))", shell)


def _written(value: object) -> str:
    """Whatever it is, as words: nothing that came in an address is trusted to be one."""
    return shlex.join(map(str, value)) if isinstance(value, list) else shlex.quote(str(value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


@router.get("/atlas/places")
async def evidence(request: Request, atlas: Named, head: HeadAsked, source: TokenId, dest: TokenId, out: TokenId) -> PlacesTold:
    """Where a skip-trigram fires in held-out text, with what its head adds there."""

    def compute(opened: Atlas, _: object) -> PlacesTold:
        name, path = head.upper(), typed(request, atlas)
        opened.head(name)
        options = f"--head {name} --source '#{source}' --dest '#{dest}' --out '#{out}'"
        shell = f"headwater atlas quote {path_in_shell(path)} {options} --json"
        query = f"source={source}, dest={dest}, out={out}, head={name!r}"
        python = (
            "from headwater.atlas.reading import read_places; from headwater.atlas.search import Query; "
            f"print(read_places({opening(path)}, Query({query})))"
        )
        there = TABLE in opened.tables
        asked = Asked(source=source, dest=dest, out=out, head=name, limit=PLACES)
        found = [_place(opened, each) for each in places(opened, asked)] if there else []
        return PlacesTold(atlas=atlas, has_text=there, places=found, lines=lines(python, shell))

    return await read(request, atlas, compute)


def _place(atlas: Atlas, place: Place) -> PlaceTold:
    def tokens(ids: tuple[int | None, ...]) -> list[TokenTold | None]:
        return [None if each is None else token(atlas, each) for each in ids]

    run = [each for each in (*place.before, place.source, *place.between, place.dest) if each is not None]
    whole = "".join(atlas.words.texts[each] or "" for each in run)
    is_text = all(map(atlas.words.is_text, run)) and not whole.startswith("ids:")
    return PlaceTold(
        nth=place.nth,
        measured=place.measured,
        measured_attention=place.measured_attention,
        source_position=place.source_position,
        dest_position=place.dest_position,
        before=tokens(place.before),
        source=token(atlas, place.source),
        between=tokens(place.between),
        dest=token(atlas, place.dest),
        after=tokens(place.after),
        comes=token(atlas, place.next),
        # A text can be read and changed; the model may cut it into other tokens than stood there.
        text=whole if is_text else f"ids:{','.join(map(str, run))}",
        is_whole=None not in place.between,
    )


@router.get("/atlas/bugs")
async def bugs(
    request: Request, atlas: Named, head: HeadAsked | None = None, limit: Limit = 100, offset: Offset = 0
) -> BugsTold:
    """Skip-trigrams that a head raises only because it raises two others, and what they cost on held-out text."""

    def compute(opened: Atlas, _: object) -> BugsTold:
        path, there = typed(request, atlas), "bugs" in opened.tables
        rows = bug_rows(opened.folder, opened.manifest, head) if there else []
        found = [_bug(opened, row) for row in rows[offset : offset + limit]]
        only = "" if head is None else f", {head.upper()!r}"
        python = (
            "from headwater.atlas.bug_rows import bug_rows; "
            f"atlas = {opening(path)}; print(bug_rows(atlas.folder, atlas.manifest{only or ', None'}))"
        )
        options = "" if head is None else f" --head {head.upper()}"
        shell = f"headwater atlas bugs {path_in_shell(path)}{options} --limit {offset + limit} --json"
        cost = sum(row["cost"] for row in rows)
        told = lines(python, shell)
        return BugsTold(atlas=atlas, has_text=there, total=len(rows), cost=cost, offset=offset, rows=found, lines=told)

    return await read(request, atlas, compute)


def _bug(atlas: Atlas, row: dict[str, Any]) -> Bug:
    numbers = ("head", "attention", "output", "lift", "chances", "expected", "places", "measured", "cost")
    facts: dict[str, Any] = {name: row[name] for name in numbers}
    parents = [
        Parent(dest=token(atlas, each["dest_id"]), out=token(atlas, each["out_id"]), occurs=each["occurs"])
        for each in row["parents"]
    ]
    return Bug(**facts, **_tokens(atlas, row), parents=parents)


@router.get("/atlas/suggest")
async def suggest(request: Request, atlas: Named, start: Annotated[str, Query(max_length=200)] = "") -> Suggestions:
    """Tokens that begin with a text, also after a space; the text itself first, then the commonest: of no text, those."""

    def compute(opened: Atlas, _: object) -> Suggestions:
        found = opened.words.beginning(start, SUGGESTED)
        told = [Suggested(token=token(opened, each), count=int(opened.words.count[each])) for each in found]
        return Suggestions(atlas=atlas, tokens=told)

    return await read(request, atlas, compute)
