import struct

import numpy as np
import pytest
import torch

from headwater.errors import ModelFileError
from headwater.model.foreign import llama2c
from headwater.model.forward import forward
from headwater.model.weights import Weights
from llama_in_numpy import logits, random_llama

SIZES = {"d_model": 8, "d_mlp": 6, "layers": 2, "heads": 4, "key_heads": 2, "vocab": 11}
CONTEXT = 7
BLOCK = ("attention_norm", "wq", "wk", "wv", "wo", "ffn_norm", "w1", "w2", "w3")


def of_layers(tensors, *names):
    return [tensors[f"layers.{layer}.{name}"] for name in names for layer in range(SIZES["layers"])]


def numbers(vocab):
    sizes = (SIZES["d_model"], SIZES["d_mlp"], SIZES["layers"], SIZES["heads"], SIZES["key_heads"], vocab, CONTEXT)
    return struct.pack("<7i", *sizes)


def version_0(tensors, *, tied):
    angles = [np.full((CONTEXT, 1), 7.0, np.float32)] * 2
    order = [tensors["tok_embeddings"], *of_layers(tensors, *BLOCK), tensors["norm"], *angles]
    data = order if tied else [*order, tensors["output"]]
    return numbers(SIZES["vocab"] if tied else -SIZES["vocab"]) + b"".join(tensor.tobytes() for tensor in data)


def version_1(tensors, *, tied):
    order = [*of_layers(tensors, "attention_norm", "ffn_norm"), tensors["norm"], tensors["tok_embeddings"]]
    order += of_layers(tensors, "wq", "wk", "wv", "wo", "w1", "w2", "w3")
    data = order if tied else [*order, tensors["output"]]
    header = (struct.pack("<Ii", 0x616B3432, 1) + numbers(SIZES["vocab"]) + bytes([tied])).ljust(256, b"\0")
    return header + b"".join(tensor.tobytes() for tensor in data)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "stories.bin"


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("write", [version_0, version_1])
def test_logits_are_those_of_a_slow_llama(path, write, tied):
    tensors = random_llama(seed=1, tied=tied, **SIZES)
    path.write_bytes(write(tensors, tied=tied))
    source = llama2c.look(path)
    weights = Weights.assemble(source.config, source.read()).to(dtype=torch.float64)
    tokens = [3, 1, 4, 1, 5, 9, 2]
    expected = logits(tensors, tokens, heads=SIZES["heads"], key_heads=SIZES["key_heads"], pairs="adjacent")
    assert torch.allclose(forward(weights, torch.tensor([tokens]))[0], torch.from_numpy(expected), atol=1e-10)


def test_the_file_is_described_before_it_is_read(path):
    path.write_bytes(version_0(random_llama(seed=1, tied=True, **SIZES), tied=True))
    source = llama2c.look(path)
    assert source.format == "llama2.c version 0"
    assert source.words is None
    assert source.config.unembedding.tied
    assert source.entries[0].name == "tok_embeddings"
    assert source.entries[0].shape == (11, 8)
    assert [entry.start for entry in source.entries] == sorted(entry.start for entry in source.entries)
    (path.parent / "tokenizer.bin").touch()
    assert llama2c.look(path).words == path.parent / "tokenizer.bin"


def header(**change):
    sizes = {"dim": 8, "hidden": 6, "layers": 2, "heads": 4, "key_heads": 2, "vocab": 11, "context": 7} | change
    return struct.pack("<7i", *sizes.values())


@pytest.mark.parametrize(
    ("data", "reason"),
    {
        "nothing": (b"", "a file of 0 bytes"),
        "half a header": (bytes(20), "a file of 20 bytes"),
        "zeros": (bytes(28), "heads that divide both"),
        "no layers": (header(layers=0), "heads that divide both"),
        "heads that do not divide": (header(heads=3, key_heads=3), "heads that divide both"),
        "key heads that do not divide": (header(key_heads=3), "heads that divide both"),
        "an odd head": (header(dim=12), "rotary positions turn pairs"),
        "no vocabulary": (header(vocab=0), "vocab=0"),
        "a giant": (header(dim=2**24, heads=2**12, key_heads=1), "d_model=16777216"),
        "giant layers": (header(layers=2**31 - 1), "layers=2147483647"),
        "a whole giant": (header(dim=2**18, hidden=2**21, heads=2**8, vocab=2**24), "as its header says"),
        "version 2": (struct.pack("<Ii", 0x616B3432, 2) + bytes(300), "int8 is not read"),
        "a later version": (struct.pack("<Ii", 0x616B3432, 9) + bytes(300), "llama2.c version 9"),
        "flags": (struct.pack("<Ii", 0x616B3432, 1) + header() + b"\2" + bytes(300), "flags"),
        "a torch file": (b"PK\3\4" + bytes(100), "give the folder"),
    }.values(),
)  # fmt: skip
def test_a_crafted_header_is_refused(path, data, reason):
    path.write_bytes(data)
    with pytest.raises(ModelFileError) as caught:
        llama2c.look(path)
    assert reason in str(caught.value)


@pytest.mark.parametrize("change", [-4, -1, 1, 4])
def test_a_file_of_another_size_than_its_header_says_is_refused(path, change):
    data = version_0(random_llama(seed=1, tied=True, **SIZES), tied=True)
    path.write_bytes(data[:change] if change < 0 else data + bytes(change))
    with pytest.raises(ModelFileError, match="as its header says"):
        llama2c.look(path)
