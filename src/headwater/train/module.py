"""``TransformerModule``: weights that can be trained. Optimisers, DDP and FSDP want an ``nn.Module``; nothing else here does."""

from collections.abc import Callable
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwater.model.forward import final_stream, last_norm
from headwater.model.layout import tensor_shapes
from headwater.model.weights import Weights, laid_out
from headwater.shapes import Stream, Tokens
from headwater.train.loss import cross_entropy


class TransformerModule(nn.Module):
    """A model whose tensors are parameters, and whose answer is its loss.

    >>> from headwater.model.presets import named
    >>> module = TransformerModule(Weights.draw(named("one-layer"), seed=0))
    >>> loss = module(torch.tensor([[5, 7, 5, 7]]))  # mean nats of predicting 7, 5, 7
    >>> loss.backward()
    """

    def __init__(self, weights: Weights, *, compiled: bool = False) -> None:
        super().__init__()
        self.config = weights.config
        for name, tensor in laid_out(weights.tensors()).items():
            # A dot would mean a module inside this one.
            self.register_parameter(name.replace(".", "/"), nn.Parameter(tensor.detach().clone()))
        stream = cast(Any, torch.compile(final_stream)) if compiled else final_stream
        self._stream = cast("Callable[[Weights, Tokens], Stream]", stream)

    def forward(self, windows: Int[Tensor, "batch window"]) -> Float[Tensor, ""]:
        """The mean cross-entropy, in nats, of each token of the windows but the first."""
        weights = self.live()
        stream = last_norm(weights, self._stream(weights, windows[:, :-1]))
        return cross_entropy(stream.flatten(0, 1), weights.W_U, weights.b_U, windows[:, 1:].flatten())

    def live(self) -> Weights:
        """The parameters themselves as weights: gradients flow into them."""
        return Weights.assemble(self.config, self.tensors())

    def weights(self) -> Weights:
        """The weights as they are now, as a value that further training does not change."""
        return Weights.assemble(self.config, {name: tensor.detach().clone() for name, tensor in self.tensors().items()})

    def tensors(self) -> dict[str, Tensor]:
        """The parameters under their names in files."""
        return {name: getattr(self, name.replace(".", "/")) for name in tensor_shapes(self.config)}
