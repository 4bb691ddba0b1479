"""What holds for every member of the family, in float64."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from headwater.model import attention
from headwater.model.attention import Rule
from headwater.model.components import activate, gate
from headwater.model.forward import final_stream, forward, unembed
from headwater.model.generate import KeyValueCache
from headwater.model.record import record
from headwater.model.taps import Recorder, Tap, all_sites
from strategies import activations, configs, models, random_tokens, random_weights, seeds
from twins import forward_twin


def close(a, b, tolerance=1e-9):
    scale = max(1.0, float(a.abs().max()))
    return a.shape == b.shape and float((a - b).abs().max()) <= tolerance * scale


@given(models())
def test_the_forward_pass_equals_its_for_loop_twin(model):
    weights, tokens = model
    assert close(forward(weights, tokens), forward_twin(weights, tokens))


@given(models())
def test_looking_at_every_site_changes_no_logit(model):
    weights, tokens = model
    assert close(forward(weights, tokens), forward(weights, tokens, Recorder(["*"])), 1e-11)


@given(models())
def test_the_sites_of_a_model_are_those_that_come_up_and_in_that_order(model):
    weights, tokens = model
    everything = Recorder(["*"])
    forward(weights, tokens, everything)
    assert list(everything.kept) == all_sites(weights.config)


@given(models())
def test_a_record_that_kept_little_still_answers_for_every_site(model):
    weights, tokens = model
    everything, run = Recorder(["*"]), record(weights, tokens)
    forward(weights, tokens, everything)
    for site in run:
        assert torch.allclose(run[site], everything.kept[site], rtol=1e-9, atol=1e-9), site


@given(models(layers=st.integers(1, 3)))
def test_a_tap_that_hands_back_equal_values_changes_nothing(model):
    weights, tokens = model

    class Copy(Tap):
        def wants(self, site):
            return True

        def __call__(self, site, value):
            return value.clone()

    assert close(forward(weights, tokens), forward(weights, tokens, Copy()), 1e-11)


@given(configs(mask="causal"), seeds, st.data())
def test_later_tokens_never_change_earlier_logits(config, seed, data):
    weights, tokens = random_weights(config, seed), random_tokens(config, seed)
    cut = data.draw(st.integers(1, config.context))
    changed = tokens.clone()
    changed[:, cut:] = (changed[:, cut:] + 1) % config.vocab
    assert close(forward(weights, tokens)[:, :cut], forward(weights, changed)[:, :cut], 1e-11)
    assert close(forward(weights, tokens)[:, :cut], forward(weights, tokens[:, :cut]), 1e-11)


@given(models())
def test_texts_of_a_batch_do_not_see_each_other(model):
    weights, tokens = model
    alone = torch.cat([forward(weights, text[None]) for text in tokens])
    assert close(forward(weights, tokens), alone, 1e-11)


@given(configs(mask="causal"), seeds, st.data())
def test_a_text_in_pieces_through_the_cache_gives_the_logits_of_the_whole(config, seed, data):
    weights, tokens, cache = random_weights(config, seed), random_tokens(config, seed), KeyValueCache(config.context)
    cuts = sorted(data.draw(st.sets(st.integers(1, config.context - 1)))) if config.context > 1 else []
    pieces, start = [], 0
    for end in [*cuts, config.context]:
        pieces.append(unembed(weights, final_stream(weights, tokens[:, start:end], cache, start=start)))
        start = end
    assert close(forward(weights, tokens), torch.cat(pieces, dim=1), 1e-11)


@given(
    st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 5), st.integers(0, 4), st.integers(1, 4)),
    st.sampled_from(["causal", "full"]),
    st.integers(1, 7),
    seeds,
)
def test_attention_in_loops_as_matrices_in_blocks_and_fused_agree(shape, mask, size, seed):
    batch, head, dest, earlier, d_head = shape
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (
        torch.randn(batch, head, n, d_head, generator=generator, dtype=torch.float64) * 3
        for n in (dest, dest + earlier, dest + earlier)
    )
    rule = Rule(mask, d_head**-0.5)
    loops = attention.four_steps(q, k, v, rule)
    for other in (
        attention.matrix(q, k, v, rule),
        attention.blockwise(q, k, v, rule, size=size),
        attention.fused(q, k, v, rule),
    ):
        assert float((loops - other).abs().max()) <= 1e-12


@given(activations, st.lists(st.floats(-40, 40), min_size=1, max_size=20))
def test_an_activation_is_its_gate_times_its_input(activation, values):
    z = torch.tensor(values, dtype=torch.float64)
    assert torch.allclose(activate(activation, z), gate(activation, z) * z, rtol=1e-12, atol=1e-12)


@given(models(layers=st.integers(1, 2)))
def test_writes_add_up_to_the_stream(model):
    weights, tokens = model
    run = record(weights, tokens, ["L*.head_writes"])
    for layer, block in enumerate(weights.blocks):
        heads = run[f"L{layer}.head_writes"].sum(dim=1) + (0 if block.attention.b_O is None else block.attention.b_O)
        assert close(heads, run[f"L{layer}.attention"])
        assert close(run[f"L{layer}.in"] + run[f"L{layer}.attention"], run[f"L{layer}.middle"])
        assert torch.allclose(run[f"L{layer}.pattern"].sum(dim=-1), torch.ones(()).double(), atol=1e-12)
