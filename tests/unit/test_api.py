import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from headwater import Model, load
from headwater.errors import InputError, ModelFileError
from headwater.model.config import Attention, ModelConfig, Unembedding
from headwater.model.generate import Sampling
from headwater.text.tokenizer import Tokenizer, byte_tokenizer
from strategies import random_weights

CONFIG = ModelConfig(
    vocab=256, context=16, d_model=8, layers=1, attention=Attention(heads=2, d_head=4), unembedding=Unembedding(tied=True)
)


@pytest.fixture
def model():
    return Model(random_weights(CONFIG, 0, torch.float32), byte_tokenizer())


def test_a_text_its_ids_and_a_tensor_of_them_are_the_same_tokens(model):
    for same in (
        "abc",
        [97, 98, 99],
        (97, 98, 99),
        np.array([97, 98, 99]),
        torch.tensor([97, 98, 99]),
        torch.tensor([[97, 98, 99]]),
    ):
        assert torch.equal(model.tokens(same), torch.tensor([[97, 98, 99]]))
    assert model.logits(torch.tensor([[1, 2], [3, 4]])).shape == (2, 2, 256)


@pytest.mark.parametrize(
    "wrong",
    [[1.5], ["a"], [[1]], [256], [-1], [10**30], [], "", torch.tensor([0.5]), torch.tensor([True]), torch.zeros(1, 2, 3)],
)
def test_what_is_no_text_and_no_ids_is_refused(model, wrong):
    with pytest.raises(InputError):
        model.tokens(wrong)


def test_a_text_needs_a_tokenizer():
    with pytest.raises(InputError, match="without a tokenizer"):
        Model(random_weights(CONFIG, 0)).logits("abc")


def test_the_embedding_of_a_tied_model_changes_both_of_its_uses(model, tmp_path):
    changed = Model(model.weights.changed({"embed.W_E": 2 * model.weights.W_E}))
    assert torch.equal(changed.weights.W_U, changed.weights.W_E.T)
    changed.save(tmp_path / "model")
    assert load(tmp_path / "model").weights == changed.weights
    assert torch.equal(load(tmp_path / "model").logits([1, 2]), changed.logits([1, 2]))


def test_half_precision_is_widened_to_calculate_with_and_keeps_every_number(model, tmp_path):
    half = Model(model.weights.to(dtype=torch.bfloat16))
    half.save(tmp_path / "model")
    loaded = load(tmp_path / "model").weights
    assert loaded.dtype == torch.float32
    assert loaded.to(dtype=torch.bfloat16) == half.weights


def test_an_unknown_format_is_refused_with_the_nearest(tmp_path):
    # In a process of its own: here the shape checker would see the wrong word before we do.
    code = f"""
from headwater import InputError, Model, Weights, named
try:
    Model(Weights.draw(named("zero-layer"), seed=0)).save({str(tmp_path / "x")!r}, to="huggingface")
except InputError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "did you mean hugging-face" in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_tokenizer_with_more_tokens_than_the_model_has_rows_is_refused_with_the_path(tmp_path):
    small = ModelConfig(vocab=100, context=4, d_model=4, layers=0)
    Model(random_weights(small, 0), byte_tokenizer()).save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="model: a tokenizer of 256 tokens"):
        load(tmp_path / "model")


def test_generation_ends_when_the_model_says_so_unless_asked_to_go_on():
    flags = dict.fromkeys(["single_word", "lstrip", "rstrip", "normalized"], False)
    plain = {
        "model": {"type": "WordLevel", "vocab": {"<end>": 0, "a": 1}, "unk_token": "a"},
        "added_tokens": [{"id": 0, "content": "<end>", "special": True, **flags}],
    }
    words = Tokenizer.parse(json.dumps(plain).encode())
    weights = random_weights(ModelConfig(vocab=2, context=40, d_model=4, layers=0), 0)
    model = Model(weights, words)
    assert words.specials == {0}
    ended = [list(model.generate([1], Sampling(seed=seed), most=30)) for seed in range(20)]
    assert any(drawn[-1] == 0 for drawn in ended)
    assert all(0 not in drawn[:-1] for drawn in ended)
    assert len(list(model.generate([1], most=30, past_end=True))) == 30


def test_a_run_is_a_mapping_of_sites(model):
    run = model.record("abc", "L*.pattern")
    assert "L0.pattern" in run.kept
    assert "L0.t2" in run
    assert "L0.nothing" not in run
    assert len(run) == len(list(run.items()))
    for names, told in (("L0.patern", "L0.pattern"), (["L*.patern"], "no site matches"), (["L5.in"], "no site is called")):
        with pytest.raises(InputError, match=told):
            model.record("abc", names)
    assert model.record("abc", ["L?.t2", "L[0].scores"]).kept.keys() >= {"L0.attention", "L0.scores"}
