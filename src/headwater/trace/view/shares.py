"""How much of a vector each component wrote: the projection of its write on the vector that it is part of.

With the scales of norms held fixed, any stage ``x`` of the stream is a sum of writes, each pulled through the norms that stand between it
and ``x``; norm biases are addends of their own. The share of a write ``w`` is ``<w, x>/<x, x>``, and all shares of a stage add up to 1::

    x = N(w_1) + … + N(w_n) + biases        share(w) = <N(w), x>/<x, x> = <w, N'(x/<x, x>)>

A share may be negative (the write points away from what the stream became) or above 1 (others took some of it back). ``N'`` is
``through_norm`` of ``headwater.trace.pull``: one question for each stage goes upstream, past every write.
"""

from dataclasses import dataclass, field

import torch
from einops import einsum
from jaxtyping import Bool, Float
from torch import Tensor

from headwater.model.config import NoNorm, PostNorm, PreNorm
from headwater.model.taps import NOBODY
from headwater.model.weights import NormWeights
from headwater.show.values import Progress, silent
from headwater.trace.pull import through_norm
from headwater.trace.view.normed import length
from headwater.trace.view.stages import START, Seen

AT_ONCE = 256
"""Positions looked at together: memory is this times stages × d_model."""
EDITS = "edits"
"""What an intervention added, where there was one."""

Shares = dict[str, Float[Tensor, "stage pos"]]


@torch.no_grad()
def shares(seen: Seen) -> Shares:
    """Each component's share in every stage at every position, in the order in which they write.

    Not a number for what is no sum of writes: a write itself, and a vector of zeros.
    """
    return shares_and_sizes(seen)[0]


@torch.no_grad()
def shares_and_sizes(seen: Seen, tell: Progress = silent) -> tuple[Shares, Float[Tensor, "stage pos"]]:
    """Shares, and of what size their addends are: ``√Σ (‖w‖ ‖q‖)²`` for each stage, ``q`` being its question where ``w`` is written.

    Where writes are large and cancel, that is far above the 1 that shares add up to, and rounding is as far above that of a 1.
    """
    count, pieces = len(seen.positions), list[_Sharing]()
    for first in range(0, count, AT_ONCE):
        tell("who wrote it", first / count)
        pieces.append(_Sharing(seen.some(first, min(first + AT_ONCE, count))).run())
    # The sweep goes upstream; people read downstream.
    found = {name: torch.cat([piece.found[name] for piece in pieces], dim=1) for name in reversed(pieces[0].found)}
    return found, torch.cat([piece.size for piece in pieces], dim=1).sqrt()


@dataclass(eq=False)
class _Sharing:
    """Questions about stages on their way upstream; ``asked`` says by number whose each one is."""

    seen: Seen
    asked: list[int] = field(default_factory=list[int])
    questions: list[Float[Tensor, "pos d_model"]] = field(default_factory=list[Tensor])
    found: Shares = field(default_factory=dict[str, Tensor])
    size: Float[Tensor, "stage pos"] = field(init=False)
    """The squared sizes of all addends so far."""

    def __post_init__(self) -> None:
        self.size = self.seen.sites["embed"].new_zeros(len(self.seen.stages), len(self.seen.positions), dtype=torch.float64)

    def run(self) -> "_Sharing":
        """Past every write, the last one first."""
        record = self.seen.record
        self.copy("final", "final", record.weights.norm_final if isinstance(record.config.norm, PreNorm) else None)
        for layer in reversed(range(record.config.layers)):
            (self.post_norm if isinstance(record.config.norm, PostNorm) else self.pre_norm)(layer)
        self.join(START)
        self.join("embed")
        if "positions" in self.seen.sites:
            self.write("positions", self.seen.sites["positions"])
        self.write("embed", self.seen.sites["embed"])
        if record.tap is not NOBODY:
            # What nobody wrote was put there by whoever intervened.
            self.found = {EDITS: 1 - torch.stack(list(self.found.values())).sum(dim=0), **self.found}
        self.found = {name: share.where(self.is_sum(), torch.nan) for name, share in self.found.items()}
        self.size = self.size.where(self.is_sum(), torch.nan)
        return self

    def is_sum(self) -> Bool[Tensor, "stage pos"]:
        """Where there is something to have a share in."""
        there = [stage.role != "write" for stage in self.seen.stages]
        lengths = torch.stack([length(self.seen[stage.name]) for stage in self.seen.stages])
        return (lengths > 0) & torch.tensor(there, device=lengths.device)[:, None]

    def post_norm(self, layer: int) -> None:
        """Upstream through a block whose norms stand in the stream."""
        at, block = f"L{layer}.", self.seen.record.weights.blocks[layer]
        self.join(f"{at}h")
        if block.feed_forward is not None:
            self.norm(f"{at}norm_2", block.norm_2)
            self.join(f"{at}t5")
            self.write(f"{at}feed_forward", self.seen.sites[f"{at}feed_forward"])
            self.join(f"{at}t3")
        self.norm(f"{at}norm_1", block.norm_1)
        self.join(f"{at}t2")
        self.attention(layer)
        self.join(f"{at}t0")

    def pre_norm(self, layer: int) -> None:
        """Upstream through a block that adds to the stream and reads copies of it."""
        at, config, block = f"L{layer}.", self.seen.record.config, self.seen.record.weights.blocks[layer]
        norm_1, norm_2 = (None, None) if isinstance(config.norm, NoNorm) else (block.norm_1, block.norm_2)
        is_beside = config.feed_forward is not None and config.feed_forward.reads == "beside-attention"
        self.join(f"{at}h")
        if config.feed_forward is not None:
            self.write(f"{at}feed_forward", self.seen.sites[f"{at}feed_forward"])
            if not is_beside:
                self.copy(f"{at}t4", f"{at}norm_2", norm_2)
        self.join(f"{at}t3")
        self.attention(layer)
        if is_beside:
            self.copy(f"{at}t4", f"{at}norm_2", norm_2)
        self.copy(f"{at}t1", f"{at}norm_1", norm_1)
        self.join(f"{at}t0")

    def join(self, name: str) -> None:
        """Ask about a stage from here on, where it is one and has not been asked about under another name."""
        for number, stage in enumerate(self.seen.stages):
            if name in (stage.name, *stage.also) and number not in self.asked:
                x = self.seen[name]
                self.asked.append(number)
                # Squares in double precision: in single those of 10²⁰ would be infinite.
                self.questions.append((x / x.double().square().sum(dim=-1, keepdim=True)).to(x))

    def copy(self, name: str, norm: str, weights: NormWeights | None) -> None:
        """Ask about a copy, and go on with what it is a copy of; ``weights`` are those of the norm that made it."""
        before = len(self.asked)
        self.join(name)
        if weights is not None and len(self.asked) > before:
            self.norm(norm, weights, before)

    def norm(self, name: str, weights: NormWeights, since: int = 0) -> None:
        """Upstream through a norm, with those questions that have been asked ``since``."""
        kind, scale = self.seen.record.config.norm, self.seen.sites[f"{name}.scale"]
        assert not isinstance(kind, NoNorm), "asked only where there are norms"
        q = torch.stack(self.questions[since:])
        pulled = through_norm(kind.norm, weights, scale.to(q), q)
        for bias, constant in pulled.constants.items():
            self.note(f"{name}.{bias}", constant, since)
        if weights.bias is not None:
            self.weigh(q, weights.bias.expand_as(q[0]), since)
        self.questions[since:] = list(pulled.q)

    def attention(self, layer: int) -> None:
        """Past the heads of a layer."""
        weights, mixed = self.seen.record.weights.blocks[layer].attention, self.seen.sites[f"L{layer}.mixed"]
        if weights.b_O is not None:
            self.write(f"L{layer}.b_O", weights.b_O.expand_as(self.seen.sites["embed"]))
        writes = einsum(mixed, weights.W_O, "head pos d_head, head d_head d_model -> head pos d_model")
        each = einsum(torch.stack(self.questions), writes, "stage pos d_model, head pos d_model -> head stage pos")
        for head in reversed(range(len(writes))):
            self.note(f"L{layer}H{head}", each[head])
        self.weigh(torch.stack(self.questions), writes)

    def write(self, name: str, written: Float[Tensor, "pos d_model"]) -> None:
        """Past one write: its share in every stage that it is part of."""
        questions = torch.stack(self.questions)
        self.note(name, (questions * written).sum(dim=-1))
        self.weigh(questions, written)

    def weigh(self, q: Float[Tensor, "some pos d_model"], written: Float[Tensor, "*many pos d_model"], since: int = 0) -> None:
        """Of what size the shares of one write, or of many, may be at the most."""
        squares = written.double().square().sum(dim=-1)
        self.size[self.asked[since:]] += q.double().square().sum(dim=-1) * squares.reshape(-1, squares.shape[-1]).sum(dim=0)

    def note(self, name: str, parts: Float[Tensor, "some pos"], since: int = 0) -> None:
        """Put shares where they belong; a write has none in stages before it."""
        share = self.found.setdefault(name, parts.new_zeros(len(self.seen.stages), parts.shape[1]))
        share[self.asked[since:]] += parts
