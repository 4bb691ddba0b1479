"""What the loss keeps, what it hands out, and what it refuses."""

import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from headwater.train import loss
from headwater.train.loss import cross_entropy, nats


def example(dtype=torch.float32, tokens=40, d_model=6, vocab=33):
    draws = torch.Generator().manual_seed(0)
    stream = torch.randn(tokens, d_model, generator=draws).to(dtype)
    W_U = torch.randn(d_model, vocab, generator=draws).to(dtype)
    return stream.requires_grad_(), W_U.requires_grad_(), torch.randint(0, vocab, (tokens,), generator=draws)


class Largest(TorchDispatchMode):
    """The most entries of any tensor that is made, and the products that are computed."""

    def __init__(self):
        super().__init__()
        self.entries, self.products = 0, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        self.products += "mm" in function.name()
        for tensor in made if isinstance(made, (tuple, list)) else [made]:
            if isinstance(tensor, torch.Tensor):
                self.entries = max(self.entries, tensor.numel())
        return made


def test_all_logits_are_never_there_at_once(monkeypatch):
    monkeypatch.setattr(loss, "tokens_at_once", lambda vocab: 8)
    stream, W_U, targets = example(tokens=400)
    with Largest() as watch:
        cross_entropy(stream, W_U, None, targets).backward()
    assert watch.entries <= 400 * 6


@pytest.mark.parametrize(("of_stream", "of_W_U"), [(True, True), (True, False), (False, True), (False, False)])
def test_no_gradient_is_computed_that_nobody_needs(of_stream, of_W_U):
    stream, W_U, targets = example()
    stream.requires_grad_(of_stream)
    W_U.requires_grad_(of_W_U)
    with Largest() as watch:
        value = cross_entropy(stream, W_U, None, targets)
    assert watch.products == 1 + of_stream + of_W_U
    assert value.requires_grad == (of_stream or of_W_U)


def test_without_gradients_asked_for_none_is_computed():
    with torch.no_grad(), Largest() as watch:
        cross_entropy(*example()[:2], None, example()[2])
    assert watch.products == 1


class Handed(TorchDispatchMode):
    """The memory of what is made by ``zeros_like``: the loss makes its gradients so."""

    def __init__(self):
        super().__init__()
        self.memory = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        if function.name() == "aten::zeros_like":
            self.memory.add(made.data_ptr())
        return made


@pytest.mark.parametrize("tied", [False, True])
def test_a_parameter_takes_its_gradient_as_it_comes(tied):
    stream, W_U, targets = example()
    W = W_U.detach().T.contiguous().requires_grad_() if tied else W_U
    with Handed() as handed:
        cross_entropy(stream, W.T if tied else W, None, targets).backward()
    assert handed.memory == {stream.grad.data_ptr(), W.grad.data_ptr()}
    assert W.grad.stride() == W.stride()


def test_targets_that_are_next_to_impossible_cost_what_they_should():
    stream = torch.tensor([[1.0], [-1.0]], requires_grad=True)
    W_U = torch.tensor([[1e4, 0.0, -1e4]], requires_grad=True)
    targets = torch.tensor([2, 2])
    assert nats(stream, W_U, None, targets).tolist() == [2e4, 0.0]
    value = cross_entropy(stream, W_U, None, targets)
    value.backward()
    assert value.item() == 1e4
    assert stream.grad is not None
    assert stream.grad.tolist() == [[1e4], [0.0]]


def test_a_graph_that_is_kept_gives_its_gradients_again():
    stream, W_U, targets = example()
    value = cross_entropy(stream, W_U, None, targets)
    value.backward(retain_graph=True)
    once = W_U.grad.clone()
    (2 * value).backward()
    torch.testing.assert_close(W_U.grad, 3 * once)
    with pytest.raises(RuntimeError, match="second time"):
        value.backward()


def test_a_derivative_of_the_gradient_is_refused():
    stream, W_U, targets = example()
    with pytest.raises(RuntimeError, match="once, not twice"):
        torch.autograd.grad(cross_entropy(stream, W_U, None, targets), stream, create_graph=True)


@pytest.mark.parametrize("tied", [False, True])
def test_under_autocast_products_are_in_half_precision_and_gradients_in_the_parameters_own(tied):
    stream, W_U, targets = example(tokens=300)
    W = W_U.detach().T.contiguous().requires_grad_() if tied else W_U
    with torch.autocast("cpu", torch.bfloat16):
        value = cross_entropy(stream, W.T if tied else W, None, targets)
    value.backward()
    assert value.dtype == stream.grad.dtype == W.grad.dtype == torch.float32
    exact = functional.cross_entropy(stream @ W_U, targets)
    expected = torch.autograd.grad(exact, [stream, W_U])
    assert 0 < abs(value - exact) < 1e-2
    for ours, theirs in zip((stream.grad, W.grad.T if tied else W.grad), expected, strict=True):
        assert 0 < (ours - theirs).norm() < 1e-2 * theirs.norm()


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_half_precision_inputs_get_half_precision_gradients_summed_in_float32(half, monkeypatch):
    monkeypatch.setattr(loss, "tokens_at_once", lambda vocab: 4)
    stream, W_U, targets = example(half, tokens=300)
    cross_entropy(stream, W_U, None, targets).backward()
    assert stream.grad.dtype == W_U.grad.dtype == half
    wide = W_U.detach().float().requires_grad_()
    functional.cross_entropy(stream.detach().float() @ wide, targets).backward()
    assert (W_U.grad.float() - wide.grad).norm() < 1e-2 * wide.grad.norm()


@pytest.mark.parametrize(("vocab", "tokens"), [(2, 1024), (4096, 976), (50_257, 512), (10**7, 512)])
def test_chunks_fit_the_cache_or_are_as_small_as_is_fast(vocab, tokens):
    assert loss.tokens_at_once(vocab) == tokens
