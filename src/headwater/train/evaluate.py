"""How well a predictor predicts: nats per token with their error, bits per byte, nats by position; and the entropies of a text."""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, Integer
from numpy import ndarray
from numpy.typing import NDArray
from torch import Tensor

from headwater.errors import InputError
from headwater.text.counts import entropy
from headwater.text.tokenizer import Tokenizer
from headwater.train.predictors import Predictor

TOKENS_AT_ONCE = 8192
MOST_NATS = 709.0
"""Beyond it ``e^nats`` is too large for a number."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What predicting ``tokens`` tokens cost."""

    tokens: int
    nats: float
    """The mean for each token; infinite where one had probability 0."""
    standard_error: float | None
    """Of that mean, from how windows differ; none where it is infinite or there is one window only."""
    bits_per_byte: float | None
    """None where the bytes of tokens are not known."""
    by_position: tuple[float, ...]
    """The mean nats of the first predicted token of each window, of the second, and so on: falling where context helps."""
    impossible: int
    """How many tokens had probability 0."""

    @property
    def perplexity(self) -> float:
        """``e^nats``: among how many equally likely tokens the next would be as hard to guess."""
        return math.exp(self.nats) if self.nats < MOST_NATS else math.inf


def silent(done: int, tokens: int) -> None:
    """Progress that nobody watches."""
    del done, tokens


def evaluate(
    predictor: Predictor,
    ids: Integer[ndarray, " tokens"],
    *,
    context: int,
    token_bytes: Integer[ndarray, " vocab"] | None = None,
    most: int | None = None,
    progress: Callable[[int, int], None] = silent,
) -> Evaluation:
    """Predict a text: windows of ``context`` tokens and the one after them, each beginning where the last one ended.

    So every token but the first is predicted once, from what precedes it in its window. Where there are more than ``most`` tokens,
    windows at even distances are taken. ``token_bytes[id]`` is how many bytes a token stands for; ``progress`` is told how many
    tokens are done, of how many.

    >>> from headwater.train.predictors import Uniform
    >>> evaluation = evaluate(Uniform(4), np.array([0, 1, 2, 3, 2, 1, 0]), context=4)
    >>> evaluation.tokens, round(evaluation.perplexity, 9), len(evaluation.by_position)
    (6, 4.0, 4)
    """
    starts = window_starts(len(ids), context, most)
    tokens = sum(min(context, len(ids) - 1 - int(start)) for start in starts)
    parts: list[NDArray[np.float64]] = []
    size = done = 0
    for windows in _batches(ids, starts, context):
        parts.append(predictor.nats(windows).cpu().double().numpy())
        done += parts[-1].size
        if token_bytes is not None:
            size += int(token_bytes[windows[:, 1:].numpy()].sum())
        progress(done, tokens)
    nats = float(sum(part.sum() for part in parts)) / tokens
    if math.isnan(nats):
        raise InputError(f"a loss of {predictor.name} that is no number", "finite weights", "check the model")
    return Evaluation(
        tokens=tokens,
        nats=nats,
        standard_error=_standard_error(parts, nats, tokens),
        bits_per_byte=nats * tokens / math.log(2) / size if size else None,
        by_position=_by_position(parts),
        impossible=sum(int(np.isinf(part).sum()) for part in parts),
    )


def window_starts(length: int, context: int, most: int | None = None) -> Int[ndarray, " windows"]:
    """Where the windows of a text begin, so that each token but the first is predicted once; at most ``most`` tokens of them.

    >>> window_starts(10, 4), window_starts(1000, 10, most=30)
    (array([0, 4, 8]), array([  0, 490, 990]))
    """
    if length < 2 or context < 1 or (most is not None and most < 1):
        given = f"{length:,} tokens in windows of {context:,}" + ("" if most is None else f", {most:,} at the most")
        raise InputError(given, "at least two tokens and windows of at least one", "give more text")
    count = -((1 - length) // context)
    wanted = count if most is None else min(count, max(1, most // context))
    return np.linspace(0, count - 1, wanted).astype(np.int64) * context


def _batches(ids: NDArray[Any], starts: NDArray[np.int64], context: int) -> Iterator[Int[Tensor, "batch window"]]:
    """The windows, some thousand tokens at a time; one that the end of the text cuts short comes alone."""
    whole = starts[starts + context < len(ids)]
    for some in np.array_split(whole, -(-len(whole) * context // TOKENS_AT_ONCE)) if len(whole) else ():
        yield torch.from_numpy(np.stack([ids[start : start + context + 1] for start in some]).astype(np.int64))
    for start in starts[len(whole) :]:
        yield torch.from_numpy(ids[None, start:].astype(np.int64))


def _standard_error(parts: list[NDArray[np.float64]], mean: float, tokens: int) -> float | None:
    """``√(Σ_windows (its nats − its tokens · mean)² · n/(n − 1)) / tokens``: windows are independent, their tokens are not."""
    count = sum(len(part) for part in parts)
    if count == 1 or not math.isfinite(mean):
        return None
    squares = sum(float(np.square(part.sum(axis=1) - part.shape[1] * mean).sum()) for part in parts)
    return math.sqrt(squares * count / (count - 1)) / tokens


def _by_position(parts: list[NDArray[np.float64]]) -> tuple[float, ...]:
    longest = max(part.shape[1] for part in parts)
    totals, counts = np.zeros(longest), np.zeros(longest)
    for part in parts:
        totals[: part.shape[1]] += part.sum(axis=0)
        counts[: part.shape[1]] += len(part)
    return tuple((totals / counts).tolist())


def bytes_of_tokens(tokenizer: Tokenizer, vocab: int) -> Int[ndarray, " vocab"]:
    """How many bytes of text each token stands for; special tokens, and ids that the tokenizer does not use, for none.

    A word stands for the blank after it too, where white space is not kept.

    >>> from headwater.text.tokenizer import byte_tokenizer
    >>> bytes_of_tokens(byte_tokenizer(), 258)[[0, 255, 256]]
    array([1, 1, 0])
    """
    before: dict[str, Any] = json.loads(tokenizer.to_json()).get("pre_tokenizer") or {}
    blank = int(before.get("type") == "WhitespaceSplit")
    sizes = [0 if token in tokenizer.specials else len(tokenizer.token_bytes(token)) + blank for token in range(tokenizer.size)]
    return np.array(sizes + [0] * (vocab - tokenizer.size), np.int64)


def conditional_entropy(ids: Integer[ndarray, " tokens"]) -> float:
    """H(X₂|X₁) of the pairs of neighbours in a text, in nats: the least that anything loses on it that sees one token.

    It is that text's own: on another one the counts lose more, and a short text's is far too low as an estimate for its language.

    >>> round(conditional_entropy(np.array([0, 1, 0, 2, 0, 1, 0, 2, 0])) / math.log(2), 9)  # in bits
    0.5
    """
    first, second = ids[:-1].astype(np.int64), ids[1:].astype(np.int64)
    if not len(first):
        raise InputError(f"{len(ids)} tokens", "at least two", "give more text")
    _, pairs = np.unique(first * (int(ids.max()) + 1) + second, return_counts=True)
    return entropy(pairs) - entropy(np.bincount(first))
