import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InputError
from headwater.model.config import Attention, ModelConfig
from headwater.model.forward import forward
from headwater.model.generate import Sampling, generate
from strategies import configs, random_weights, seeds


@given(configs(mask="causal"), seeds)
def test_greedy_generation_takes_the_likeliest_token_of_a_fresh_forward_pass_each_time(config, seed):
    weights = random_weights(config, seed)
    tokens = [seed % config.vocab]
    drawn = list(generate(weights, tokens, Sampling(temperature=0.0), most=config.context))
    assert len(drawn) == config.context
    for token in drawn:
        logits = forward(weights, torch.tensor([tokens]))[0, -1]
        assert float(logits[token]) >= float(logits.max()) - 1e-9
        tokens.append(token)


@given(st.lists(st.floats(-20, 20), min_size=2, max_size=12, unique=True), st.integers(1, 12), st.floats(0.01, 1.0))
def test_top_k_and_top_p_keep_the_likeliest_and_renormalise(logits, k, p):
    values = torch.tensor(logits, dtype=torch.float64)
    plain = values.softmax(0)
    kept = Sampling(top_k=k).distribution(values)
    assert int((kept > 0).sum()) <= k
    assert float(kept.sum()) == pytest.approx(1)
    nucleus = Sampling(top_p=p).distribution(values)
    inside = plain[nucleus > 0]
    assert float(inside.sum()) >= p - 1e-9
    assert float(inside.sum() - inside.min()) < p + 1e-9
    assert float(plain[nucleus > 0].min()) >= float(plain[nucleus == 0].max() if bool((nucleus == 0).any()) else 0)


def test_draws_follow_the_model_s_probabilities():
    weights = random_weights(ModelConfig(vocab=4, context=2, d_model=4, layers=0), 3)
    wanted = forward(weights, torch.tensor([[1]]))[0, -1].softmax(0)
    drawn = torch.tensor([next(generate(weights, [1], Sampling(seed=seed), most=1)) for seed in range(2000)])
    shares = torch.bincount(drawn, minlength=4) / 2000
    assert float((shares - wanted).abs().max()) < 0.04


def test_the_same_seed_gives_the_same_tokens_whatever_else_was_drawn():
    weights = random_weights(ModelConfig(vocab=9, context=9, d_model=4, layers=1, attention=Attention(heads=1, d_head=2)), 0)
    first = list(generate(weights, [1, 2], Sampling(seed=5), most=5))
    torch.rand(3)
    assert list(generate(weights, [1, 2], Sampling(seed=5), most=5)) == first
    assert any(list(generate(weights, [1, 2], Sampling(seed=seed), most=5)) != first for seed in range(6, 12))


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda weights: generate(weights, [], Sampling(), most=1), "no tokens"),
        (lambda weights: generate(weights, [9], Sampling(), most=1), "token id 9"),
        (lambda weights: generate(weights, [-1], Sampling(), most=1), "token id -1"),
        (lambda weights: generate(weights, [1] * 5, Sampling(), most=1), "5 tokens"),
        (lambda weights: Sampling(temperature=-1.0), "temperature"),
        (lambda weights: Sampling(top_k=0), "top_k"),
        (lambda weights: Sampling(top_p=0.0), "top_p"),
    ],
)
def test_what_cannot_be_generated_is_refused(call, told):
    weights = random_weights(ModelConfig(vocab=9, context=4, d_model=4, layers=0), 0)
    with pytest.raises(InputError, match=told):
        call(weights)


def test_full_attention_cannot_generate():
    config = ModelConfig(vocab=9, context=4, d_model=4, layers=1, attention=Attention(heads=1, d_head=2, mask="full"))
    with pytest.raises(InputError, match="full attention"):
        generate(random_weights(config, 0), [1], Sampling(), most=1)
