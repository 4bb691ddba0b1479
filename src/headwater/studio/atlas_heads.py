"""All heads of an atlas at once: what each does, and who composes with whom."""

from collections.abc import Mapping
from typing import Any, Literal

from fastapi import APIRouter, Request

from headwater.atlas.about_heads import Behaviour, behaviours, links, pairs_above_chance
from headwater.atlas.atlas import Atlas
from headwater.studio.asked import Answer, Lines, Named, finite, shelf
from headwater.studio.atlas_asked import inner, lines, opening, read, typed
from headwater.studio.limits import PARTS
from headwater.studio.lines import path_in_shell

router = APIRouter()
Kind = Literal["Q", "K", "V"]


class HeadTold(Answer):
    """One head, in numbers; None where the atlas does not tell one."""

    head: str
    layer: int
    number: int
    copying: float | None
    """Σλ/Σ|λ| of its OV circuit as it is."""
    copying_centred: float | None
    """The same with the means over tokens and outputs taken out."""
    verdict: str | None
    self_match: float | None
    self_match_centred: float | None
    previous: float | None
    own: float | None
    first: float | None
    induction: float | None
    fed_by: str | None
    positions: float | None
    """The share of its scores' variance that positions explain."""
    ov_norm: float | None
    qk_norm: float | None
    agreement: float | None
    """Spearman's rank correlation between lifts and what was measured on text."""
    agreement_rows: int | None
    behaviours: list[Behaviour]


class AtlasTold(Answer):
    """An atlas as a whole."""

    atlas: str
    model: str
    """As it, or its atlas, was given at the start."""
    vocab: int
    triples: int
    """Skip-trigrams that are listed."""
    has_evidence: bool
    has_bugs: bool
    others: int | None
    k: int | None
    each: int | None
    strongest: int | None
    basis: str | None
    norms: str | None
    windows: int | None
    """Of text that it was held against."""
    heads: list[HeadTold]
    verdicts: dict[str, int]
    given: list[str]
    lines: Lines


class LinkTold(Answer):
    """A head that reads what another has written."""

    writer: str
    reader: str
    kind: Kind
    score: float
    excess: float
    """Above what chance gives."""


class CompositionTold(Answer):
    """Who composes with whom above chance, the strongest first."""

    atlas: str
    heads: list[str]
    chance: float | None
    kind: Kind
    total: int
    """Pairs above chance."""
    kept: int
    """Those of them that the atlas lists: of very many pairs, only the strongest."""
    links: list[LinkTold]
    """Of those, as many as can be drawn."""
    lines: Lines


def agreements(atlas: Atlas) -> dict[int, tuple[int, float | None]]:
    """By a head's number, over how many rows lifts were held against what was measured, and how far they agree."""
    if "agreement" not in atlas.tables:
        return {}
    columns = atlas.relation("agreement").fetchnumpy()
    rows = zip(*(columns[name].tolist() for name in ("head", "rows", "lift")), strict=True)
    return {head: (count, finite(lift)) for head, count, lift in rows}


def told(one: Mapping[str, Any], agreed: tuple[int, float | None] | None) -> HeadTold:
    """A head of a summary."""
    layer, number = str(one["head"]).removeprefix("L").split("H")
    looks, again = inner(one, "attending"), inner(one, "induction")
    return HeadTold(
        head=one["head"],
        layer=int(layer),
        number=int(number),
        copying=finite(one.get("copying")),
        copying_centred=finite(one.get("copying_centred")),
        verdict=one.get("verdict"),
        self_match=finite(one.get("self_match")),
        self_match_centred=finite(one.get("self_match_centred")),
        previous=finite(looks.get("previous")),
        own=finite(looks.get("own")),
        first=finite(looks.get("first")),
        induction=finite(again.get("score")),
        fed_by=again.get("fed_by"),
        positions=finite(inner(one, "placement").get("positions")),
        ov_norm=finite(inner(one, "ov").get("norm")),
        qk_norm=finite(inner(one, "qk").get("norm")),
        agreement=agreed[1] if agreed else None,
        agreement_rows=agreed[0] if agreed else None,
        behaviours=list(behaviours(one)),
    )


@router.get("/atlas/heads")
async def heads(request: Request, atlas: Named) -> AtlasTold:
    """What an atlas holds, and every head of it."""

    def compute(found: Atlas, _: object) -> AtlasTold:
        path, manifest, agreed = typed(request, atlas), found.manifest, agreements(found)
        settings, corpus = manifest.settings, inner(manifest.plan, "corpus")
        return AtlasTold(
            atlas=atlas,
            model=shelf(request).atlases[atlas].name,
            vocab=manifest.vocab,
            triples=sum(part.rows or 0 for part in manifest.parts("trigrams/by_source")),
            has_evidence="lines_of_text" in found.tables,
            has_bugs="bugs" in found.tables,
            strongest=settings.get("triples"),
            windows=corpus.get("windows"),
            **{name: settings.get(name) for name in ("others", "k", "each", "basis", "norms")},
            heads=[told(one, agreed.get(number)) for number, one in enumerate(found.summary["heads"])],
            verdicts=inner(found.summary, "copying_tally", "verdict"),
            given=found.summary.get("given", []),
            lines=lines(f"print({opening(path)}.summary['heads'])", f"headwater atlas show {path_in_shell(path)} --json"),
        )

    return await read(request, atlas, compute)


@router.get("/atlas/composition")
async def composition(request: Request, atlas: Named, kind: Kind = "K") -> CompositionTold:
    """Which heads read what earlier ones have written, by their queries, keys or values."""

    def compute(found: Atlas, _: object) -> CompositionTold:
        path, all_links = typed(request, atlas), links(found.summary, kind)
        return CompositionTold(
            atlas=atlas,
            heads=list(found.heads),
            chance=inner(found.summary, "composition").get("chance"),
            kind=kind,
            total=pairs_above_chance(found.summary, kind),
            kept=len(all_links),
            links=[
                LinkTold(writer=link.writer, reader=link.reader.split(".")[0], kind=kind, score=link.score, excess=link.excess)
                for link in all_links[:PARTS]
            ],
            lines=lines(f"print({opening(path)}.summary['composition'])", f"cat {path_in_shell(path + '/heads.json')}"),
        )

    return await read(request, atlas, compute)
