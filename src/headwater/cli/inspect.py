"""``headwater inspect``: what a model is made of, from its headers alone."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from headwater.cli.terminal import show_json, show_table
from headwater.files.entries import TensorEntry
from headwater.model.config import ModelConfig
from headwater.model.layout import parameter_count
from headwater.model.source import Source
from headwater.model.sources import look
from headwater.settings import kind_of, to_plain


def inspect(model: Path, /, *, json: bool = False) -> None:
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
    show_table(["tensor", "format", "shape", "numbers#"], _tensor_rows(source.entries), title="\ntensors, as the file names them")


def _document(source: Source) -> dict[str, Any]:
    return {
        "path": str(source.path),
        "format": source.format,
        "config": to_plain(source.config),
        "parameters": parameter_count(source.config),
        "tokenizer": source.words is not None,
        "tensors": [{"name": entry.name, "dtype": entry.dtype, "shape": list(entry.shape)} for entry in source.entries],
    }


def describe(source: Source) -> list[tuple[str, str]]:
    """The architecture in words, one line for each choice."""
    config = source.config
    return [
        ("model", str(source.path)),
        ("written by", source.format),
        ("parameters", f"{parameter_count(config):,}"),
        ("vocabulary", f"{config.vocab:,} tokens" + ("" if source.words else "; no tokenizer beside it")),
        ("context", f"{config.context:,} positions"),
        ("stream", f"{config.d_model} wide, {_blocks(config)}"),
        ("attention", _settings(config.attention)),
        ("feed-forward", _settings(config.feed_forward)),
        ("norm", _settings(config.norm)),
        ("positions", _settings(config.positions)),
        ("unembedding", _settings(config.unembedding)),
    ]


def _blocks(config: ModelConfig) -> str:
    return {0: "no blocks: the bigram machine W_E W_U", 1: "1 block"}.get(config.layers, f"{config.layers} blocks")


def _settings(value: Any) -> str:
    """A part of a configuration as words: its kind and its settings."""
    if value is None:
        return "none"
    inner = [(field.name, getattr(value, field.name)) for field in fields(value)]
    words = [f"{name.replace('_', ' ')} {_setting(setting)}" for name, setting in inner]
    return ", ".join([kind_of(type(value)).replace("-", " "), *words])


def _setting(setting: Any) -> str:
    if isinstance(setting, bool):
        return "yes" if setting else "no"
    if isinstance(setting, int | float | str):
        return f"{setting}"
    return f"({_settings(setting)})"


def _tensor_rows(entries: tuple[TensorEntry, ...]) -> list[tuple[str, str, str, str]]:
    """One row for each tensor; those that stand alike in every block share one."""
    rows: dict[tuple[str, str, tuple[int, ...]], int] = {}
    for entry in entries:
        key = (re.sub(r"(?<=\.)\d+(?=\.)", "*", entry.name), entry.dtype, entry.shape)
        rows[key] = rows.get(key, 0) + 1
    return [
        (f"{name}  × {times}" if times > 1 else name, dtype, " × ".join(map(str, shape)), f"{times * _count(shape):,}")
        for (name, dtype, shape), times in rows.items()
    ]


def _count(shape: tuple[int, ...]) -> int:
    return TensorEntry("", "", shape, 0, 0).count
