"""The forward pass. There is one.

Read ``forward``, then ``pre_norm`` and ``post_norm``: that is the transformer of the source documents. ``look`` hands every
named value to whoever watches and goes on with what comes back; ``headwater.model.taps`` lists the names.
"""

from dataclasses import dataclass

from einops import einsum
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import embedding, linear

from headwater.model.attention import Rule, fused, mix, scores
from headwater.model.components import activate, gate, normalise
from headwater.model.config import ModelConfig, NoNorm, PostNorm, PreNorm
from headwater.model.positions import Placed, for_each_head, place
from headwater.model.taps import NOBODY, Look, Tap, show
from headwater.model.weights import BlockWeights, FeedForwardWeights, NormWeights, Weights
from headwater.shapes import Logits, Stream, Tokens


def forward(weights: Weights, tokens: Tokens, tap: Tap = NOBODY, *, start: int = 0) -> Logits:
    """Tokens to logits; ``start`` is the position of the first token when earlier ones are already in a cache.

    Ids are trusted here, where training passes through; ``record``, ``generate`` and ``Model`` check them.

    >>> import torch
    >>> from headwater.model.presets import named
    >>> forward(Weights.draw(named("one-layer"), seed=0), torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3, 4096])
    """
    return unembed(weights, final_stream(weights, tokens, tap, start=start), tap)


def final_stream(weights: Weights, tokens: Tokens, tap: Tap = NOBODY, *, start: int = 0) -> Stream:
    """The stream after the last block."""
    placed = place(weights, start, tokens.shape[1])
    # The same rows as W_E[tokens], whose gradient several threads would add up in any order.
    x = show(tap, "embed", embedding(tokens, weights.W_E))
    if placed.in_stream is not None:
        x = x + show(tap, "positions", placed.in_stream)
    for layer in range(weights.config.layers):
        x = run_block(weights, layer, x, placed, tap)
    return x


def unembed(weights: Weights, x: Stream, tap: Tap = NOBODY) -> Logits:
    """The last norm of a pre-norm model, then ``x W_U + b_U``."""
    return show(tap, "logits", affine(last_norm(weights, x, tap), weights.W_U, weights.b_U))


def last_norm(weights: Weights, x: Stream, tap: Tap = NOBODY) -> Stream:
    """What the unembedding reads: the stream, in a pre-norm model normalised once more."""
    if isinstance(weights.config.norm, PreNorm):
        x = normalise(weights.config.norm.norm, weights.norm_final, x, Look(tap), "final.scale")
    return show(tap, "final", x)


def run_block(weights: Weights, layer: int, x: Stream, placed: Placed, tap: Tap) -> Stream:
    """One block: what it gets, what it leaves."""
    look = Look(tap, f"L{layer}.")
    block = Block(weights.config, weights.blocks[layer], placed, look)
    step = post_norm if isinstance(weights.config.norm, PostNorm) else pre_norm
    return look("out", step(block, look("in", x), look))


def post_norm(block: "Block", x: Stream, look: Look) -> Stream:
    """Equations 10.32 to 10.37: the stream itself is normalised after each write."""
    t1 = look("attention", block.attend(look("attention_input", x)))
    t2 = look("middle", t1 + x)
    t3 = block.norm_1(t2)
    if block.is_attention_only:
        return t3
    t3 = look("feed_forward_input", t3)
    t4 = look("feed_forward", block.feed_forward(t3))
    t5 = look("sum", t4 + t3)
    return block.norm_2(t5)


def pre_norm(block: "Block", x: Stream, look: Look) -> Stream:
    """Each component reads a normalised copy (without norms: the stream itself) and adds to the stream."""
    t1 = look("attention_input", block.norm_1(x))
    t2 = look("attention", block.attend(t1))
    t3 = look("middle", x + t2)
    if block.is_attention_only:
        return t3
    t4 = look("feed_forward_input", block.norm_2(x if block.is_parallel else t3))
    t5 = look("feed_forward", block.feed_forward(t4))
    return t3 + t5


@dataclass(frozen=True)
class Block:
    """The components of one block, ready to be applied."""

    config: ModelConfig
    weights: BlockWeights
    placed: Placed
    look: Look

    @property
    def is_attention_only(self) -> bool:
        """Whether there is no feed-forward layer."""
        return self.config.feed_forward is None

    @property
    def is_parallel(self) -> bool:
        """Whether the feed-forward layer reads what attention read."""
        return self.config.feed_forward is not None and self.config.feed_forward.reads == "beside-attention"

    def norm_1(self, x: Stream) -> Stream:
        """The norm that belongs to attention."""
        return self._norm(self.weights.norm_1, x, "norm_1.scale")

    def norm_2(self, x: Stream) -> Stream:
        """The norm that belongs to the feed-forward layer."""
        return self._norm(self.weights.norm_2, x, "norm_2.scale")

    def _norm(self, weights: NormWeights, x: Stream, name: str) -> Stream:
        norm = self.config.norm
        return x if isinstance(norm, NoNorm) else normalise(norm.norm, weights, x, self.look, name)

    def attend(self, x: Stream) -> Stream:
        """``Σ_heads softmax(q kᵀ · scale) v W_O + b_O``."""
        weights, placed, look, attention = self.weights.attention, self.placed, self.look, self.config.attention
        assert attention is not None, "every block has attention"
        marked = x if placed.in_queries_and_keys is None else x + placed.in_queries_and_keys
        q, k, v = (
            project(marked, weights.W_Q, weights.b_Q),
            project(marked, weights.W_K, weights.b_K),
            project(x, weights.W_V, weights.b_V),
        )
        if placed.turn is not None:
            q, k = placed.turn(q), placed.turn(k)
        q, k, v = look("queries", q), look("keys", k), look("values", v)
        k, v = for_each_head(k, attention.heads), for_each_head(v, attention.heads)
        rule = Rule(attention.mask, attention.scale)
        if look.wants("scores", "pattern"):
            mixed = mix(look("pattern", look("scores", scores(q, k, rule)).softmax(dim=-1)), v)
        else:
            mixed = fused(q, k, v, rule)
        return self._write(look("mixed", mixed))

    def _write(self, mixed: Float[Tensor, "batch head pos d_head"]) -> Stream:
        weights = self.weights.attention
        if self.look.wants("head_writes"):
            writes = einsum(mixed, weights.W_O, "batch head pos d_head, head d_head d_model -> batch head pos d_model")
            write = self.look("head_writes", writes).sum(dim=1)
            return write if weights.b_O is None else write + weights.b_O
        # All heads' results side by side, as the rows of W_O are.
        return affine(mixed.transpose(1, 2).flatten(2), weights.W_O.flatten(0, 1), weights.b_O)

    def feed_forward(self, x: Stream) -> Stream:
        """``(gates ∘ hidden) W_out + b_out``, where ``hidden`` is ``x W_in + b_in``.

        Ungated, the gates are ``act(hidden)/hidden``; gated, they are ``act(x W_gate + b_gate)``.
        """
        weights = self.weights.feed_forward
        assert weights is not None, "asked only where there is a feed-forward layer"
        return affine(self.look("neurons", self._neurons(weights, x)), weights.W_out, weights.b_out)

    def _neurons(self, weights: FeedForwardWeights, x: Stream) -> Float[Tensor, "batch pos d_mlp"]:
        look, layer = self.look, self.config.feed_forward
        assert layer is not None, "asked only where there is a feed-forward layer"
        if weights.W_gate is not None:
            opened = look("gate_input", affine(x, weights.W_gate, weights.b_gate))
            gates = look("gates", activate(layer.activation, opened))
            return gates * look("hidden", affine(x, weights.W_in, weights.b_in))
        hidden = look("hidden", affine(x, weights.W_in, weights.b_in))
        if look.wants("gates"):
            return look("gates", gate(layer.activation, hidden)) * hidden
        return activate(layer.activation, hidden)


def affine(x: Float[Tensor, "*any inner"], W: Float[Tensor, "inner outer"], b: Float[Tensor, " outer"] | None) -> Tensor:
    """``x W + b``."""
    return linear(x, W.T, b)


def project(
    x: Float[Tensor, "batch pos d_model"],
    W: Float[Tensor, "any_head d_model d_head"],
    b: Float[Tensor, "any_head d_head"] | None,
) -> Float[Tensor, "batch any_head pos d_head"]:
    """Each head's view of the stream: ``x W + b``, all heads in one product.

    In torch's words, not einops': one token at a time, these few steps are what a block waits for besides its products.
    """
    wide = W.transpose(0, 1).flatten(1)
    out = affine(x, wide, None if b is None else b.flatten())
    return out.view(*x.shape[:-1], W.shape[0], W.shape[2]).transpose(1, 2)
