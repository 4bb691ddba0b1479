"""Laws of the studies: what they print follows from the numbers they are given, by other ways too."""

import math

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

from headwater.model.config import Attention, FeedForward, LearnedPositions, ModelConfig, NoNorm, PreNorm
from headwater.model.forward import Block, final_stream, forward, unembed
from headwater.model.positions import place
from headwater.model.taps import NOBODY, Look, Recorder, Tap
from headwater.model.weights import Weights
from headwater.train.module import TransformerModule
from headwater.train.studies import bigram, rank
from headwater.train.studies.gradient_depth import WithoutResidual, stream_gradients
from headwater.train.studies.gradient_paths import cosine_at_the_logits, path_gradients
from headwater.train.studies.pairs import Pairs
from headwater.train.studies.zero_layer import PairModule, counts_of, zero_layer
from strategies import Member, models, random_tokens, random_weights, seeds


def random_text(seed, vocab, length=400):
    """Some tokens are common, some rare, some absent."""
    generator = np.random.default_rng(seed)
    return generator.choice(vocab, length, p=generator.dirichlet(np.full(vocab, 0.3)))


def dense_fit(weights, table, often):
    """Every number of ``bigram.fit`` from the square tables, with loops."""
    log_q = (weights.W_E @ weights.W_U).log_softmax(-1)
    logits, total = weights.W_E @ weights.W_U, table.sum()
    loss, kls, frequent, mass, unseen, gaps, xs, ys, ws = 0.0, {}, [], 0.0, [], [], [], [], []
    for first, row in enumerate(table):
        count = row.sum()
        if not count:
            continue
        p, seen = row / count, row > 0
        loss -= float((row / total)[seen] @ log_q[first][seen])
        kls[first] = float(p[seen] @ (p[seen].log() - log_q[first][seen]))
        if count >= often:
            frequent.append((kls[first], float(count)))
        mass += float(count / total * log_q[first][~seen].exp().sum())
        unseen += log_q[first][~seen].exp().tolist()
        if not seen.all():
            gaps.append((float(logits[first][seen].mean() - logits[first][~seen].mean()), float(count)))
        xs.append(log_q[first][seen] - p[seen] @ log_q[first][seen])
        ys.append(p[seen].log() - p[seen] @ p[seen].log())
        ws.append(row[seen])
    x, y, w = torch.cat(xs), torch.cat(ys), torch.cat(ws)
    spread = float((w * x * x).sum() * (w * y * y).sum()) ** 0.5
    return {
        "loss": loss,
        "mean_kl": sum(kl for kl, _ in frequent) / len(frequent) if frequent else None,
        "weighted_kl": sum(kl * n for kl, n in frequent) / sum(n for _, n in frequent) if frequent else None,
        "largest_kl": max(kl for kl, _ in frequent) if frequent else None,
        "correlation": float((w * x * y).sum()) / spread if spread else None,
        "unseen_mass": mass,
        "unseen_probability": sum(unseen) / len(unseen) if unseen else None,
        "largest_logit": max(
            float((row - row.mean()).abs().max()) for row, counts in zip(logits, table, strict=True) if counts.any()
        ),
        "gap": sum(gap * n for gap, n in gaps) / sum(n for _, n in gaps) if gaps else None,
    }


@given(seed=seeds, vocab=st.integers(2, 9), d_model=st.integers(1, 6), often=st.sampled_from([1, 50, 10_000]))
def test_the_streamed_study_equals_the_dense_one(seed, vocab, d_model, often):
    weights, pairs = random_weights(zero_layer(vocab, d_model), seed), Pairs.of(random_text(seed, vocab), vocab)
    found = bigram.fit(weights, pairs, often=often)
    for name, wanted in dense_fit(weights, pairs.table, often).items():
        assert getattr(found, name) == (None if wanted is None else pytest.approx(wanted, rel=1e-9, abs=1e-12)), name


@pytest.mark.parametrize("at_once", [1, 20, 45])
def test_how_many_rows_are_taken_at_once_changes_nothing(at_once, monkeypatch):
    weights, pairs = random_weights(zero_layer(9, 4), 3), Pairs.of(random_text(3, 9), 9)
    whole = bigram.fit(weights, pairs)
    monkeypatch.setattr(bigram, "ENTRIES_AT_ONCE", at_once)
    streamed = bigram.fit(weights, pairs)
    for name in ("loss", "excess", "correlation", "unseen_mass", "gap", "largest_logit"):
        assert getattr(streamed, name) == pytest.approx(getattr(whole, name), rel=1e-12)


@given(seed=seeds, vocab=st.integers(2, 12), d_model=st.integers(1, 6))
def test_the_loss_exceeds_the_conditional_entropy_by_the_mean_divergence(seed, vocab, d_model):
    pairs = Pairs.of(random_text(seed, vocab), vocab)
    found = bigram.fit(random_weights(zero_layer(vocab, d_model), seed), pairs)
    assert found.loss - pairs.entropy == pytest.approx(found.excess, abs=1e-12)
    assert found.excess >= 0


@given(seed=seeds, vocab=st.integers(2, 12))
def test_logits_that_are_the_log_probabilities_up_to_a_constant_in_each_row_have_no_excess(seed, vocab):
    generator = torch.Generator().manual_seed(seed)
    counts = torch.randint(1, 50, (vocab, vocab), generator=generator)
    first, second = (axis.flatten().numpy() for axis in torch.meshgrid(*[torch.arange(vocab)] * 2, indexing="ij"))
    pairs = Pairs.sparse(vocab, first, second, counts.flatten().numpy())
    shifts = 50 * torch.randn(vocab, 1, generator=generator, dtype=torch.float64)
    tensors = {"embed.W_E": counts.double().log() + shifts, "unembed.W_U": torch.eye(vocab, dtype=torch.float64)}
    found = bigram.fit(Weights.assemble(zero_layer(vocab, vocab), tensors), pairs, often=1)
    assert found.excess == pytest.approx(0, abs=1e-12)
    assert found.correlation == pytest.approx(1, abs=1e-9) or counts.double().log().std() < 1e-12
    assert (found.unseen_mass, found.unseen_probability, found.gap) == (0.0, None, None)


@given(seed=seeds, vocab=st.integers(2, 9), d_model=st.integers(1, 6))
def test_a_batch_of_counts_has_the_loss_and_gradients_of_its_windows(seed, vocab, d_model):
    weights = random_weights(zero_layer(vocab, d_model), seed)
    windows = torch.from_numpy(random_text(seed, vocab, 3 * 21).reshape(3, 21))
    by_tokens, by_counts = TransformerModule(weights), PairModule(weights)
    losses = by_tokens(windows), by_counts(counts_of(windows, vocab).double())
    torch.testing.assert_close(*losses)
    for loss in losses:
        loss.backward()
    torch.testing.assert_close(by_tokens.tensors()["embed.W_E"].grad, by_counts.W_E.grad)
    torch.testing.assert_close(by_tokens.tensors()["unembed.W_U"].grad, by_counts.W_U.grad)


@given(seed=seeds, vocab=st.integers(2, 15), concentration=st.sampled_from([0.05, 0.7, 5.0]))
def test_the_corrected_bound_holds_for_every_rank_of_any_table(seed, vocab, concentration):
    generator = np.random.default_rng(seed)
    P = torch.from_numpy(generator.dirichlet(np.full(vocab, concentration), vocab)) + 1e-12
    P /= P.sum(dim=1, keepdim=True)
    logits = rank.centred(P.log())
    U, S, V = torch.linalg.svd(logits)
    for k, bound in enumerate(rank.tails(S)):
        distance = torch.linalg.norm(P - ((U[:, :k] * S[:k]) @ V[:k]).softmax(dim=-1))
        assert distance <= bound + 1e-9


attention_only = models(layers=st.integers(1, 3), norm=st.just(NoNorm()))


PLACED = ModelConfig(
    vocab=5, context=4, d_model=4, layers=2, attention=Attention(heads=1, d_head=2), positions=LearnedPositions()
)


@given(attention_only)
@example(Member(PLACED, seed=0, length=4))
def test_the_gradients_through_all_paths_add_up_to_the_whole_gradients(member):
    weights, tokens = member
    windows = torch.cat([tokens, tokens[:, :1]], dim=1)
    through = path_gradients(weights, windows)
    W_E, W_U = (tensor.detach().clone().requires_grad_() for tensor in (weights.W_E, weights.W_U))
    stream = unembed_by_hand(weights.changed({"embed.W_E": W_E}), windows, W_U, weights.b_U)
    cross_entropy(stream.flatten(0, 1), windows[:, 1:].flatten()).backward()
    for parameter, whole in (("W_E", W_E.grad), ("W_U", W_U.grad)):
        parts = [gradient for (name, _), gradient in through.items() if name == parameter]
        assert len(parts) == 1 + weights.config.layers
        torch.testing.assert_close(torch.stack(parts).sum(dim=0), whole, rtol=1e-9, atol=1e-12)


def unembed_by_hand(weights, windows, W_U, b_U):
    """Logits in which the embedding and the unembedding are two matrices even where the model ties them."""
    logits = final_stream(weights, windows[:, :-1]) @ W_U
    return logits if b_U is None else logits + b_U


@given(attention_only)
def test_every_path_gets_the_same_gradient_at_the_logits(member):
    weights, tokens = member
    assert cosine_at_the_logits(weights, torch.cat([tokens, tokens[:, :1]], dim=1)) == pytest.approx(1, abs=1e-9)


BLOCKS = ModelConfig(
    vocab=7,
    context=5,
    d_model=6,
    layers=3,
    attention=Attention(heads=2, d_head=3),
    feed_forward=FeedForward(d_mlp=8, activation="gelu"),
)


@given(seed=seeds, norm=st.sampled_from([NoNorm(), PreNorm()]))
def test_a_plain_stack_is_its_components_one_after_the_other(seed, norm):
    config = ModelConfig(**{name: getattr(BLOCKS, name) for name in BLOCKS.__slots__} | {"norm": norm})
    weights, tokens = random_weights(config, seed), random_tokens(config, seed)
    x = weights.W_E[tokens]
    for layer in weights.blocks:
        block = Block(config, layer, place(weights, 0, tokens.shape[1]), Look(NOBODY))
        x = block.feed_forward(block.norm_2(block.attend(block.norm_1(x))))
    torch.testing.assert_close(forward(weights, tokens, WithoutResidual()), unembed(weights, x), rtol=1e-9, atol=1e-12)


class Replay(Tap):
    """Patterns as they were recorded, and a step added to the stream."""

    def __init__(self, patterns, step):
        self.patterns, self.step = patterns, step

    def wants(self, site):
        return site in self.patterns or site == "L0.out"

    def __call__(self, site, value):
        return self.patterns[site] if site in self.patterns else value + self.step


@given(seed=seeds)
def test_the_gradients_down_a_stack_are_the_slopes_of_its_loss(seed):
    weights, tokens = random_weights(BLOCKS, seed), random_tokens(BLOCKS, seed, length=5)
    after_the_first = stream_gradients(weights, tokens)[1]
    forward(weights, tokens[:, :-1], watch := Recorder(["L*.pattern"]))
    generator = torch.Generator().manual_seed(seed)
    step = 1e-6 * torch.randn(after_the_first.shape, generator=generator, dtype=torch.float64)

    def loss(sign):
        logits = forward(weights, tokens[:, :-1], Replay(watch.kept, sign * step))
        return cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    slope = float((after_the_first * step).sum())
    assert math.isclose(float(loss(1) - loss(-1)) / 2, slope, rel_tol=1e-5, abs_tol=1e-14)
