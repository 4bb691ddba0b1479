import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from headwater.errors import ModelFileError
from headwater.model.forward import forward
from headwater.model.sources import load_weights, look
from strategies import random_tokens


class Norm(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class SelfAttention(nn.Module):
    def __init__(self, width, heads, context, bias):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width, bias=bias)
        self.c_proj = nn.Linear(width, width, bias=bias)
        self.register_buffer("bias", torch.ones(context, context).tril().view(1, 1, context, context))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.c_attn(x).split(width, dim=2))
        scores = q @ k.transpose(-2, -1) / math.sqrt(k.shape[-1])
        scores = scores.masked_fill(self.bias[:, :, :length, :length] == 0, -math.inf)
        return self.c_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width))


class MLP(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width, bias=bias)
        self.c_proj = nn.Linear(4 * width, width, bias=bias)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, width, heads, context, bias):
        super().__init__()
        self.ln_1, self.ln_2 = Norm(width, bias), Norm(width, bias)
        self.attn, self.mlp = SelfAttention(width, heads, context, bias), MLP(width, bias)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    """nanoGPT's model, in our words."""

    def __init__(self, *, n_layer, n_head, n_embd, block_size, bias, vocab_size):
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocab_size, n_embd),
                "wpe": nn.Embedding(block_size, n_embd),
                "h": nn.ModuleList(Block(n_embd, n_head, block_size, bias) for _ in range(n_layer)),
                "ln_f": Norm(n_embd, bias),
            }
        )
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        self.lm_head.weight = self.transformer["wte"].weight
        generator = torch.Generator().manual_seed(0)
        for parameter in self.parameters():
            parameter.data = 0.5 * torch.randn(parameter.shape, generator=generator)

    def forward(self, tokens):
        parts = self.transformer
        x = parts["wte"](tokens) + parts["wpe"](torch.arange(tokens.shape[1]))
        for block in parts["h"]:
            x = block(x)
        return self.lm_head(parts["ln_f"](x))


ARGUMENTS = {"n_layer": 2, "n_head": 3, "n_embd": 12, "block_size": 9, "bias": True, "vocab_size": 17}


def save(folder, gpt, prefix="", **more):
    arguments = {**ARGUMENTS, "bias": gpt.transformer["ln_f"].bias is not None, "dropout": 0.1}
    state = {prefix + name: tensor for name, tensor in gpt.state_dict().items()}
    optimiser = torch.optim.AdamW(gpt.parameters())
    tree = {"model": state, "model_args": arguments, "optimizer": optimiser.state_dict(), "iter_num": 3, "config": {"lr": 0.1}}
    torch.save(tree | more, folder / "ckpt.pt")


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("prefix", ["", "_orig_mod."])
def test_the_logits_are_those_of_the_twin(tmp_path, bias, prefix):
    model = GPT(**{**ARGUMENTS, "bias": bias})
    save(tmp_path, model, prefix)
    weights = load_weights(look(tmp_path))
    tokens = random_tokens(weights.config, seed=0)
    with torch.no_grad():
        assert (forward(weights, tokens) - model(tokens)).abs().max() < 1e-4
        assert (forward(weights.to(dtype=torch.float64), tokens) - model.double()(tokens)).abs().max() < 1e-9
        assert model(tokens).abs().max() > 1


def test_the_file_and_its_folder_are_the_same_model(tmp_path):
    save(tmp_path, GPT(**ARGUMENTS))
    file, folder = look(tmp_path / "ckpt.pt"), look(tmp_path)
    assert (file.config, file.entries, file.format) == (folder.config, folder.entries, "nanoGPT")
    assert "transformer.h.0.attn.c_attn.weight" in {entry.name for entry in file.entries}


def test_old_checkpoints_have_biases_and_do_not_say_so(tmp_path):
    arguments = {name: value for name, value in ARGUMENTS.items() if name != "bias"}
    save(tmp_path, GPT(**ARGUMENTS), model_args=arguments)
    assert look(tmp_path).config.attention.input_bias


@pytest.mark.parametrize(
    ("name", "value"), [("n_head", 5), ("n_head", 0), ("n_layer", "2"), ("bias", 1), ("rotary", True), ("vocab_size", None)]
)
def test_arguments_that_are_not_honoured_are_refused_by_name(tmp_path, name, value):
    save(tmp_path, GPT(**ARGUMENTS), model_args={**ARGUMENTS, name: value})
    with pytest.raises(ModelFileError, match=rf"ckpt\.pt: model_args\.{name}={value!r}"):
        look(tmp_path)


@pytest.mark.parametrize(
    "tree",
    [
        {},
        [],
        3,
        {"model": {}},
        {"model_args": ARGUMENTS},
        {"model": 1, "model_args": ARGUMENTS},
        {"model": {}, "model_args": {1: 2}},
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path, tree):
    torch.save(tree, tmp_path / "ckpt.pt")
    with pytest.raises(ModelFileError, match="model_args and model"):
        look(tmp_path)


def test_other_tensors_are_refused(tmp_path):
    model = GPT(**ARGUMENTS)
    for change in (
        {"model": {}},
        {"model": {"transformer.wte.weight": torch.zeros(3)}},
        {"model": {**model.state_dict(), "x": 1}},
    ):
        save(tmp_path, model, **change)
        with pytest.raises(ModelFileError, match=r"ckpt\.pt"):
            look(tmp_path)


def test_an_unembedding_of_its_own_is_refused(tmp_path):
    model = GPT(**ARGUMENTS)
    save(tmp_path, model, model={**model.state_dict(), "lm_head.weight": torch.zeros(17, 12)})
    with pytest.raises(ModelFileError, match="differs from the embedding"):
        load_weights(look(tmp_path))
