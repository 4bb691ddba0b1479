import subprocess
import sys

import pytest
import torch

from headwater.errors import InputError
from headwater.model.config import Attention, FeedForward, ModelConfig, PostNorm, PreNorm
from headwater.model.record import record
from headwater.model.weights import Weights
from strategies import random_weights

CONFIG = ModelConfig(
    vocab=9,
    context=6,
    d_model=4,
    layers=2,
    attention=Attention(heads=2, d_head=2),
    feed_forward=FeedForward(d_mlp=3),
    norm=PreNorm(),
)
TOKENS = torch.tensor([[1, 2, 3]])


def test_what_is_kept_grows_linearly_with_the_text():
    run = record(random_weights(CONFIG, 0), TOKENS)
    assert "L0.pattern" not in run.kept
    assert "L0.pattern" in record(random_weights(CONFIG, 0), TOKENS, ["L*.pattern"]).kept
    once, twice = (record(random_weights(CONFIG, 0), tokens).size for tokens in (TOKENS, TOKENS.repeat(1, 2)))
    assert twice == 2 * once


def test_sites_made_again_are_those_of_the_pass_bit_for_bit():
    weights = random_weights(CONFIG, 0)
    sites = [site for site in record(weights, TOKENS) if site not in ("logits", "L0.head_writes", "L1.head_writes")]
    whole = record(weights, TOKENS, sites)
    # Whoever looks at patterns or gates makes the pass take another of several equal ways, so these are asked for here too.
    again = record(weights, TOKENS, ["L*.pattern", "L*.gates"])
    for site in sites:
        assert torch.equal(again[site], whole[site]), site
    assert record(weights, TOKENS).get("L9.in") is None
    assert torch.equal(whole.get("L1.in"), whole["L1.in"])


def test_what_was_made_again_stays_at_hand_within_bounds(monkeypatch):
    run = record(random_weights(CONFIG, 0), TOKENS)
    assert run["L0.pattern"] is run["L0.pattern"]
    monkeypatch.setattr("headwater.model.record.MADE_AGAIN", 1)
    assert run["L1.pattern"] is run["L1.pattern"]
    assert list(run.made) == ["L1.pattern"]


def test_logits_of_one_position_are_those_of_all():
    run = record(random_weights(CONFIG, 0), TOKENS)
    alone = run.logits_at(1)
    assert "logits" not in run.__dict__
    assert torch.allclose(alone, run.logits[:, 1], atol=1e-12)


def test_the_documents_letters_name_steps_in_both_kinds_of_block():
    pre, post = (
        record(random_weights(CONFIG, 0), TOKENS),
        record(random_weights(ModelConfig(**fields(CONFIG) | {"norm": PostNorm()}), 0), TOKENS),
    )
    for run in (pre, post):
        assert all(run[f"L1.{step}"].shape == (1, 3, 4) for step in ("t1", "t2", "t3", "t4", "t5", "h"))
    assert torch.equal(pre["L0.t3"], pre["L0.in"] + pre["L0.t2"])
    assert torch.equal(post["L0.t2"], post["L0.in"] + post["L0.t1"])
    assert torch.equal(post["L0.h"], post["L1.in"])


def fields(config):
    return {name: getattr(config, name) for name in config.__slots__}


def test_an_unknown_site_gets_the_nearest():
    run = record(random_weights(CONFIG, 0), TOKENS)
    with pytest.raises(InputError, match=r"did you mean L0\.pattern"):
        run["L0.patern"]
    with pytest.raises(InputError, match="no site"):
        run["L7.in"]


@pytest.mark.parametrize(
    "tokens",
    [torch.tensor([[9]]), torch.tensor([[-1]]), torch.zeros(1, 0, dtype=torch.long), torch.zeros(1, 7, dtype=torch.long)],
)
def test_tokens_that_do_not_fit_the_model_are_refused(tokens):
    with pytest.raises(InputError):
        record(random_weights(CONFIG, 0), tokens)


def test_drawing_weights_neither_reads_nor_moves_the_process_random_state():
    torch.manual_seed(0)
    state = torch.get_rng_state()
    first = Weights.draw(CONFIG, seed=3)
    assert torch.equal(state, torch.get_rng_state())
    torch.rand(5)
    assert all(
        torch.equal(a, b)
        for a, b in zip(first.tensors().values(), Weights.draw(CONFIG, seed=3).tensors().values(), strict=True)
    )
    assert not torch.equal(first.W_E, Weights.draw(CONFIG, seed=4).W_E)


def test_values_print_themselves_in_a_line_and_weights_compare_by_their_numbers():
    weights = random_weights(CONFIG, 0)
    assert repr(weights).startswith("Weights(2 layers, d_model 4, vocab 9, ")
    assert repr(record(weights, TOKENS)).startswith("Record(1 × 3 tokens, 2 layers, ")
    assert weights == random_weights(CONFIG, 0)
    assert weights != random_weights(CONFIG, 1)
    assert weights != weights.to(dtype=torch.float32)


LONG = """
import resource, sys, torch
from headwater.model.config import Attention, ModelConfig
from headwater.model.forward import forward
from headwater.model.record import record
from headwater.model.weights import Weights
torch.set_num_threads(1)
config = ModelConfig(vocab=8, context=16384, d_model=8, layers=1, attention=Attention(heads=2, d_head=4))
weights, tokens = Weights.draw(config, seed=0), torch.zeros(1, 16384, dtype=torch.long)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with torch.no_grad():
    forward(weights, tokens)
record(weights, tokens)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_a_long_text_takes_memory_in_proportion_when_nobody_looks_at_patterns():
    # The pattern alone would be 2 × 16,384² numbers: 2,048 MB.
    result = subprocess.run([sys.executable, "-c", LONG], capture_output=True, text=True, check=True)
    assert int(result.stdout) < 200
