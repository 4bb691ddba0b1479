"""The recurrent baseline: what it computes, how large it is, that it learns, and its files."""

import json
from itertools import pairwise

import pytest
import torch
from hypothesis import given

from headwater.errors import ConfigError, InputError, ModelFileError
from headwater.model.config import ModelConfig, Unembedding
from headwater.model.layout import parameter_count
from headwater.model.presets import NAMED
from headwater.text.tokenizer import byte_tokenizer
from headwater.train.loop import train_steps
from headwater.train.plan import Plan
from headwater.train.recurrent import Recurrent, RecurrentConfig, RecurrentModule, Subject, equal_in_size, load, save
from strategies import configs

CONFIG = RecurrentConfig(vocab=256, context=6, d_model=5, layers=2, unembedding=Unembedding(bias=True))
TIED = RecurrentConfig(vocab=7, context=6, d_model=3, unembedding=Unembedding(tied=True))


def randomised(config, seed=0):
    """Every number drawn: zero biases would hide mistakes."""
    module = RecurrentModule(config, seed=seed).double()
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.5
    return module


@torch.no_grad()
def in_loops(module, window):
    """The network as it is written down: gates, cell, state, one token after the other."""
    config, tensors = module.config, dict(module.named_parameters())
    W_U = tensors["W_E"].T if config.unembedding.tied else tensors["W_U"]
    states, cells = [[torch.zeros(config.d_model).double() for _ in range(config.layers)] for _ in range(2)]
    found = []
    for token, target in pairwise(window):
        x = tensors["W_E"][token]
        for layer in range(config.layers):
            gates = tensors[f"lstm.weight_ih_l{layer}"] @ x + tensors[f"lstm.bias_ih_l{layer}"]
            gates = gates + tensors[f"lstm.weight_hh_l{layer}"] @ states[layer] + tensors[f"lstm.bias_hh_l{layer}"]
            enter, forget, new, leave = gates.split(config.d_model)
            cells[layer] = forget.sigmoid() * cells[layer] + enter.sigmoid() * new.tanh()
            x = states[layer] = leave.sigmoid() * cells[layer].tanh()
        logits = x @ W_U + (tensors["b_U"] if config.unembedding.bias else 0)
        found.append(float(logits.logsumexp(0) - logits[target]))
    return found


@pytest.mark.parametrize("config", [CONFIG, TIED], ids=["stacked", "tied"])
def test_the_network_is_that_of_its_equations(config):
    module = randomised(config)
    windows = torch.randint(0, config.vocab, (3, 9), generator=torch.Generator().manual_seed(1))
    twin = torch.tensor([in_loops(module, window) for window in windows], dtype=torch.float64)
    assert torch.allclose(Recurrent(module).nats(windows), twin, atol=1e-12)
    assert float(module(windows).detach()) == pytest.approx(float(twin.mean()), abs=1e-12)


@pytest.mark.parametrize("config", [CONFIG, TIED])
def test_the_parameters_are_those_that_are_listed(config):
    tensors = dict(RecurrentModule(config).named_parameters())
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == config.shapes()
    assert sum(tensor.numel() for tensor in tensors.values()) == config.parameters


@given(configs())
def test_no_other_width_is_nearer_in_size(config):
    chosen, wanted = equal_in_size(config), parameter_count(config)
    for d_model in range(1, chosen.d_model + 3):
        other = RecurrentConfig(vocab=config.vocab, context=config.context, d_model=d_model, unembedding=config.unembedding)
        assert abs(chosen.parameters - wanted) <= abs(other.parameters - wanted)


@pytest.mark.parametrize("name", NAMED)
def test_sizes_are_equal_within_half_a_percent_for_models_that_have_names(name):
    assert equal_in_size(NAMED[name]).parameters == pytest.approx(parameter_count(NAMED[name]), rel=0.005)


def test_the_same_seed_draws_the_same_numbers_whatever_was_drawn_before():
    first = RecurrentModule(CONFIG, seed=3).state_dict()
    torch.rand(7)
    again, other = RecurrentModule(CONFIG, seed=3).state_dict(), RecurrentModule(CONFIG, seed=4).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["W_E"], other["W_E"])


def test_it_learns_what_stands_further_back_than_a_pair():
    """1 follows 0 the first time and 2 the second: only a memory can tell."""
    module = RecurrentModule(RecurrentConfig(vocab=3, context=12, d_model=16), seed=0)
    windows = torch.tensor([[0, 1, 0, 2] * 3 + [0], [0, 2, 0, 1] * 3 + [0]])
    plan = Plan(steps=80, batch=2, learning_rate=5e-2, warmup=5)
    *_, last = train_steps(module, lambda step: windows, plan)
    assert last.loss < 0.1
    assert Recurrent(module).nats(windows)[:, 2:].max() < 0.1


def test_what_is_saved_is_loaded_bit_for_bit(tmp_path):
    subject = Subject(CONFIG, 5, byte_tokenizer())
    module = subject.draw()
    for _ in range(2):
        subject.save(dict(module.named_parameters()), tmp_path / "network")
    loaded, tokenizer = load(tmp_path / "network")
    assert loaded.config == CONFIG
    assert tokenizer == byte_tokenizer()
    assert all(torch.equal(tensor, loaded.state_dict()[name]) for name, tensor in module.state_dict().items())


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_changed_byte_in_any_file_is_found(tmp_path, name):
    save(TIED, dict(RecurrentModule(TIED).named_parameters()), tmp_path / "network", byte_tokenizer())
    path = tmp_path / "network" / name
    data = path.read_bytes()
    for place in range(0, len(data), max(1, len(data) // 40)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises((ModelFileError, ConfigError)):
            load(tmp_path / "network")
    path.write_bytes(data)
    load(tmp_path / "network")


def test_other_folders_sizes_and_ids_are_refused(tmp_path):
    with pytest.raises(ModelFileError, match="is not there"):
        load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"format": "headwater-model/1"}))
    with pytest.raises(ModelFileError, match="headwater-recurrent/1"):
        load(tmp_path)
    with pytest.raises(ConfigError, match="d_model=0"):
        RecurrentConfig(vocab=3, context=3, d_model=0)
    with pytest.raises(InputError, match="token ids 0 to 7"):
        Recurrent(RecurrentModule(TIED)).nats(torch.tensor([[0, 7]]))
    assert equal_in_size(ModelConfig(vocab=2, context=1, d_model=1, layers=0)).d_model == 1
