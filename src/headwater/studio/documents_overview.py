"""The whole way of one token through a model, with its numbers: text, tokens, embeddings, blocks, logits."""

from fastapi import APIRouter, Request

from headwater.shapes import floats, whole
from headwater.studio.asked import Answer, Lines, Named, Position, Text, TokenTold, finite, shelf, worked
from headwater.studio.documents_heads import check_length
from headwater.studio.documents_measured import item_of
from headwater.studio.lines import command, recorded
from headwater.studio.shared import Said, told_said, told_token
from headwater.studio.work import Stop
from headwater.trace.question import within
from headwater.trace.run import Run
from headwater.trace.view.normed import cosine
from headwater.trace.view.stages import Seen, see
from headwater.trace.view.stream import StreamView

router = APIRouter()
COORDINATES = 24
"""Of a vector that are sent along."""
BEST = 5
"""Next tokens that are told."""


class VectorTold(Answer):
    """A vector: how long it is, and its first coordinates."""

    length: float
    first: list[float]


class OverviewHead(Answer):
    """Where a head looks most."""

    head: str
    position: int
    token: TokenTold
    weight: float


class BlockTold(Answer):
    """What a block did with the token."""

    layer: int
    heads: list[OverviewHead]
    attention: VectorTold
    feed_forward: VectorTold | None
    out: VectorTold
    cosine: float | None
    """Of the stream that the block leaves with the stream that it got."""
    lens: list[Said]
    """What the model would say if it ended here."""


class Logit(Answer):
    """A next token with its logit."""

    token: TokenTold
    logit: float
    probability: float


class Overview(Answer):
    """From a text to what comes next."""

    model: str
    letters: int
    tokens: list[TokenTold]
    position: int
    vocab: int
    d_model: int
    embedding: VectorTold
    positions: VectorTold | None
    """What the position adds to the stream, where it does."""
    start: VectorTold
    """The stream that the first block gets."""
    start_lens: list[Said]
    blocks: list[BlockTold]
    final: VectorTold
    """What the unembedding reads."""
    logits: list[Logit]
    entropy: float
    lines: Lines


@router.get("/documents/overview")
async def overview(request: Request, model: Named, text: Text, position: Position = -1) -> Overview:
    """The whole path with real numbers."""

    def compute(stop: Stop) -> Overview:
        run = shelf(request).run(model, text, stop)
        at = within(position, check_length(run), "position")
        name = item_of(request, model).name
        lines = Lines.of(
            f"import headwater as hw\nrun = {recorded(name, text, run)}\nprint(run.top({at}, {BEST}), run.stream([{at}], top=3))",
            command("stream", name, text, run, f"--position {at} --top 3 --json"),
        )
        return _overview(model, run, at, lines, stop)

    return await worked(request, "model", compute)


def _overview(model: str, run: Run, at: int, lines: Lines, stop: Stop) -> Overview:
    seen, view = see(run, [at]), run.stream([at], top=3)
    blocks: list[BlockTold] = []
    for layer in range(run.config.layers):
        stop()
        blocks.append(_block(run, seen, view, layer, at))
    start = "L0.t0" if run.config.layers else "start" if "positions" in run else "embed"
    logits = run.logits_at(at)[0].double()
    first = view.index(start)
    return Overview(
        model=model,
        letters=len(run.tokenizer.decode(whole(run.tokens[0]))) if run.tokenizer else 0,
        tokens=[told_token(run, int(token)) for token in run.tokens[0]],
        position=at,
        vocab=run.config.vocab,
        d_model=run.config.d_model,
        embedding=_vector(seen, view, "embed"),
        positions=_vector(seen, view, "positions") if "positions" in run else None,
        start=_vector(seen, view, start),
        start_lens=told_said(run, view.lenses[first].likeliest(0)),
        blocks=blocks,
        final=_vector(seen, view, "final"),
        logits=[
            Logit(token=told_token(run, token), logit=float(logits[token]), probability=p) for token, p in run.top(at, BEST)
        ],
        entropy=float(view.lenses[view.index("final")].entropy[0]),
        lines=lines,
    )


def _block(run: Run, seen: Seen, view: StreamView, layer: int, at: int) -> BlockTold:
    out, site = view.index(f"L{layer}.h"), f"L{layer}."
    pattern = run[f"{site}pattern"][0, :, at]
    best = pattern.argmax(dim=-1)
    heads = [
        OverviewHead(
            head=f"L{layer}H{head}",
            position=int(source),
            token=told_token(run, int(run.tokens[0, int(source)])),
            weight=float(pattern[head, int(source)]),
        )
        for head, source in enumerate(best)
    ]
    return BlockTold(
        layer=layer,
        heads=heads,
        attention=_vector(seen, view, f"{site}attention"),
        feed_forward=_vector(seen, view, f"{site}feed_forward") if run.config.feed_forward is not None else None,
        out=_vector(seen, view, f"L{layer}.h"),
        cosine=finite(cosine(seen[f"{site}h"].double(), seen[f"{site}t0"].double())[0]),
        lens=told_said(run, view.lenses[out].likeliest(0)),
    )


def _vector(seen: Seen, view: StreamView, name: str) -> VectorTold:
    values = seen[name][0].double()
    return VectorTold(length=float(view.norm[view.index(name), 0]), first=floats(values[:COORDINATES]))
