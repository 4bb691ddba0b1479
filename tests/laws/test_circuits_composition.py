"""Composition by tiles of Gram matrices against the definition, written out with dense matrices."""

import math
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwater.circuits.composition import MODES, composition, connections, virtual
from headwater.circuits.grams import squares
from headwater.circuits.ports import head_readers, head_writers
from headwater.model.config import LayerNorm, NoNorm, PostNorm, PreNorm
from headwater.model.positions import place
from strategies import configs, random_weights, seeds

depths = st.integers(1, 3)


def norm_matrix(weights, norm):
    """``C diag(γ)``."""
    d = weights.config.d_model
    centre = torch.eye(d, dtype=weights.dtype)
    if isinstance(weights.config.norm.norm, LayerNorm):
        centre = centre - 1 / d
    return centre if norm.gain is None else centre @ torch.diag(norm.gain)


def before(weights, norm):
    """What stands between the stream and a reader with this norm."""
    d = weights.config.d_model
    return norm_matrix(weights, norm) if isinstance(weights.config.norm, PreNorm) else torch.eye(d, dtype=weights.dtype)


def after(weights):
    """What a write loses because nobody can read it."""
    config, eye = weights.config, torch.eye(weights.config.d_model, dtype=weights.dtype)
    centred = isinstance(config.norm, PreNorm) and isinstance(config.norm.norm, LayerNorm)
    return eye - 1 / config.d_model if centred else eye


def between(weights, written, read):
    """The norms in the stream from one stage to another: all in post-norm models, none in others."""
    product, config = torch.eye(weights.config.d_model, dtype=weights.dtype), weights.config
    for stage in range(max(written, 0), read):
        block = weights.blocks[stage // 2]
        if isinstance(config.norm, PostNorm) and (stage % 2 == 0 or config.feed_forward):
            product = product @ norm_matrix(weights, block.norm_2 if stage % 2 else block.norm_1)
    return product


def head_matrices(weights, layer, head):
    """``W_OV`` and ``W_QK``, dense."""
    block, group = weights.blocks[layer], weights.config.attention.group_size
    attention, reading = block.attention, before(weights, block.norm_1)
    W_OV = reading @ attention.W_V[head // group] @ attention.W_O[head] @ after(weights)
    return W_OV, reading @ attention.W_Q[head] @ attention.W_K[head // group].T @ reading.T


def dense_heads(weights):
    for layer in range(weights.config.layers):
        for head in range(weights.config.heads):
            yield f"L{layer}H{head}", 2 * layer, *head_matrices(weights, layer, head)


def dense_writers(weights):
    """Name, stage and matrix of each."""
    config = weights.config
    yield "embed", -1, weights.W_E @ after(weights)
    positions = place(weights, 0, config.context).in_stream
    if positions is not None:
        yield "positions", -1, positions @ after(weights)
    for layer, block in enumerate(weights.blocks):
        if block.feed_forward:
            yield f"L{layer}.feed_forward", 2 * layer + 1, block.feed_forward.W_out @ after(weights)
    for name, stage, W_OV, _ in dense_heads(weights):
        yield name, stage, W_OV


def dense_readers(weights):
    config = weights.config
    for name, stage, W_OV, W_QK in dense_heads(weights):
        yield f"{name}.Q", stage, W_QK
        yield f"{name}.K", stage, W_QK.T
        yield f"{name}.V", stage, W_OV
    for layer, block in enumerate(weights.blocks):
        if block.feed_forward:
            stage = 2 * layer + (config.feed_forward.reads == "after-attention")
            yield f"L{layer}.feed_forward", stage, before(weights, block.norm_2) @ block.feed_forward.W_in
            if block.feed_forward.W_gate is not None:
                yield f"L{layer}.gate", stage, before(weights, block.norm_2) @ block.feed_forward.W_gate
    W_U = weights.W_U - weights.W_U.mean(dim=1, keepdim=True)
    yield "unembed", 2 * config.layers, before(weights, weights.norm_final) @ W_U


def assert_as_defined(weights, found, seed):
    """Some forty pairs of those that were scored."""
    writers = [writer for writer in dense_writers(weights) if writer[0] in found.writers]
    readers = [reader for reader in dense_readers(weights) if reader[0] in found.readers]
    pairs = [(writer, reader) for writer in writers for reader in readers]
    for (name, written, A), (other, read, B) in Random(seed).sample(pairs, min(40, len(pairs))):
        score = found.between(name, other)
        if written >= read:
            assert math.isnan(score)
            continue
        arrived = A @ between(weights, written, read)
        size = float(arrived.norm() * B.norm())
        # Of what is nothing but rounding there is no score to compare.
        if size > 1e-9 * float(A.norm() * (1 + B.norm())):
            assert score**2 == pytest.approx(float((arrived @ B).norm()) ** 2 / size**2, abs=1e-12)


@given(configs(layers=st.integers(2, 3)), seeds)
def test_every_pair_of_heads_scores_as_defined(config, seed):
    weights = random_weights(config, seed)
    found = composition(weights)
    assert found.writers == tuple(name for name, *_ in dense_heads(weights))
    assert [found.of(mode).shape for mode in MODES] == [(len(found.writers),) * 2] * 3
    assert_as_defined(weights, found, seed)


@given(configs(layers=depths), seeds)
def test_everything_that_touches_the_stream_scores_as_defined(config, seed):
    weights = random_weights(config, seed)
    found = connections(weights)
    assert set(found.writers) == {name for name, *_ in dense_writers(weights)}
    assert set(found.readers) == {name for name, *_ in dense_readers(weights)}
    assert_as_defined(weights, found, seed)


@given(configs(layers=st.just(0)), seeds)
def test_without_layers_the_embedding_still_meets_the_unembedding(config, seed):
    weights = random_weights(config, seed)
    assert connections(weights).readers == ("unembed",)
    assert_as_defined(weights, connections(weights), seed)


@given(configs(layers=st.integers(2, 3)), seeds, st.integers(1, 9), st.integers(1, 3))
def test_tiles_and_blocks_of_any_size_give_the_same_squares(config, seed, tile, block):
    weights = random_weights(config, seed)
    writers, readers = head_writers(weights), [head_readers(weights, mode) for mode in MODES]
    for ours, whole in zip(squares(writers, readers, tile=tile, block=block), squares(writers, readers, tile=64), strict=True):
        torch.testing.assert_close(ours, whole)


@given(configs(layers=st.just(2), norm=st.sampled_from([NoNorm(), PreNorm(), PostNorm()])), seeds)
def test_a_change_of_basis_inside_heads_changes_no_score(config, seed):
    weights, generator = random_weights(config, seed), torch.Generator().manual_seed(seed)
    changed = {}
    for layer, block in enumerate(weights.blocks):
        attention, group = block.attention, config.attention.group_size
        R = torch.linalg.qr(
            torch.randn(len(attention.W_K), config.d_head, config.d_head, generator=generator, dtype=torch.float64)
        )[0]
        R = R * torch.linspace(0.5, 2, config.d_head, dtype=torch.float64)
        inverse = torch.linalg.inv(R)
        each = R.repeat_interleave(group, dim=0)
        changed[f"blocks.{layer}.attn.W_Q"] = attention.W_Q @ torch.linalg.inv(each).mT
        changed[f"blocks.{layer}.attn.W_K"] = attention.W_K @ R
        changed[f"blocks.{layer}.attn.W_V"] = attention.W_V @ R
        changed[f"blocks.{layer}.attn.W_O"] = inverse.repeat_interleave(group, dim=0) @ attention.W_O
    ours, theirs = composition(weights).scores, composition(weights.changed(changed)).scores
    torch.testing.assert_close(theirs.square(), ours.square(), rtol=1e-9, atol=1e-12, equal_nan=True)


@given(configs(layers=st.just(2), norm=st.just(NoNorm())), seeds)
def test_single_precision_is_as_near_as_it_says(config, seed):
    weights = random_weights(config, seed)
    exact = composition(weights).scores
    near = composition(weights.to(dtype=torch.float32)).scores
    there = ~exact.isnan()
    assert (near.square() - exact.square())[there].abs().max() < 16 * torch.finfo(torch.float32).eps


@given(configs(layers=st.just(3)), seeds, st.data())
def test_a_virtual_head_is_the_product_of_its_heads(config, seed, data):
    weights = random_weights(config, seed)
    heads = [
        (layer, data.draw(st.integers(0, config.heads - 1)))
        for layer in sorted(data.draw(st.sets(st.integers(0, 2), min_size=1)))
    ]
    product, last = None, 0
    for layer, head in heads:
        W_V = weights.blocks[layer].attention.W_V[head // config.attention.group_size]
        W_OV = before(weights, weights.blocks[layer].norm_1) @ W_V @ weights.blocks[layer].attention.W_O[head]
        product = W_OV if product is None else product @ between(weights, 2 * last, 2 * layer) @ W_OV
        last = layer
    found = virtual(weights, heads, source="stream", out="stream")
    assert found.inner <= config.d_head
    torch.testing.assert_close(found.dense(), product)
    W_U = between(weights, 2 * last, 2 * config.layers) @ before(weights, weights.norm_final) @ weights.W_U
    torch.testing.assert_close(virtual(weights, heads, source="stream").dense(), product @ W_U)
