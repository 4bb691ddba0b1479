"""The same gradients in every run, with more than one thread as well."""

import pytest
import torch

from headwater.model.config import Attention, ModelConfig, Unembedding
from headwater.model.weights import Weights
from headwater.train.module import TransformerModule


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("tied", [False, True])
def test_threads_do_not_change_the_order_in_which_gradients_are_summed(tied):
    config = ModelConfig(
        vocab=50,
        context=256,
        d_model=128,
        layers=1,
        attention=Attention(heads=2, d_head=64),
        unembedding=Unembedding(tied=tied),
    )
    module = TransformerModule(Weights.draw(config, seed=0))
    windows = torch.randint(0, 50, (8, 257), generator=torch.Generator().manual_seed(0))

    def gradients():
        return torch.autograd.grad(module(windows), list(module.parameters()))

    first = gradients()
    for _ in range(5):
        assert all(torch.equal(ours, again) for ours, again in zip(first, gradients(), strict=True))
