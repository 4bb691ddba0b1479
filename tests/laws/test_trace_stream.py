"""The stream at every stage: what is measured there is what plain loops measure, and shares add up to all of it."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.model.config import LayerNorm, NoNorm, PostNorm, PreNorm
from headwater.model.record import record
from headwater.model.taps import Tap, steps
from headwater.trace.view import lens, shares
from headwater.trace.view.locality import locality
from headwater.trace.view.lookup import head_lookup, lookup
from headwater.trace.view.stages import see
from headwater.trace.view.stream import stream
from strategies import models, seeds
from twins import norm_twin

numbers = st.integers(0, 100)
blocks = st.integers(1, 3)


def assert_adds_up(view):
    parts = torch.stack(list(view.shares.values()))
    for row, stage in enumerate(view.stages):
        if stage.role == "write":
            assert parts[:, row].isnan().all()
            continue
        size = parts[:, row].abs().sum(dim=0)
        assert bool(((parts[:, row].sum(dim=0) - 1).abs() <= 1e-9 * size).all()), stage.name


@settings(max_examples=15, deadline=None)
@given(models())
def test_the_shares_of_all_that_was_written_add_up_to_one_at_every_stage(member):
    weights, tokens = member
    assert_adds_up(stream(record(weights, tokens[:1])))


def pushed(run, upto):
    """The stream as a sum, each part pushed through every norm in the stream up to a stage, with what the run measured; in order of sites."""
    config, parts = run.config, {"embed": run["embed"][0]}
    if "positions" in run:
        parts["positions"] = run["positions"]
    yield_at = {"L0.in": dict(parts)}

    def norm(name, weights):
        scale = run[f"{name}.scale"][0][:, None]
        for key, part in parts.items():
            centred = part - part.mean(dim=-1, keepdim=True) if isinstance(config.norm.norm, LayerNorm) else part
            parts[key] = scale * centred * (1 if weights.gain is None else weights.gain)
        if weights.bias is not None:
            parts[f"{name}.bias"] = weights.bias.expand_as(run["embed"][0])

    for layer, block in enumerate(run.weights.blocks):
        at, is_post = f"L{layer}.", isinstance(config.norm, PostNorm)
        parts |= {f"L{layer}H{head}": run[f"{at}head_writes"][0, head] for head in range(config.heads)}
        if block.attention.b_O is not None:
            parts[f"{at}b_O"] = block.attention.b_O.expand_as(run["embed"][0])
        yield_at[f"{at}middle"] = dict(parts)
        if is_post:
            norm(f"{at}norm_1", block.norm_1)
        if config.feed_forward:
            parts[f"{at}feed_forward"] = run[f"{at}feed_forward"][0]
            if is_post:
                yield_at[f"{at}sum"] = dict(parts)
                norm(f"{at}norm_2", block.norm_2)
        yield_at[f"{at}out"] = dict(parts)
    return yield_at[upto]


@settings(max_examples=12, deadline=None)
@given(models(layers=blocks))
def test_a_share_is_the_projection_of_the_write_as_norms_have_left_it(member):
    weights, tokens = member
    run = record(weights, tokens[:1])
    view = stream(run)
    for row, stage in enumerate(view.stages):
        if stage.role != "stream" or not stage.site.endswith((".middle", ".sum", ".out")):
            continue
        x = run[stage.site][0]
        for name, part in pushed(run, stage.site).items():
            truth = (part * x).sum(dim=-1) / (x * x).sum(dim=-1)
            assert torch.allclose(view.shares[name][row], truth, rtol=1e-8, atol=1e-8), (stage.name, name)


@settings(max_examples=15, deadline=None)
@given(models())
def test_every_letter_of_the_documents_is_a_stage_with_the_numbers_of_the_run(member):
    weights, tokens = member
    run = record(weights, tokens[:1])
    seen = see(run)
    for layer in range(weights.config.layers):
        for letter, site in {"t0": "in", **steps(weights.config)}.items():
            assert torch.equal(seen[f"L{layer}.{letter}"], run[f"L{layer}.{site}"][0]), letter
    assert torch.equal(seen["embed"], run["embed"][0])
    assert torch.equal(seen["final"], run["final"][0])


@settings(max_examples=8, deadline=None)
@given(models())
def test_lengths_and_cosines_are_those_of_plain_loops(member):
    weights, tokens = member
    seen = see(record(weights, tokens[:1]))
    view = stream(seen.record)
    ends = [stage for stage in view.stages if stage.role == "stream"]
    for row, stage in enumerate(view.stages):
        for position in range(tokens.shape[1]):
            x = seen[stage.name][position].tolist()
            assert float(view.norm[row, position]) == pytest.approx(math.sqrt(sum(v * v for v in x)), rel=1e-12)
            for cosines, other in (
                (view.cosine_before, stage.of),
                (view.cosine_embed, "embed"),
                (view.cosine_final, ends[-1].name),
            ):
                if other is None:
                    assert math.isnan(cosines[row, position])
                    continue
                y = seen[other][position].tolist()
                sizes = math.sqrt(sum(v * v for v in x) * sum(v * v for v in y))
                truth = sum(v * w for v, w in zip(x, y, strict=True)) / sizes if sizes else math.nan
                assert float(cosines[row, position]) == pytest.approx(truth, rel=1e-9, abs=1e-9, nan_ok=True)


@settings(max_examples=15, deadline=None)
@given(models(), numbers)
def test_the_lens_at_the_end_says_what_the_model_says(member, which):
    weights, tokens = member
    run, token = record(weights, tokens[:1]), which % weights.config.vocab
    view = stream(run, token=token, top=2)
    logs = run.logits[0].log_softmax(dim=-1)
    chances = logs.exp()
    ends = {view.index("final"), view.index(f"L{weights.config.layers - 1}.h" if weights.config.layers else "final")}
    for row in ends:
        said = view.lenses[row]
        assert torch.allclose(said.chance, chances[:, token], rtol=1e-9)
        assert torch.allclose(said.chances, chances.topk(2).values, rtol=1e-9)
        assert torch.allclose(said.entropy, -(chances * logs).sum(dim=-1), rtol=1e-9, atol=1e-12)
        for position in range(tokens.shape[1]):
            likelier = sum(float(p) > float(logs[position, token]) + 1e-9 for p in logs[position])
            assert int(said.rank[position]) == 1 + likelier


@settings(max_examples=8, deadline=None)
@given(models())
def test_the_lens_norms_every_stage_anew(member):
    weights, tokens = member
    run = record(weights, tokens[:1])
    view, seen = stream(run, top=weights.config.vocab), see(run)
    norm = weights.config.norm
    for row, stage in enumerate(view.stages):
        for position, x in enumerate(seen[stage.name]):
            is_read = isinstance(norm, PreNorm) and stage.name != "final"
            read = norm_twin(norm.norm, weights.norm_final, x) if is_read else x
            truth = (read @ weights.W_U + (0 if weights.b_U is None else weights.b_U)).softmax(dim=-1)
            said = view.lenses[row]
            assert torch.allclose(said.chances[position], truth[said.ids[position]], rtol=1e-8, atol=1e-12), stage.name


@settings(max_examples=12, deadline=None)
@given(models())
def test_a_norm_is_told_by_what_goes_in_and_what_comes_out(member):
    weights, tokens = member
    run, norm = record(weights, tokens[:1]), weights.config.norm
    view, seen = stream(run), see(run)
    assert bool(view.norms) == (not isinstance(norm, NoNorm) and bool(weights.config.layers or isinstance(norm, PreNorm)))
    for one in view.norms:
        owner = weights.norm_final if one.name == "final" else getattr(weights.blocks[int(one.name[1])], one.name[3:])
        for position in range(tokens.shape[1]):
            x, y = seen[one.reads][position], seen[one.makes][position]
            assert torch.allclose(norm_twin(norm.norm, owner, x), y, atol=1e-9)
            mean = float(x.mean()) if isinstance(norm.norm, LayerNorm) else 0.0
            power = sum((float(v) - mean) ** 2 for v in x) / len(x)
            assert float(one.scale[position]) == pytest.approx((power + norm.norm.eps) ** -0.5, rel=1e-9)
            assert float(one.mean[position]) == pytest.approx(mean, abs=1e-12)
            assert float(one.lost[position]) == pytest.approx(len(x) * mean**2 / float(x @ x), abs=1e-12)
            cosine = float(x @ y) / math.sqrt(float(x @ x) * float(y @ y))
            assert math.cos(math.radians(one.angle[position])) == pytest.approx(cosine, abs=1e-9)
            if owner.bias is None:
                assert float(one.bias_share[position]) == 0.0
                assert float(one.angle_bias[position]) == pytest.approx(0.0, abs=1e-4)


class Scaled(Tap):
    """Half of what goes into each block, and of what each feed-forward layer writes."""

    def wants(self, site):
        return site.endswith((".in", ".feed_forward", ".attention_input"))

    def __call__(self, site, value):
        return value / 2


@settings(max_examples=12, deadline=None)
@given(models(layers=blocks))
def test_what_an_intervention_added_has_a_share_of_its_own(member):
    weights, tokens = member
    view = stream(record(weights, tokens[:1], tap=Scaled()))
    assert_adds_up(view)
    assert float(view.shares["edits"][view.index("L0.t0")].nan_to_num().min()) == pytest.approx(-1.0)


@settings(max_examples=8, deadline=None)
@given(models(), numbers)
def test_looking_at_some_positions_in_small_pieces_changes_no_number(member, which):
    weights, tokens = member
    run = record(weights, tokens[:1])
    whole, at = stream(run, top=2), which % tokens.shape[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shares, "AT_ONCE", 1)
        patch.setattr(lens, "ENTRIES", 1)
        pieces, one = stream(run, top=2), stream(run, positions=[at], top=2)
    for name, share in whole.shares.items():
        assert torch.allclose(pieces.shares[name], share, rtol=1e-9, atol=1e-12, equal_nan=True)
        assert torch.allclose(one.shares[name][:, 0], share[:, at], rtol=1e-9, atol=1e-12, equal_nan=True)
    for these, those in zip(pieces.lenses, whole.lenses, strict=True):
        assert torch.allclose(these.chances, those.chances, rtol=1e-9)
    assert torch.allclose(one.norm[:, 0], whole.norm[:, at])


@settings(max_examples=12, deadline=None)
@given(models(), numbers)
def test_only_attention_moves_information_between_positions(member, which):
    weights, tokens = member
    at = which % tokens.shape[1]
    found = locality(weights, tokens[:1], at)
    for one in found.components:
        assert one.name.endswith(".attention") or not one.alone.mixes, one
        for moved in (one.alone, one.in_run):
            assert (moved.earlier is None) == (at == 0)
            assert (moved.later is None) == (at == tokens.shape[1] - 1)


@settings(max_examples=12, deadline=None)
@given(models(layers=blocks, mask="causal"), numbers)
def test_nothing_changes_before_the_token_that_was_replaced(member, which):
    weights, tokens = member
    for one in locality(weights, tokens[:1], which % tokens.shape[1]).components:
        assert not one.alone.earlier
        assert not one.in_run.earlier, one


@given(seeds, st.integers(1, 7), st.integers(1, 4), st.lists(st.floats(0, 1e6), min_size=1, max_size=5))
def test_a_soft_lookup_is_no_further_from_the_hard_one_than_its_bound(seed, keys, width, betas):
    generator = torch.Generator().manual_seed(seed)
    # Whole numbers tie now and then.
    scores = torch.randint(-3, 4, (keys,), generator=generator).double()
    values = torch.randn(keys, width, generator=generator, dtype=torch.float64)
    found = lookup(scores, values, betas)
    tied = [value for value, score in zip(values, scores, strict=True) if score == max(scores)]
    assert torch.allclose(found.hard, sum(tied) / len(tied))
    assert bool((found.distance <= found.bound * (1 + 1e-12) + 1e-14).all())
    assert bool((found.missing <= found.missing_bound * (1 + 1e-12)).all())
    for beta, soft, weights in zip(betas, found.soft, found.weights, strict=True):
        powers = [math.exp(beta * float(score - max(scores))) for score in scores]
        truth = [power / sum(powers) for power in powers]
        assert torch.allclose(weights, torch.tensor(truth, dtype=torch.float64), atol=1e-12)
        assert torch.allclose(soft, sum(w * v for w, v in zip(truth, values, strict=True)), atol=1e-12)


@given(models(layers=blocks), numbers, numbers)
def test_what_a_head_mixed_is_its_lookup_at_beta_one_and_hard_in_the_cold(member, which, where):
    weights, tokens = member
    run, config = record(weights, tokens[:1]), weights.config
    head, dest = (which % config.layers, which % config.heads), where % tokens.shape[1]
    found = head_lookup(run, head, dest, [1.0])
    assert torch.allclose(found.soft[0], run[f"L{head[0]}.mixed"][0, head[1], dest], atol=1e-12)
    cold = head_lookup(run, head, dest, [50 / found.gap if math.isfinite(found.gap) else 1.0])
    assert float(cold.distance) <= 1e-6 * max(1.0, cold.spread)
