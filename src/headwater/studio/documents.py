"""The screen ``documents``: the five source documents, statement by statement, with the verdict on each; and figures to play with."""

from collections import Counter
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from headwater.claims.claim import Claim, Kind, Language, Words
from headwater.claims.contradictions import contradictions
from headwater.claims.evidence import VERDICTS, Verdict
from headwater.claims.labels import VERDICT, short
from headwater.claims.registry import TITLES, all_claims
from headwater.studio import documents_block, documents_figures, documents_heads, documents_overview
from headwater.studio.asked import Answer, Lines, Named, worked
from headwater.studio.documents_measured import Asked, Measured, item_of, measured
from headwater.studio.errands import errand
from headwater.studio.formulas import Formula, Piece, formula, prose

router = APIRouter(tags=["documents"])
for part in (documents_figures, documents_heads, documents_block, documents_overview):
    router.include_router(part.router)

Document = Literal["000", "001", "002", "003", "004"]
ClaimId = Annotated[str, Query(min_length=1, max_length=40, description="Such as 000-T1.")]


class ClaimTold(Answer):
    """One statement of a document, in one language."""

    id: str
    line: int
    """Of the document's text."""
    kind: Kind
    verdict: Verdict
    """What a check has to find again."""
    ledger: Verdict
    """What the ledger of the documents says."""
    is_figure: bool
    place: list[Piece]
    statement: list[Piece]
    formula: Formula | None
    why: list[Piece]
    correction: list[Piece]
    answer: list[Piece]
    supports: list[Piece]
    differs: list[Piece]
    related: list[str]


class Counted(Answer):
    """How many statements come to a verdict."""

    verdict: Verdict
    count: int


class DocumentTold(Answer):
    """A document, statement by statement in its own order."""

    id: str
    title: str
    counts: list[Counted]
    claims: list[ClaimTold]


class ContradictionTold(Answer):
    """Statements that cannot stand together, and which of them do."""

    ids: list[str]
    right: list[str]
    text: list[Piece]


class VerdictTold(Answer):
    """A verdict in words."""

    verdict: Verdict
    word: str
    short: str


class Documents(Answer):
    """All documents."""

    documents: list[DocumentTold]
    verdicts: list[VerdictTold]
    contradictions: list[ContradictionTold]
    lines: Lines


@router.get("/documents")
async def documents(request: Request, lang: Language = "en") -> Documents:
    """The executed documents with the recorded verdicts."""
    return await worked(request, "files", lambda stop: _documents(lang))


def _documents(lang: Language) -> Documents:
    claims = all_claims().values()
    told = [_document(id_, [claim for claim in claims if claim.document == id_], lang) for id_ in TITLES]
    verdicts: tuple[Verdict, ...] = (*VERDICTS, "unsettled")
    return Documents(
        documents=told,
        verdicts=[VerdictTold(verdict=each, word=VERDICT[lang][each], short=short(each, lang)) for each in verdicts],
        contradictions=[
            ContradictionTold(ids=list(each.ids), right=list(each.right), text=prose(each.text(lang)))
            for each in contradictions()
        ],
        lines=Lines.of(
            'from headwater.claims.registry import all_claims\nprint(*all_claims().values(), sep="\\n")',
            f"headwater claims --lang {lang} --json",
        ),
    )


def _document(id_: str, claims: list[Claim], lang: Language) -> DocumentTold:
    counts = Counter(claim.verdict for claim in claims)
    return DocumentTold(
        id=id_,
        title=TITLES[id_][lang],
        counts=[Counted(verdict=each, count=counts[each]) for each in VERDICTS],
        claims=[_told(claim, claim.words(lang)) for claim in claims],
    )


def _told(claim: Claim, words: Words) -> ClaimTold:
    return ClaimTold(
        id=claim.id,
        line=claim.line,
        kind=claim.kind,
        verdict=claim.verdict,
        ledger=claim.ledger,
        is_figure=claim.verdict == "figure",
        place=prose(words.place),
        statement=prose(words.statement),
        formula=formula(claim.formula),
        why=prose(words.why),
        correction=prose(words.correction),
        answer=prose(words.answer),
        supports=prose(words.supports),
        differs=prose(words.differs),
        related=list(claim.related),
    )


@router.get("/documents/claim")
async def claim(request: Request, id: ClaimId, lang: Language = "en", model: Named | None = None) -> Measured:  # noqa: A002  (its name in the address)
    """One statement, measured now: on the reference models, or on one of the shelf."""
    return await worked(request, "model", lambda stop: measured(request, Asked(id, lang, model), stop))


@router.post(
    "/documents/measure",
    responses={200: {"description": "Server-sent events.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}},
    response_class=StreamingResponse,
)
async def measure(
    request: Request, document: Document | None = None, lang: Language = "en", model: Named | None = None
) -> StreamingResponse:
    """All statements, or those of one document, measured one after the other in a process of its own.

    Events: ``{"what", "share"}`` while it goes on, ``{"answer"}`` for each statement, ``{"refused"}`` for one that cannot be asked of this model, and at
    the end ``{"done"}`` with the counts.
    """
    # In its lane: a model that is not loaded yet is read for it.
    item = None if model is None else await worked(request, "model", lambda stop: item_of(request, model))
    own = [] if item is None else [str(item.path), item.name]
    return errand(request, ["claims", document or "", lang, *own])
