"""Of what size the numbers are that a logit is added up from, and so what rounding may come to when it is taken apart.

Whatever is written to the stream was rounded, and so is each question on its way upstream. What a sum of parts is off by is, to first order, all of these
errors, each met by the other side as the run has it: what is wrong in a write ``w`` by the question ``q`` that reaches it, what is wrong in a question by
what it meets. An error is some units in the last place of the products that its vector was added up from, not of the vector: where these cancel it is small
and they are not. So squares of sizes are added up, of every write and every head by itself, and are never taken from each other::

    size² = Σ_writes ‖q‖² ‖w‖² + Σ_heads ‖W_O q‖² max_source ‖v‖² (1 + (1 − Σ_source attention²) · score²/(d_model · depth)) + Σ_biases²
    bound = 2 · √(d_model · depth) · (unit · size + smallest)

``‖w‖²`` of what a head wrote is ``Σ_j mixed_j² ‖W_O_j‖²``, of a feed-forward layer that is passed ``Σ_j neuron_j² ‖W_out_j‖²``. ``score`` is the largest that a head may
have there, ``scale · ‖query‖ max_source ‖key‖``: attention is made again of scores, and is off by as many units as they are large, but where one source has all of it.
``smallest`` is what underflows.

Of hundreds of random models, badly conditioned ones among them, the worst came to a quarter of the bound; those that are trained come to a hundredth and less.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from headwater.circuits.head import Head
from headwater.model.config import NoNorm, PreNorm
from headwater.model.positions import for_each_head
from headwater.model.record import Record
from headwater.shapes import whole
from headwater.trace.course import AttentionStep, FeedForwardStep, Given, NormStep, course
from headwater.trace.frozen import Frozen, Rows
from headwater.trace.pull import Covectors
from headwater.trace.question import Question, about_final


def rounding(record: Record, size: float) -> float:
    """What rounding may come to in sums of numbers of some size, in a record's format and at its width and depth."""
    kind = torch.finfo(record.weights.dtype)
    return 2 * math.sqrt(record.config.d_model * _depth(record)) * (kind.eps * size + kind.tiny)


def furthest(differences: Iterable[float]) -> float:
    """The largest difference. What is no number is as far away as can be: ``max`` would pass it over.

    >>> furthest([1.0, math.nan])
    inf
    """
    return max((math.inf if math.isnan(each) else each for each in differences), default=0.0)


def squares(vectors: Float[Tensor, "*many width"]) -> Float[Tensor, "*many"]:
    """Squared lengths, in double precision: in single those of 10²⁰ would be infinite."""
    # Which copies nothing: patterns are large.
    return cast("Tensor", torch.linalg.vector_norm(vectors, dim=-1, dtype=torch.float64)).square()


def shared(pattern: Float[Tensor, "*many source"]) -> Float[Tensor, "*many"]:
    """How far attention is from all being on one source: ``1 − Σ_source attention²``."""
    return (1 - squares(pattern)).clamp(min=0)


def logit_size(frozen: Frozen, position: int, tokens: list[int], *, centred: bool = False) -> float:
    """The size of all that is added up to some tokens' logits after a position, each by itself: their difference may be none.

    ``centred``, the mean of all logits is one of them.
    """
    record, (W_U, b_U) = frozen.record, (frozen.record.weights.W_U, frozen.record.weights.b_U)
    columns = torch.cat([W_U[:, tokens], *([W_U.mean(dim=-1, keepdim=True)] if centred else [])], dim=-1)
    biases = None if b_U is None else torch.cat([b_U[tokens], *([b_U.mean()[None]] if centred else [])])
    at = torch.tensor([position], device=W_U.device)
    asked = about_final(record, at, columns.T[:, None], {} if biases is None else {"b_U": biases})
    return float(_met(asked, Sizes(frozen).upto(at)[asked.stage]).sqrt().sum())


def score_tie(frozen: Frozen, head: Head, dest: int) -> float:
    """What rounding may come to in the scores of a head at a destination: those that are no further apart tie.

    Equal tokens have equal scores where positions do not tell them apart; calculated, these differ in their last digits.
    """
    at = torch.tensor([dest], device=frozen.record.tokens.device)
    return rounding(frozen.record, math.sqrt(float(Sizes(frozen).of_scores(head.layer, at)[head.head])))


@dataclass(frozen=True, eq=False)
class Sizes:
    """The squared sizes of what a run wrote, and of what questions meet there."""

    frozen: Frozen
    _longest: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict[int, tuple[Tensor, Tensor]])
    _rows_of_W_out: dict[int, Tensor] = field(default_factory=dict[int, Tensor])

    def upto(self, at: Rows) -> Float[Tensor, "stage row"]:
        """All that has been written up to each stage of the stream's course; norms in the stream scale it."""
        found = [torch.zeros(len(at), dtype=torch.float64, device=at.device)]
        for step in course(self.frozen.record.config):
            is_norm = isinstance(step, NormStep)
            now = self.normed(f"L{step.layer}.{step.norm}", found[-1], at) if is_norm else found[-1] + self.written(step, at)
            found.append(now)
        return torch.stack(found)

    def written(self, step: Given | AttentionStep | FeedForwardStep, at: Rows) -> Float[Tensor, " row"]:
        """What a step wrote."""
        match step:
            case Given(site=site):
                return squares(self.frozen.rows(site, at))
            case AttentionStep(layer=layer):
                weights, mixed = self.frozen.block(layer).attention, self.frozen.mixed(layer, at).double()
                heads = einsum(mixed.square(), squares(weights.W_O), "head row d_head, head d_head -> row")
                return heads if weights.b_O is None else heads + squares(weights.b_O)
            case FeedForwardStep(layer=layer):
                return squares(self.frozen.rows(f"L{layer}.feed_forward", at))

    def normed(self, name: str, size: Float[Tensor, " row"], at: Rows) -> Float[Tensor, " row"]:
        """Through one of the run's norms: vectors of any direction are met by the mean of its gains."""
        record = self.frozen.record
        assert not isinstance(record.config.norm, NoNorm), "asked only where there are norms"
        weights, scale = record.weights.norm(name), self.frozen.rows(f"{name}.scale", at).double()
        scaled = size * scale.square() * (1.0 if weights.gain is None else squares(weights.gain) / len(weights.gain))
        return scaled if weights.bias is None else scaled + squares(weights.bias)

    def of_questions(self, questions: Sequence[Question]) -> float:
        """What is added up where questions meet the stream: everything that has been written there."""
        if not questions:
            return 0.0
        at = questions[0].at.new_tensor(sorted({position for each in questions for position in whole(each.at)}))
        stages = self.upto(at)
        return sum(float(_met(each, stages[each.stage, torch.searchsorted(at, each.at)]).sum()) for each in questions)

    def of_heads(
        self,
        layer: int,
        at: Rows,
        wanted: Float[Tensor, "*many head row d_head"],
        shared: Float[Tensor, "head row"],
        first: int = 0,
    ) -> Float[Tensor, "*many head"]:
        """What is added up inside heads of a layer, from the ``first`` on, that a question passes, at the positions where they wrote.

        ``wanted`` is ``W_O q``; ``shared`` is ``1 − Σ_source attention²``: where one source has all of it, no score changes it.
        """
        record, heads = self.frozen.record, slice(first, first + len(shared))
        values, scores = self._largest(layer)[1][heads, None], self.of_scores(layer, at)[heads]
        known = 1 + shared * scores / (record.config.d_model * _depth(record))
        return (squares(wanted) * values * known).sum(dim=-1)

    def of_scores(self, layer: int, at: Rows) -> Float[Tensor, "head row"]:
        """The largest score that each head of a layer may have at some destinations, squared: ``scale² ‖query‖² max_source ‖key‖²``."""
        attention, made = self.frozen.record.config.attention, [f"L{layer}.queries", f"L{layer}.keys"]
        assert attention is not None, "asked only where there are heads"
        queries = squares(self.frozen.record.together(made)[made[0]][0][:, at])
        return attention.scale**2 * queries * self._largest(layer)[0][:, None]

    def _largest(self, layer: int) -> tuple[Float[Tensor, " head"], Float[Tensor, " head"]]:
        """The longest key and the longest value that each head of a layer has."""
        if layer not in self._longest:
            record = self.frozen.record
            # Keys as patterns are made of them.
            keys = record.together([f"L{layer}.queries", f"L{layer}.keys"])[f"L{layer}.keys"]
            found = (squares(each[0]).amax(dim=-1) for each in (keys, record[f"L{layer}.values"]))
            keys, values = (each.repeat_interleave(record.config.heads // len(each)) for each in found)
            self._longest[layer] = keys, values
        return self._longest[layer]

    def of_neurons(self, layer: int, neurons: Float[Tensor, "row d_mlp"], q: Covectors) -> Float[Tensor, "*many"]:
        """What is added up inside a feed-forward layer that a question passes, at the positions where it wrote."""
        if layer not in self._rows_of_W_out:
            weights = self.frozen.block(layer).feed_forward
            assert weights is not None, "a step that the model has"
            self._rows_of_W_out[layer] = squares(weights.W_out)
        return (squares(q) * (neurons.double().square() @ self._rows_of_W_out[layer])).sum(dim=-1)

    def uncancelled(self) -> Float[Tensor, " pos"]:
        """All that was written, carried on through every layer as if nothing cancelled: what the unembedding reads at every position.

        A vector of any direction is as long behind a matrix as before it, times the matrix' Frobenius norm over ``√d_model``. Sources are met by their
        attention and not by its square: what is wrong in one token is wrong wherever it stands.
        """
        config, at = self.frozen.record.config, _every(self.frozen.record)
        found = [torch.zeros(len(at), dtype=torch.float64, device=at.device)]
        for step in course(config):
            match step:
                case NormStep(layer=layer, norm=norm):
                    found.append(self.normed(f"L{layer}.{norm}", found[-1], at))
                case Given():
                    found.append(found[-1] + self.written(step, at))
                case _:
                    read = found[step.reads]
                    read = read if step.norm is None else self.normed(f"L{step.layer}.{step.norm}", read, at)
                    carried = self._heads(step, read) if isinstance(step, AttentionStep) else self._neurons(step, read)
                    found.append(found[-1] + self.written(step, at) + carried)
        return self.normed("final", found[-1], at) if isinstance(config.norm, PreNorm) else found[-1]

    def _heads(self, step: AttentionStep, read: Float[Tensor, " pos"]) -> Float[Tensor, " pos"]:
        weights, heads = self.frozen.block(step.layer).attention, self.frozen.record.config.heads
        W_V, W_O = for_each_head(weights.W_V.double()[None], heads)[0], weights.W_O.double()
        # ‖W_V W_O‖² of each head, by products that are small.
        gains = ((W_V.mT @ W_V) * (W_O @ W_O.mT)).sum(dim=(1, 2)) / W_V.shape[1]
        pattern = self.frozen.pattern(step.layer, _every(self.frozen.record))
        most = read.max().clamp(min=torch.finfo(read.dtype).tiny)
        # In the pattern's own format, which is large: so read has to be within its reach.
        met = einsum(pattern, (read / most).to(pattern), "head dest source, source -> head dest").double()
        return most * einsum(gains, met, "head, head dest -> dest")

    def _neurons(self, step: FeedForwardStep, read: Float[Tensor, " pos"]) -> Float[Tensor, " pos"]:
        weights = self.frozen.block(step.layer).feed_forward
        assert weights is not None, "a step that the model has"
        gates = self.frozen.gates(step.layer, _every(self.frozen.record)).double()
        each = squares(weights.W_in.T) * squares(weights.W_out)
        return read * (gates.square() @ each) / self.frozen.record.config.d_model


def _met(question: Question, written: Float[Tensor, " row"]) -> Float[Tensor, "*many"]:
    biases = [value.double().square() for value in question.constants.values()]
    return sum(biases, (squares(question.q) * written).sum(dim=-1))


def _every(record: Record) -> Rows:
    return torch.arange(record.tokens.shape[1], device=record.tokens.device)


def _depth(record: Record) -> int:
    return len(course(record.config)) + 1
