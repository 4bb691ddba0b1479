"""Headwater as a program with types uses it: ``make check`` reads this in pyright's strict mode, and it runs as a test."""

from pathlib import Path

from torch import Tensor

import headwater as hw


def strongest(run: hw.Run, token: str | int | None = None) -> tuple[str, float]:
    """The largest part of a logit, by its label."""
    why: hw.Split = run.explain(token=token)
    part: hw.Part = max(why.parts, key=lambda each: abs(each.value))
    return part.label, part.value


def without(model: hw.Model, run: hw.Run, place: str) -> Tensor:
    """The logits of a run in which a place says nothing."""
    edit = hw.Chain(hw.Zero(model.place(place)), hw.Freeze(run))
    return model.record(run.tokens, tap=edit).logits


def copies(circuit: hw.Circuit) -> float:
    """How much of a circuit's size its trace is."""
    product: hw.Factored = circuit.T
    return product.trace() / product.norm()


def drawn(model: hw.Model, text: str) -> str:
    """What a model goes on with."""
    if model.tokenizer is None:
        raise hw.InputError("a model without words", "a tokenizer", "give another model")
    return model.tokenizer.decode(model.generate(text, hw.Sampling(temperature=0), most=3))


def opened(folder: Path) -> hw.ModelConfig:
    """What the model in a folder is made of."""
    return hw.load(folder).config
