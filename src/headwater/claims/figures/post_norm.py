"""A small post-norm block, trained in seconds: what the steps t1 … t5, h of documents 002 and 004 are recorded from."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headwater.api import Model, load
from headwater.claims.figures.one_run import TEXT
from headwater.claims.given import Given
from headwater.shapes import whole
from headwater.text.sources import StandardLibrary, documents
from headwater.text.spoken import Spoken
from headwater.trace.run import Run
from headwater.train.loop import train_steps
from headwater.train.module import TransformerModule
from headwater.train.plan import Plan
from headwater.train.recipe import read_recipe

LETTERS = 200_000
"""Of the text that it is trained on."""
CONTEXT = 32
PLAN = Plan(steps=60, batch=8, learning_rate=1e-3, warmup=10)


@dataclass(frozen=True, eq=False)
class Block:
    """The trained block and what it did with a short text; the token that is told of is the last."""

    model: Model
    run: Run
    steps: int

    def __getitem__(self, step: str) -> Tensor:
        """``t1 … t5``, ``h`` or any other site of the block, for all tokens."""
        return self.run[f"L0.{step}"][0]

    @property
    def words(self) -> tuple[str, ...]:
        """The tokens, spaces and all."""
        spoken = Spoken(self.model.tokenizer)
        return tuple(spoken.text(int(token)) or spoken(int(token)) for token in self.run.tokens[0])


def post_norm(given: Given) -> Block:
    """The training, done once."""
    return given.once("diagrams: post-norm block", _train)


def _train() -> Block:
    """One block of the sizes of the recipe ``block-post``, on the first letters of the standard library."""
    words = load("block").tokenizer
    assert words is not None, "the models that come with Headwater read text"
    ids = torch.tensor(words.encode(_text()))
    config = replace(read_recipe("block-post").model, layers=1, context=CONTEXT)
    # Embeddings are drawn as long as positions are, so that heads tell tokens apart from the first update on.
    module = TransformerModule(Given.drawn(config).weights.to(dtype=torch.float32))
    order = torch.Generator().manual_seed(0)

    def batch(step: int) -> Tensor:
        del step
        starts = torch.randint(len(ids) - CONTEXT, (PLAN.batch,), generator=order)
        return torch.stack([ids[start : start + CONTEXT + 1] for start in whole(starts)])

    for _ in train_steps(module, batch, PLAN):
        pass
    model = Model(module.weights().to(dtype=torch.float64), words)
    return Block(model, model.record(TEXT), PLAN.steps)


def _text() -> str:
    data = bytearray()
    for document in documents(StandardLibrary()):
        for piece in document.chunks():
            data += piece
        if len(data) >= LETTERS:
            break
    return data[:LETTERS].decode(errors="ignore")
