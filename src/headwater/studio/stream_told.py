"""How a view of the stream is told: by facts, so that a page may say them in any language."""

from typing import TYPE_CHECKING, Literal, TypeAlias

from headwater.model.config import ModelConfig
from headwater.studio.asked import Answer, TokenTold, finite
from headwater.studio.shared import Norms, norms_of, told_token
from headwater.trace.view.stages import Made, Role, stages

if TYPE_CHECKING:
    from headwater.trace.run import Run
    from headwater.trace.view.normed import Normed
    from headwater.trace.view.stages import Stage
    from headwater.trace.view.stream import StreamView

LENS_WORK = 2e11
"""What the logit lens may cost in one answer, in multiplications and what goes along with each logit: some ten seconds of one core."""
PER_LOGIT = 512
"""What a logit costs beside its product, in multiplications: exponentials, sums and comparisons in double precision."""
Kind: TypeAlias = Literal["embed", "positions", "head", "output-bias", "feed-forward", "norm-bias", "edits"]


class LensTold(Answer):
    """A token that a stage would say."""

    token: TokenTold
    probability: float | None


class StageTold(Answer):
    """One stage at one position."""

    name: str
    also: list[str]
    layer: int | None
    """Of the block that it stands in."""
    letter: str
    """The documents' t0, t1 … t5, h; embed, positions, start or final outside of blocks."""
    role: Role
    made: Made
    """By what it came about."""
    of: str | None
    """The stage that it is written to, copied from, or that comes before."""
    length: float | None
    cosine_before: float | None
    cosine_embed: float | None
    cosine_final: float | None
    top: list[LensTold]
    probability: float | None
    rank: int
    entropy: float | None
    shares: list[float | None] | None
    """One for each component; none in a write."""


class ComponentTold(Answer):
    """Something that writes to the stream."""

    name: str
    kind: Kind
    layer: int | None
    head: int | None


class NormTold(Answer):
    """What a norm changed."""

    name: str
    reads: str
    makes: str
    mean: float | None
    lost: float | None
    scale: float | None
    length_before: float | None
    length_after: float | None
    angle: float | None
    angle_mean: float | None
    angle_gain: float | None
    angle_bias: float | None
    bias_share: float | None


class OneStream(Answer):
    """The stream of one model at one position."""

    model: str
    name: str
    """As the model was given when the studio was started."""
    order: Literal["own", "pre", "post"]
    """Where its norms stand, where not as the model was made."""
    norms: Norms
    """As it ran."""
    layers: int
    vocab: int
    positions: int
    """Of the text."""
    lens_positions: int
    """At how many positions at once the logit lens is had in an overview."""
    position: int
    token: TokenTold
    chosen: TokenTold
    """The token whose probability and rank are told."""
    why: Literal["asked", "next", "likeliest", "same"]
    """Why that one: it was asked for, comes next in the text, is the likeliest after its end, or is the one that stands beside it."""
    stages: list[StageTold]
    components: list[ComponentTold]
    normed: list[NormTold]
    certificate: float | None
    bound: float | None


def lens_positions(config: ModelConfig) -> int:
    """At how many positions at once the logit lens can be had at every stage."""
    each = len(stages(config)) * config.vocab * (config.d_model + PER_LOGIT)
    return max(1, int(LENS_WORK / each))


def one_stream(
    run: "Run", view: "StreamView", model: str, name: str, order: Literal["own", "pre", "post"], *, is_same: bool = False
) -> OneStream:
    """A view of one position."""
    position = view.positions[0]
    is_within = position + 1 < len(view.tokens)
    why = "same" if is_same else "asked" if view.was_asked else "next" if is_within else "likeliest"
    return OneStream(
        model=model,
        name=name,
        order=order,
        norms=norms_of(run.config),
        layers=run.config.layers,
        vocab=run.config.vocab,
        positions=len(view.tokens),
        lens_positions=lens_positions(run.config),
        position=position,
        token=told_token(run, int(view.tokens[position])),
        chosen=told_token(run, int(view.chosen[0])),
        why=why,
        stages=[_stage(run, view, row, stage) for row, stage in enumerate(view.stages)],
        components=[_component(each) for each in view.shares],
        normed=[_norm(each) for each in view.norms],
        certificate=finite(view.certificate),
        bound=finite(view.bound),
    )


def _stage(run: "Run", view: "StreamView", row: int, stage: "Stage") -> StageTold:
    said = view.lenses[row]
    block, _, letter = stage.name.rpartition(".")
    shares = [finite(share[row, 0]) for share in view.shares.values()] if stage.role != "write" else None
    return StageTold(
        name=stage.name,
        also=list(stage.also),
        layer=int(block[1:]) if block else None,
        letter=letter,
        role=stage.role,
        made=stage.made,
        of=stage.of,
        length=finite(view.norm[row, 0]),
        cosine_before=finite(view.cosine_before[row, 0]),
        cosine_embed=finite(view.cosine_embed[row, 0]),
        cosine_final=finite(view.cosine_final[row, 0]),
        top=[LensTold(token=told_token(run, token), probability=finite(p)) for token, p in said.likeliest(0)],
        probability=finite(said.chance[0]),
        rank=int(said.rank[0]),
        entropy=finite(said.entropy[0]),
        shares=shares,
    )


def _component(name: str) -> ComponentTold:
    """What a write's name says: ``embed``, ``L0H3``, ``L0.b_O``, ``L0.feed_forward``, ``L0.norm_1.bias``, ``final.bias``, ``edits``."""
    block, _, rest = name.partition(".")
    if name in ("embed", "positions", "edits"):
        return ComponentTold(name=name, kind=name, layer=None, head=None)
    if rest == "":
        layer, head = block[1:].split("H")
        return ComponentTold(name=name, kind="head", layer=int(layer), head=int(head))
    kind: Kind = "output-bias" if rest == "b_O" else "feed-forward" if rest == "feed_forward" else "norm-bias"
    return ComponentTold(name=name, kind=kind, layer=None if block == "final" else int(block[1:]), head=None)


def _norm(norm: "Normed") -> NormTold:
    names = NormTold.model_fields.keys() - {"name", "reads", "makes"}
    return NormTold(
        name=norm.name, reads=norm.reads, makes=norm.makes, **{name: finite(getattr(norm, name)[0]) for name in names}
    )
