"""A saved model is the model, bit for bit, or it is refused."""

import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import ModelFileError
from headwater.model import checkpoint
from headwater.model.sources import load_weights, look
from strategies import configs, random_weights, seeds

dtypes = st.sampled_from([torch.float64, torch.float32, torch.float16, torch.bfloat16])


def bits(weights):
    return {
        name: (tensor.dtype, tensor.contiguous().view(torch.uint8).numpy().tobytes())
        for name, tensor in weights.tensors().items()
    }


@given(configs(), seeds, dtypes)
def test_loading_what_was_saved_is_the_identity_bit_for_bit(config, seed, dtype):
    weights = random_weights(config, seed, dtype)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint.save(weights, Path(folder) / "model", tokenizer_json=b"{}")
        source = look(Path(folder) / "model")
        again = load_weights(source)
    assert source.words is not None
    assert again.config == weights.config
    assert bits(again) == bits(weights)


@given(configs(), seeds, st.data())
def test_any_flipped_bit_and_any_cut_is_found(config, seed, data):
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "model"
        checkpoint.save(random_weights(config, seed, torch.float32), saved, tokenizer_json=b'{"a": 1}')
        path = data.draw(st.sampled_from(sorted(saved.iterdir())))
        content = bytearray(path.read_bytes())
        if data.draw(st.booleans()):
            content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        else:
            content = content[: data.draw(st.integers(0, len(content) - 2))]
        path.write_bytes(content)
        with pytest.raises(ModelFileError):
            load_weights(look(saved))
