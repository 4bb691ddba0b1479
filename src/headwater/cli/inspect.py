"""``headwater inspect``: what a model is made of, from its headers alone."""

import re
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any

from headwater.cli.terminal import Flag, show_json, show_table
from headwater.errors import ModelFileError
from headwater.files.entries import TensorEntry
from headwater.files.plain import read_json
from headwater.model.config import (
    Attention,
    FeedForward,
    GatedFeedForward,
    LearnedPositions,
    NoNorm,
    NoPositions,
    Norm,
    NoStretch,
    Positions,
    PreNorm,
    RMSNorm,
    RotaryPositions,
    SinusoidalPositions,
)
from headwater.model.layout import parameter_count
from headwater.model.source import Source
from headwater.model.sources import look
from headwater.settings import kind_of, to_plain


def inspect(model: Path, /, *, json: Flag = False) -> None:
    """Show a model's architecture, parameters and tensors.

    Reads headers only: it answers at once whatever the model's size.

    Parameters
    ----------
    model
        A model's file or folder, in any format that Headwater reads.
    json
        Print one JSON document instead of tables.
    """
    source = look(model)
    if json:
        show_json(_document(source))
        return
    show_table(["", ""], describe(source))
    if card := _card(source):
        show_table(["", ""], _card_rows(card), title="\nits card")
    show_table(
        ["tensor", "format", "shape", "numbers#"], _tensor_rows(source.entries), title="\ntensors, as the file names them"
    )


def _document(source: Source) -> dict[str, Any]:
    return {
        "path": str(source.path),
        "format": source.format,
        "config": to_plain(source.config),
        "parameters": parameter_count(source.config),
        "tokenizer": source.words is not None,
        **({"card": card} if (card := _card(source)) else {}),
        "tensors": [{"name": entry.name, "dtype": entry.dtype, "shape": list(entry.shape)} for entry in source.entries],
    }


def describe(source: Source) -> list[tuple[str, str]]:
    """The architecture in words, one line for each choice."""
    config = source.config
    blocks = {0: "no blocks: the bigram machine W_E W_U", 1: "1 block"}.get(config.layers, f"{config.layers} blocks")
    return [
        ("model", str(source.path)),
        ("written by", source.format),
        ("parameters", f"{parameter_count(config):,}"),
        ("vocabulary", _join(f"{config.vocab:,} tokens", "" if source.words else "no tokenizer beside it")),
        ("context", f"{config.context:,} positions"),
        ("stream", f"{config.d_model} wide, {blocks}"),
        ("attention", _attention(config.attention) if config.attention else "none"),
        ("feed-forward", _feed_forward(config.feed_forward) if config.feed_forward else "none"),
        ("norm", _norm(config.norm)),
        ("positions", _positions(config.positions)),
        (
            "unembedding",
            _join("tied to the embedding" if config.unembedding.tied else "its own", "biased" * config.unembedding.bias),
        ),
    ]


def _card(source: Source) -> dict[str, Any] | None:
    """What one of our own models says about itself; a file of that name that somebody else wrote is none."""
    with suppress(ModelFileError, KeyError, TypeError, ValueError):
        card = read_json(source.path / "card.json")
        _card_rows(card)
        return card
    return None


def _card_rows(card: dict[str, Any]) -> list[tuple[str, str]]:
    text, trained, held_out = card["text"], card["trained"], card["held_out"]
    losses = [f"{row['nats']:.3f} {row['predictor']}" for row in held_out["rows"]]
    rows = [
        ("", card["about"]),
        ("text", f"{text['source']}, {text['tokens']:,} tokens; {text['held_out_tokens']:,} more held out"),
        ("trained", f"{trained['updates']:,} updates, {trained['tokens']:,} tokens, {trained['minutes']} minutes"),
        ("held-out loss", f"nats per token over {held_out['tokens']:,}: {' · '.join(losses)}"),
    ]
    if "planted_repeats" in card:
        rows.append(("planted repeats", card["planted_repeats"]))
    if "induction" in card:
        found = card["induction"]
        nats = f"{found['nats_first_time']:.2f} nats the first time, {found['nats_second_time']:.2f} the second"
        rows.append(("induction", f"{found['head']} scores {found['score']:.2f}; random tokens cost {nats}"))
    return [*rows, ("made by", card["made_by"])]


def _join(*words: str) -> str:
    return ", ".join(word for word in words if word)


def _attention(attention: Attention) -> str:
    return _join(
        f"{attention.heads} heads of {attention.d_head}",
        f"{attention.group_size} heads share a key and a value" if attention.group_size > 1 else "",
        attention.mask,
        "" if attention.scaled else "not scaled",
        "biased queries, keys and values" * attention.input_bias,
        "biased output" * attention.output_bias,
    )


def _feed_forward(layer: FeedForward | GatedFeedForward) -> str:
    return _join(
        f"{layer.d_mlp} neurons",
        f"gated by {layer.activation}" if isinstance(layer, GatedFeedForward) else layer.activation,
        "biased" * layer.bias,
        "reads beside attention" * (layer.reads == "beside-attention"),
    )


def _norm(norm: Norm) -> str:
    if isinstance(norm, NoNorm):
        return "none"
    return _join(
        f"{type(norm.norm).__name__} {'before each component' if isinstance(norm, PreNorm) else 'after each write'}",
        f"eps {norm.norm.eps:g}",
        "" if norm.norm.gain else "no gain",
        "" if norm.norm.bias or isinstance(norm.norm, RMSNorm) else "no bias",
    )


def _positions(positions: Positions) -> str:
    match positions:
        case NoPositions():
            return "none"
        case LearnedPositions(into=into):
            return _join("learned", f"into {into.replace('-', ' ')}")
        case SinusoidalPositions(into=into, base=base):
            return _join("sinusoidal", f"base {base:g}", f"into {into.replace('-', ' ')}")
        case RotaryPositions(dims=dims, base=base, pairs=pairs, stretch=stretch):
            stretched = "" if isinstance(stretch, NoStretch) else kind_of(type(stretch)).replace("-", " ")
            return _join(
                f"rotary, {dims} dims",
                f"base {base:g}",
                f"pairs in {pairs}" if pairs == "halves" else "adjacent pairs",
                stretched,
            )


def _tensor_rows(entries: tuple[TensorEntry, ...]) -> list[tuple[str, str, str, str]]:
    """One row for each tensor; those that stand alike in every block share one."""
    rows: dict[tuple[str, str, tuple[int, ...]], int] = {}
    for entry in entries:
        key = (re.sub(r"(?<=\.)\d+(?=\.)", "*", entry.name), entry.dtype, entry.shape)
        rows[key] = rows.get(key, 0) + 1
    return [
        (f"{name}  × {times}" if times > 1 else name, dtype, " × ".join(map(str, shape)), f"{times * prod(shape):,}")
        for (name, dtype, shape), times in rows.items()
    ]
