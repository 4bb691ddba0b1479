"""Composition scores, eigenvalues, singular values and norms beside TransformerLens', on random models."""

import json
from itertools import product

import pytest
import torch
from safetensors.torch import save_file

from headwater.circuits.composition import MODES, composition
from headwater.circuits.factored import Factored
from headwater.circuits.tables import ov, qk
from headwater.model.config import LayerNorm
from headwater.model.sources import load_weights, look
from peers.precision import doubled, furthest, randomise

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

SIZES = {"d_model": 24, "d_head": 8, "n_heads": 3, "n_layers": 3, "n_ctx": 16, "d_vocab": 37, "d_mlp": 40, "device": "cpu"}
CASES = {
    "attention only": {**SIZES, "attn_only": True, "normalization_type": None},
    "attention only, LN": {**SIZES, "attn_only": True, "normalization_type": "LN"},
    "LN, relu": {**SIZES, "act_fn": "relu"},
    "no norm, gelu": {**SIZES, "act_fn": "gelu", "normalization_type": None},
    "RMS, gated, rotary": {
        **SIZES, "act_fn": "silu", "normalization_type": "RMS", "gated_mlp": True, "final_rms": True,
        "positional_embedding_type": "rotary",
    },
    "grouped": {**SIZES, "n_heads": 6, "n_key_value_heads": 2, "act_fn": "relu"},
    "parallel": {**SIZES, "act_fn": "gelu", "parallel_attn_mlp": True},
}  # fmt: skip


@pytest.fixture(scope="module", params=CASES)
def pair(request, tmp_path_factory):
    """The same random model: ours as it is, theirs with norms folded and writes centred, as its users load it."""
    import transformer_lens

    folder = tmp_path_factory.mktemp("model")
    with doubled():
        config = transformer_lens.HookedTransformerConfig(**CASES[request.param], dtype=torch.float64)
        model = randomise(transformer_lens.HookedTransformer(config))
        for block in model.blocks if config.gated_mlp else []:
            block.mlp.b_in.data.zero_()
        (folder / "config.json").write_text(json.dumps(model.cfg.to_dict(), default=str))
        save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, folder / "model.safetensors")
        has_norm = config.normalization_type is not None
        centred = config.normalization_type == "LN"
        model.process_weights_(fold_ln=has_norm, center_writing_weights=centred, center_unembed=False)
    return load_weights(look(folder / "model.safetensors")), model


@pytest.mark.parametrize("mode", MODES)
def test_all_composition_scores_agree(pair, mode):
    weights, model = pair
    with torch.no_grad():
        theirs = model.all_composition_scores(mode).flatten(2, 3).flatten(0, 1)
    ours = composition(weights, mode).of(mode)
    there = ~ours.isnan()
    per_layer = weights.config.heads
    layers = torch.arange(len(ours)) // per_layer
    assert torch.equal(there, layers[:, None] < layers)
    assert furthest(ours[there], theirs[there]) < 1e-9
    assert not theirs[~there].any()


def assert_same_multiset(ours, theirs):
    """Each of theirs is one of ours, sign and phase included, none used twice."""
    ours, theirs = ours.tolist(), theirs.tolist()
    scale = max(map(abs, theirs))
    for value in theirs:
        nearest = min(ours, key=lambda mine: abs(mine - value))
        assert abs(nearest - value) < 1e-8 * scale
        ours.remove(nearest)
    assert max(map(abs, ours), default=0) < 1e-8 * scale


@pytest.mark.parametrize("circuit", ["OV", "QK"])
def test_spectra_of_every_head_agree_with_factored_matrices(pair, circuit):
    weights, model = pair
    for layer, head in product(range(model.cfg.n_layers), range(model.cfg.n_heads)):
        with torch.no_grad():
            theirs = getattr(model, circuit)[layer, head]
            # As TransformerLens has it: from the folded weights that both hold.
            ours = Factored(theirs.A, theirs.B)
            assert furthest(ours.dense(), theirs.AB) < 1e-12
            assert_same_multiset(ours.eigenvalues(), theirs.eigenvalues)
            assert furthest(ours.singular_values(), theirs.S) < 1e-9
            assert ours.norm() == pytest.approx(float(theirs.norm()))
            asked = {"OV": from_stream_to_stream, "QK": scores_of_stream}[circuit](weights, (layer, head))
            assert furthest(asked, theirs.AB) < 1e-9


def from_stream_to_stream(weights, head):
    """Our OV circuit; theirs has the mean of each write taken out where norms are LayerNorms."""
    found = ov(weights, head, source="stream", out="stream").dense()
    norm = getattr(weights.config.norm, "norm", None)
    return found - found.mean(dim=1, keepdim=True) if isinstance(norm, LayerNorm) else found


def scores_of_stream(weights, head):
    """Our QK circuit without the division by √d_head; rotary positions do not turn at offset 0."""
    return qk(weights, head, dest="stream", source="stream").dense() / weights.config.attention.scale


def test_a_full_ov_table_over_the_vocabulary_agrees(pair):
    weights, model = pair
    with torch.no_grad():
        table = model.W_E @ model.OV[1, 2] @ model.W_U
        ours = ov(weights, (1, 2))
        assert_same_multiset(ours.eigenvalues(), table.eigenvalues)
        assert furthest(ours.singular_values(), table.S) < 1e-8 * float(table.S[0])
        assert ours.norm() == pytest.approx(float(table.norm()))
