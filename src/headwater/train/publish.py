"""A finished run made into a reference model: half the size, with a card that says what it is, how good, and how to make it again."""

import json
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from headwater.files.atomic import write_file
from headwater.model import checkpoint
from headwater.model.reference import FOLDER
from headwater.model.sources import load_weights, look
from headwater.model.weights import Weights
from headwater.settings import kind_of
from headwater.text.corpus import Corpus
from headwater.train.baselines import Comparison, compare, count_baselines
from headwater.train.folder import RunFolder
from headwater.train.predictors import Transformer
from headwater.train.recipe import Recipe, read_recipe
from headwater.train.studies import induction
from headwater.train.words import prepare_corpus

BASELINES = ("uniform", "unigram", "bigram", "trigram", "5-gram")
TOKENS = 100_000


@dataclass(frozen=True)
class _Published:
    recipe: Recipe
    weights: Weights
    corpus: Corpus
    log: list[dict[str, Any]]


def publish(run: Path, folder: Path) -> None:
    """Write the model of a finished run to ``folder``: float16 weights, tokenizer, recipe, log and card."""
    source = RunFolder(run)
    recipe = read_recipe(source.recipe)
    weights = load_weights(look(source.model)).to(dtype=torch.float16)
    published = _Published(recipe, weights, prepare_corpus(recipe, source.corpus), source.read_log())
    card = _card(published)
    words = published.corpus.tokenizer.to_json()
    for extra in ("recipe.toml", "log.jsonl", "card.json"):
        (folder / extra).unlink(missing_ok=True)
    checkpoint.save(weights, folder, tokenizer_json=words, overwrite=True)
    write_file(folder / "recipe.toml", source.recipe.read_bytes())
    write_file(folder / "log.jsonl", b"".join(json.dumps(line).encode() + b"\n" for line in published.log))
    write_file(folder / "card.json", json.dumps(card, indent=2, ensure_ascii=False).encode() + b"\n")


def _card(published: _Published) -> dict[str, Any]:
    recipe, corpus, last = published.recipe, published.corpus, published.log[-1]
    manifest = corpus.manifest
    card: dict[str, Any] = {
        "name": recipe.name,
        "about": recipe.about,
        "parameters": sum(tensor.numel() for tensor in published.weights.tensors().values()),
        "text": {
            "source": f"the standard library of Python {manifest.python}"
            if manifest.python
            else kind_of(type(manifest.source)),
            "tokens": manifest.train.tokens,
            "bytes": manifest.train.bytes,
            "held_out_tokens": manifest.held_out.tokens,
        },
        "trained": {
            "updates": last["step"],
            "tokens": last["step"] * recipe.training.batch * recipe.model.context,
            "minutes": round(last["seconds"] / 60, 1),
            "torch": torch.__version__.partition("+")[0],
            "machine": platform.machine(),
        },
        "held_out": _losses(_compared(published)),
        "made_by": f"headwater train {recipe.name}",
    }
    if recipe.text.repeats is not None:
        repeats = recipe.text.repeats
        card["planted_repeats"] = (
            f"{repeats.share:.0%} of its training sequences are random tokens, {repeats.shortest} to {repeats.longest} of them written "
            "again and again: on natural text alone induction heads take about 10⁹ tokens to appear"
        )
        card["induction"] = _induction(published.weights)
    return card


def _compared(published: _Published) -> Comparison:
    """The model in the format it is shipped in, and the usual baselines, on the same tokens."""
    shipped = Transformer(published.weights.to(dtype=torch.float32), "this model")
    counted = count_baselines(published.corpus.train, vocab=published.corpus.vocab, names=BASELINES)
    return compare([shipped, *counted], published.corpus, context=published.recipe.model.context, most=TOKENS)


def _losses(comparison: Comparison) -> dict[str, Any]:
    rows = [
        {
            "predictor": row.name,
            "nats": round(row.evaluation.nats, 4),
            "bits_per_byte": round(row.evaluation.bits_per_byte or 0, 4),
        }
        for row in comparison.rows
    ]
    return {"tokens": comparison.tokens, "rows": rows}


def _induction(weights: Weights) -> dict[str, Any]:
    found = induction.run(weights.to(dtype=torch.float32))
    head, score = found.best
    nats = {"nats_first_time": round(found.before, 4), "nats_second_time": round(found.after, 4)}
    return {"head": head, "score": round(score, 4), **nats}


if __name__ == "__main__":
    for finished in sys.argv[1:]:
        publish(Path(finished), FOLDER / Path(finished).name)
