"""``Subject``: what a recipe trains, from the first random numbers to the folder in the end."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from torch import Tensor, nn

from headwater.model import checkpoint
from headwater.model.config import ModelConfig
from headwater.model.weights import Weights
from headwater.text.tokenizer import Tokenizer
from headwater.train import recurrent
from headwater.train.module import TransformerModule
from headwater.train.recipe import Recipe


@runtime_checkable
class Subject(Protocol):
    """Something that can be trained."""

    def draw(self) -> nn.Module:
        """A module with its first parameters, whose answer to windows of ids is its loss."""
        ...

    def save(self, tensors: Mapping[str, Tensor], folder: Path) -> None:
        """Write what the module's parameters amount to, over whatever an earlier attempt left there."""
        ...


@dataclass(frozen=True)
class _Transformer:
    config: ModelConfig
    seed: int
    compiled: bool
    tokenizer: Tokenizer

    def draw(self) -> nn.Module:
        return TransformerModule(Weights.draw(self.config, seed=self.seed), compiled=self.compiled)

    def save(self, tensors: Mapping[str, Tensor], folder: Path) -> None:
        weights = Weights.assemble(self.config, {name.replace("/", "."): tensor.cpu() for name, tensor in tensors.items()})
        checkpoint.save(weights, folder, tokenizer_json=self.tokenizer.to_json(), overwrite=True)


def subject_of(recipe: Recipe, tokenizer: Tokenizer) -> Subject:
    """What a recipe trains."""
    plan = recipe.training
    if recipe.architecture == "recurrent":
        return recurrent.Subject(recurrent.equal_in_size(recipe.model), plan.seed, tokenizer)
    return _Transformer(recipe.model, plan.seed, plan.compiled, tokenizer)
