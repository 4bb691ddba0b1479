"""One head of an atlas: its eigenvalues and singular values, whether it copies, and its lists; and what tokens say by themselves."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request

from headwater.atlas.atlas import Atlas
from headwater.atlas.found import Found
from headwater.atlas.patterns import Pattern
from headwater.studio.asked import Answer, HeadAsked, Lines, Named, TokenTold, finite
from headwater.studio.atlas_asked import (
    Limit,
    Missing,
    Offset,
    in_python,
    inner,
    lines,
    opening,
    pattern,
    read,
    token,
    typed,
    unknown,
)
from headwater.studio.atlas_heads import HeadTold, agreements, told
from headwater.studio.errors import Refused
from headwater.studio.lines import path_in_shell

router = APIRouter()
Table = Literal["says", "seeks", "sought", "said", "bigrams"]
KEYS: dict[Table, tuple[str, str]] = {
    "says": ("source", "out"),
    "seeks": ("dest", "source"),
    "sought": ("source", "dest"),
    "said": ("out", "source"),
    "bigrams": ("token", "out"),
}
"""Whose lines a table has, and what is listed in them."""
MOST_TOKENS = 200
"""That one pattern may mean in a list."""
STRONGEST = 25
"""Skip-trigrams of a head that are shown, of those that raise and of those that lower."""


class Eigenvalues(Answer):
    """Those of one circuit, as it is or centred; what chance gives beside them."""

    values: list[tuple[float, float]]
    """Real and imaginary parts, the largest first."""
    score: float | None
    """Σλ/Σ|λ|."""
    positive: float | None
    """The share with a positive real part."""
    positive_low: float | None
    positive_high: float | None
    """Where that share lies for heads turned at random, in nine of ten cases."""
    score_low: float | None
    score_high: float | None
    trace: float | None
    z: float | None
    z_stream: float | None
    radius: float | None
    """Within which the eigenvalues of tokens turned at random lie."""


class RanksTold(Answer):
    """Where tokens stand in their own rows: shares of tokens, and the mean of how many stand before a token's own entry."""

    top_1: float | None
    top_5: float | None
    top_10: float | None
    last_10: float | None
    mean: float | None


class Circuit(Answer):
    """OV (does it say what it looks at?) or QK (does it look for what it looks from?)."""

    verdict: str | None
    votes: dict[str, str]
    raw: Eigenvalues | None
    centred: Eigenvalues | None
    diagonal: float | None
    diagonal_centred: float | None
    ranks: RanksTold | None
    ranks_by_frequency: RanksTold | None
    """Where every token counts as often as it occurs."""
    tokens: int | None
    singular_values: list[float]
    norm: float | None
    effective_rank: float | None


class Example(Answer):
    """A large entry of a table."""

    one: TokenTold
    other: TokenTold
    value: float


class Strong(Answer):
    """One of a head's strongest skip-trigrams."""

    source: TokenTold
    dest: TokenTold
    out: TokenTold
    score: float | None
    output: float | None
    attention: float | None
    lift: float | None


class Partner(Answer):
    """A head that it works with."""

    writer: str
    reader: str
    score: float
    excess: float


class HeadPage(Answer):
    """All about one head."""

    atlas: str
    about: HeadTold
    ov: Circuit
    qk: Circuit
    says: list[Example]
    seeks: list[Example]
    partners: list[Partner]
    raising: list[Strong]
    lowering: list[Strong]
    lines: Lines


class ListRow(Answer):
    """One entry of a line; None where the table has no such column."""

    key: TokenTold
    other: TokenTold
    place: int
    """1 is the largest, −1 the most negative."""
    score: float | None
    attention: float | None
    output: float | None
    lift: float | None
    log_share: float | None
    count: int | None
    log_likelihood: float | None


class ListTold(Answer):
    """The lines of a table that a pattern means."""

    atlas: str
    table: Table
    head: str | None
    total: int
    offset: int
    missing: Missing | None
    """Where the text means no token."""
    rows: list[ListRow]
    lines: Lines


def _eigen(found: Mapping[str, Any] | None) -> Eigenvalues | None:
    if not found:
        return None
    chance = inner(found, "tokens")
    ranges = {f"{name}_{end}": inner(chance, name).get(end) for name in ("positive", "score") for end in ("low", "high")}
    numbers = {name: found.get(name) for name in ("score", "positive", "trace", "z", "z_stream")}
    return Eigenvalues(
        values=[(real, imaginary) for real, imaginary in found["eigenvalues"]],
        radius=finite(chance.get("radius")),
        **{name: finite(value) for name, value in {**numbers, **ranges}.items()},
    )


def _ranks(found: Mapping[str, Any] | None) -> RanksTold | None:
    return RanksTold(**{name: finite(found.get(name)) for name in RanksTold.model_fields}) if found else None


def _circuit(panel: Mapping[str, Any] | None, strength: Mapping[str, Any] | None) -> Circuit:
    panel, strength = panel or dict[str, Any](), strength or dict[str, Any]()
    return Circuit(
        verdict=panel.get("verdict"),
        votes=inner(panel, "votes"),
        raw=_eigen(panel.get("raw")),
        centred=_eigen(panel.get("centred")),
        diagonal=finite(panel.get("diagonal")),
        diagonal_centred=finite(panel.get("diagonal_centred")),
        ranks=_ranks(panel.get("ranks")),
        ranks_by_frequency=_ranks(panel.get("ranks_by_frequency")),
        tokens=panel.get("tokens"),
        singular_values=strength.get("singular_values") or [],
        norm=finite(strength.get("norm")),
        effective_rank=finite(strength.get("effective_rank")),
    )


def _strong(atlas: Atlas, found: Found) -> list[Strong]:
    rows = found.rows[:STRONGEST]
    slots, numbers = ("source", "dest", "out"), ("score", "output", "attention", "lift")
    return [
        Strong(**{slot: token(atlas, row[f"{slot}_id"]) for slot in slots}, **{name: row[name] for name in numbers})
        for row in rows
    ]


def _examples(atlas: Atlas, rows: list[dict[str, Any]] | None, one: str, other: str) -> list[Example]:
    return [Example(one=token(atlas, row[one]), other=token(atlas, row[other]), value=row["value"]) for row in rows or []]


@router.get("/atlas/head")
async def head(request: Request, atlas: Named, head: HeadAsked) -> HeadPage:
    """All about one head."""

    def compute(found: Atlas, _: object) -> HeadPage:
        name, path = head.upper(), typed(request, atlas)
        lists, number = found.head(name), found.heads.index(name) if name in found.heads else -1
        one = next(each for each in found.summary["heads"] if each["head"] == name)
        return HeadPage(
            atlas=atlas,
            about=told(one, agreements(found).get(number)),
            ov=_circuit(one.get("copying_panel"), one.get("ov")),
            qk=_circuit(one.get("self_match_panel"), one.get("qk")),
            says=_examples(found, one.get("says"), "source", "out"),
            seeks=_examples(found, one.get("seeks"), "dest", "source"),
            partners=[Partner.model_validate(link) for link in one.get("partners", ())],
            raising=_strong(found, lists.strongest()),
            lowering=_strong(found, lists.strongest(lowering=True)),
            lines=lines(
                f"print({opening(path)}.head({name!r}).strongest())",
                f"headwater atlas search {path_in_shell(path)} --head {name} --limit {STRONGEST} --json",
            ),
        )

    return await read(request, atlas, compute)


def _listed(atlas: Atlas, table: Table, head: str | None, asked: Pattern) -> tuple[Found | None, Missing | None]:
    missing = unknown(atlas, "token", asked)
    if missing is not None:
        return None, missing
    with atlas.cursor() as cursor:
        meant = len(atlas.words.find(asked, cursor))
    if meant > MOST_TOKENS:
        raise Refused(413, f"a pattern that means {meant:,} tokens", f"at most {MOST_TOKENS}", "write more of the token")
    if table == "bigrams":
        return atlas.bigrams(asked), None
    if head is None:
        raise Refused(422, f"{table} of no head", "a head", "name one, such as L0H3")
    return getattr(atlas.head(head.upper()), table)(asked), None


@router.get("/atlas/list")
async def entries(  # noqa: PLR0913  (each is one choice a person makes)
    request: Request,
    *,
    atlas: Named,
    table: Table,
    token_asked: Annotated[str, Query(alias="token", min_length=1, max_length=1_100)],
    head: HeadAsked | None = None,
    limit: Limit = 64,
    offset: Offset = 0,
) -> ListTold:
    """What a head seeks from a token, what it says at one, who looks at one, what makes it say one; or what tokens say by themselves."""

    def compute(found: Atlas, _: object) -> ListTold:
        asked, (key, other), path = pattern(token_asked), KEYS[table], typed(request, atlas)
        assert asked is not None, "it has a letter at least"
        listed, missing = _listed(found, table, head, asked)
        names = ("score", "attention", "output", "lift", "log_share", "count", "log_likelihood")
        rows = [
            ListRow(
                key=token(found, row[f"{key}_id"]),
                other=token(found, row[f"{other}_id"]),
                place=row["place"],
                **{name: row.get(name) for name in names},
            )
            for row in (listed.rows[offset : offset + limit] if listed else ())
        ]
        of = "" if table == "bigrams" or head is None else f".head({head.upper()!r})"
        return ListTold(
            atlas=atlas,
            table=table,
            head=head and head.upper(),
            total=listed.total if listed else 0,
            missing=missing,
            offset=offset,
            rows=rows,
            lines=lines(f"print({opening(path)}{of}.{table}({in_python(asked)}))"),
        )

    return await read(request, atlas, compute)
