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
    assert all(tensor.shape[:2] == (1, 3) for tensor in run.kept.values())


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
