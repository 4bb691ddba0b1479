"""Pairs of heads written by hand, scored as computed by hand; chance; what is said of bad input."""

import json
import math
from dataclasses import replace

import pytest
import torch

from headwater.circuits.composition import composition, connections, virtual
from headwater.circuits.copying import copying
from headwater.errors import InputError
from headwater.model.config import Attention, FeedForward, LayerNorm, ModelConfig, PreNorm, RMSNorm
from headwater.model.weights import Weights

PAIR = ModelConfig(vocab=10, context=8, d_model=8, layers=2, attention=Attention(heads=1, d_head=2))


def lines(size, *entries):
    """Unit vectors of the stream, one above the other, each with its weight."""
    matrix = torch.zeros(len(entries), size, dtype=torch.float64)
    for row, (entry, weight) in enumerate(entries):
        matrix[row, entry] = weight
    return matrix


def planted(first, second, config=PAIR):
    """A model of two heads; each is given as the entries that W_Q, W_K, W_V read and W_O writes, one for each inner dimension."""
    tensors = dict(Weights.draw(config, seed=0, dtype=torch.float64).tensors())
    for layer, head in enumerate([first, second]):
        for symbol, entries in head.items():
            matrix = lines(config.d_model, *entries)
            tensors[f"blocks.{layer}.attn.{symbol}"] = (matrix if symbol == "W_O" else matrix.T)[None].contiguous()
    return Weights.assemble(config, tensors)


READS_01_WRITES_23 = {"W_Q": [(0, 1), (1, 1)], "W_K": [(6, 1), (7, 1)], "W_V": [(0, 1), (1, 1)], "W_O": [(2, 3), (3, 4)]}
READS_23_WRITES_45 = {"W_Q": [(0, 1), (2, 1)], "W_K": [(3, 2), (1, 1)], "W_V": [(2, 1), (3, 1)], "W_O": [(4, 1), (5, 1)]}


def test_a_planted_pair_scores_as_computed_by_hand():
    found = composition(planted(READS_01_WRITES_23, READS_23_WRITES_45))
    # W_OV^a has entries 3 (0 → 2) and 4 (1 → 3): norm 5.
    # V: W_OV^b has ones (2 → 4), (3 → 5): the product has entries 3 and 4.
    assert found.between("L0H0", "L1H0.V") == pytest.approx(5 / (5 * math.sqrt(2)))
    # Q: W_QK^b has 2 (0 → 3) and 1 (2 → 1): only the second begins where a writes; the product has the entry 3.
    assert found.between("L0H0", "L1H0.Q") == pytest.approx(3 / (5 * math.sqrt(5)))
    # K: its transpose has 2 (3 → 0) and 1 (1 → 2): the product has the entry 8.
    assert found.between("L0H0", "L1H0.K") == pytest.approx(8 / (5 * math.sqrt(5)))


def test_v_composition_takes_the_earlier_head_first():
    right = composition(planted(READS_01_WRITES_23, READS_23_WRITES_45))
    swapped = composition(planted(READS_23_WRITES_45, READS_01_WRITES_23))
    assert right.between("L0H0", "L1H0.V") > 0.7
    assert swapped.between("L0H0", "L1H0.V") == 0


def test_a_planted_pair_stands_out_among_random_heads_in_one_order_only():
    config = ModelConfig(vocab=10, context=8, d_model=768, layers=2, attention=Attention(heads=4, d_head=64))
    tensors = dict(Weights.draw(config, seed=1).tensors())
    half = tensors["blocks.0.attn.W_O"][1, :32].T
    W_V = tensors["blocks.1.attn.W_V"].clone()
    W_V[2, :, :32] = half * (W_V[2, :, :32].norm() / half.norm())
    found = composition(Weights.assemble(config, {**tensors, "blocks.1.attn.W_V": W_V}), modes="V")
    assert [(link.writer, link.reader) for link in found.top(1)] == [("L0H1", "L1H2.V")]
    assert found.chance == pytest.approx(0.0361, abs=1e-4)
    others = [link.score for link in found.top(16)[1:]]
    # In the wrong order the planted pair would be among these.
    assert found.top(1)[0].score > 2.5 * found.chance
    assert max(abs(score - found.chance) for score in others) < 0.002


def test_a_gain_belongs_to_its_reader():
    weights = planted(READS_01_WRITES_23, READS_23_WRITES_45, replace(PAIR, norm=PreNorm(norm=RMSNorm())))
    gain = torch.ones(8, dtype=torch.float64)
    gain[2] = 0
    # Of W_OV^b only (3 → 5) is left, and of the product the entry 4.
    found = composition(weights.changed({"blocks.1.ln1.w": gain}))
    assert found.between("L0H0", "L1H0.V") == pytest.approx(4 / 5)
    gain[3] = 0
    assert math.isnan(composition(weights.changed({"blocks.1.ln1.w": gain})).between("L0H0", "L1H0.V"))
    assert found.chance == pytest.approx(1 / math.sqrt(8))


def test_layer_norm_leaves_one_dimension_less_to_meet_in():
    weights = Weights.draw(replace(PAIR, norm=PreNorm(norm=LayerNorm())), seed=0)
    assert composition(weights).chance == pytest.approx(1 / math.sqrt(7))


def test_the_mean_square_under_random_rotations_is_one_over_the_dimensions_whatever_the_spectra():
    generator = torch.Generator().manual_seed(0)
    for spectrum in ([1.0, 1.0], [1.0, 0.01]):
        squares = []
        for _ in range(400):
            turn = torch.linalg.qr(torch.randn(8, 8, generator=generator, dtype=torch.float64))[0]
            A = torch.diag(torch.tensor(spectrum, dtype=torch.float64)) @ turn[:2]
            B = torch.eye(8, dtype=torch.float64)[:, :3]
            squares.append(float((A @ B).norm() / (A.norm() * B.norm())) ** 2)
        squares = torch.tensor(squares)
        assert abs(squares.mean() - 1 / 8) < 4 * squares.std() / 20


def test_single_precision_at_the_width_of_a_real_model():
    config = ModelConfig(vocab=10, context=8, d_model=768, layers=2, attention=Attention(heads=2, d_head=64))
    weights = Weights.draw(config, seed=0)
    exact, near = composition(weights.to(dtype=torch.float64)).scores, composition(weights).scores
    assert (near - exact).nan_to_num().abs().max() < 1e-7


def test_a_head_that_writes_past_another_scores_next_to_nothing_even_in_single_precision():
    config = ModelConfig(vocab=10, context=8, d_model=64, layers=2, attention=Attention(heads=1, d_head=16))
    tensors = dict(Weights.draw(config, seed=0).tensors())
    tensors["blocks.0.attn.W_O"] = tensors["blocks.0.attn.W_O"] * (torch.arange(64) < 32)
    tensors["blocks.1.attn.W_V"] = tensors["blocks.1.attn.W_V"] * (torch.arange(64) >= 32)[:, None]
    assert composition(Weights.assemble(config, tensors)).between("L0H0", "L1H0.V") < 1e-3


def test_a_virtual_head_has_the_copying_panel_of_its_product():
    weights = Weights.draw(PAIR, seed=3, dtype=torch.float64)
    one, two = (block.attention for block in weights.blocks)
    dense = weights.W_E @ one.W_V[0] @ one.W_O[0] @ two.W_V[0] @ two.W_O[0] @ weights.W_U
    found = virtual(weights, ["L0H0", "L1H0"])
    torch.testing.assert_close(found.dense(), dense)
    values = torch.linalg.eigvals(dense)
    assert copying(found).raw.score == pytest.approx(float(values.sum().real / values.abs().sum()))


def test_connections_follow_the_order_of_a_block():
    def reads_own_layer(reads):
        config = ModelConfig(
            vocab=10, context=8, d_model=8, layers=1, attention=Attention(heads=1, d_head=2),
            feed_forward=FeedForward(d_mlp=6, reads=reads),
        )  # fmt: skip
        found = connections(Weights.draw(config, seed=0))
        assert math.isnan(found.between("L0.feed_forward", "L0H0.Q"))
        assert not math.isnan(found.between("L0.feed_forward", "unembed"))
        return not math.isnan(found.between("L0H0", "L0.feed_forward"))

    assert reads_own_layer("after-attention")
    assert not reads_own_layer("beside-attention")


def test_partners_are_ranked_and_said_in_plain_numbers():
    config = ModelConfig(vocab=10, context=8, d_model=8, layers=3, attention=Attention(heads=2, d_head=2))
    found = composition(Weights.draw(config, seed=0))
    links = found.strongest("L1H1", count=100)
    # It writes to two heads in three ways, and reads from two heads in three ways.
    assert len(links) == 12
    assert [link.score for link in links] == sorted((link.score for link in links), reverse=True)
    assert all("L1H1" in (link.writer, link.reader[:4]) for link in links)
    assert links[0].excess == links[0].score - found.chance
    plain = json.loads(json.dumps(found.plain(), allow_nan=False))
    assert plain["scores"][0][0] is None
    assert plain["scores"][0][4] == found.between("L0H0", found.readers[4])
    assert found.of("K").shape == (6, 6)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda w: composition(w).strongest("L9H9"), "L9H9"),
        (lambda w: composition(w).between("L0H0", "L1H0"), "L1H0.Q"),
        (lambda w: composition(w, modes="X"), "some of Q, K and V"),
        (lambda w: composition(w, modes=()), "by nothing"),
        (lambda w: virtual(w, ["L1H0", "L0H0"]), "rising layers"),
        (lambda w: virtual(w, []), "rising layers"),
    ],
)
def test_questions_without_an_answer_are_refused(ask, said):
    with pytest.raises(InputError, match=said):
        ask(Weights.draw(PAIR, seed=0))
