"""Predictors side by side: the baselines that are counted on a text, and a comparison of any on held-out tokens."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from jaxtyping import Integer
from numpy import ndarray

from headwater.errors import InputError, did_you_mean
from headwater.show.values import Line, Panel, Progress, Table, silent
from headwater.text.corpus import Corpus
from headwater.text.counts import conditional_entropy, entropy
from headwater.train.evaluate import Evaluation, bytes_of_tokens, evaluate
from headwater.train.ngrams import Counted, KneserNey, called, count_ngrams
from headwater.train.predictors import Predictor, Uniform, Unigram

ADD = 0.01
"""What add-k smoothing adds to each count of a pair: near the best for vocabularies of 4,000 to 50,000 and some million tokens."""
KNESER_NEY = {called(order): order for order in range(2, 10)}
BASELINES = ("uniform", "unigram", "bigram-counts", "bigram-add", *KNESER_NEY)
USUAL = ("uniform", "unigram", "bigram-counts", "bigram-add", "bigram", "trigram", "5-gram")


def check_baselines(names: Sequence[str]) -> Sequence[str]:
    """The names, once each is found to be a baseline's."""
    for name in names:
        if name not in BASELINES:
            raise InputError(f"no baseline is called {name!r:.80}", "a known name", did_you_mean(name, BASELINES))
    return names


def count_baselines(ids: Integer[ndarray, " tokens"], *, vocab: int, names: Sequence[str] = USUAL) -> list[Predictor]:
    """Baselines by name, from one count of a text. An n-gram without a further word is smoothed by Kneser and Ney's method.

    >>> import numpy as np
    >>> [baseline.name for baseline in count_baselines(np.array([0, 1, 0, 1, 1]), vocab=2, names=["uniform", "bigram", "4-gram"])]
    ['uniform', 'bigram, Kneser-Ney', '4-gram, Kneser-Ney']
    """
    check_baselines(names)
    pairs = 2 if any(name.startswith("bigram") for name in names) else 1
    ngrams = count_ngrams(ids, vocab=vocab, order=max([pairs, *(KNESER_NEY.get(name, 1) for name in names)]))

    def make(name: str) -> Predictor:
        match name:
            case "uniform":
                return Uniform(vocab)
            case "unigram":
                return Unigram(ngrams.levels[0].counts)
            case "bigram-counts":
                return Counted(ngrams, order=2, add=0.0)
            case "bigram-add":
                return Counted(ngrams, order=2, add=ADD)
            case _:
                return KneserNey(ngrams, order=KNESER_NEY[name])

    return [make(name) for name in dict.fromkeys(names)]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One predictor and what it cost."""

    name: str
    parameters: int
    evaluation: Evaluation


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Predictors on the same held-out tokens, the best first."""

    context: int
    counted: int
    """Tokens of the training part."""
    unigram_entropy: float
    bigram_entropy: float
    """H(X₂|X₁) of the training part: what counts of its pairs would lose on itself."""
    rows: tuple[Row, ...]

    @property
    def tokens(self) -> int:
        """How many each of them predicted."""
        return self.rows[0].evaluation.tokens

    def tables(self) -> tuple[Table, ...]:
        """For people: one row for each predictor, then the entropies of the training part."""
        columns = ("", "parameters#", "nats#", "±#", "perplexity#", "bits/byte#", "above H(X2|X1)#", "impossible#")
        title = f"{self.tokens:,} held-out tokens, in windows of {self.context:,}"
        counted = (
            ("tokens", f"{self.counted:,}"),
            ("H(X1)", f"{self.unigram_entropy:z.4f} nats"),
            ("H(X2|X1)", f"{self.bigram_entropy:z.4f} nats"),
        )
        return (
            Table(title=title, columns=columns, rows=tuple(map(self._words, self.rows))),
            Table(title="the training part", columns=("", ""), rows=counted),
        )

    def _words(self, row: Row) -> tuple[str, ...]:
        found = row.evaluation
        numbers = (found.nats, found.standard_error, found.perplexity, found.bits_per_byte, found.nats - self.bigram_entropy)
        nats, error, perplexity, bits, excess = (
            "–" if number is None else "∞" if math.isinf(number) else form.format(number)
            for number, form in zip(numbers, ("{:.4f}", "{:.4f}", "{:,.2f}", "{:.4f}", "{:+.4f}"), strict=True)
        )
        return row.name, f"{row.parameters:,}", nats, error, perplexity, bits, excess, f"{found.impossible:,}"

    def plain(self) -> dict[str, Any]:
        """For programs; what is infinite is null, and ``impossible`` says how many tokens had probability 0."""
        return {
            "tokens": self.tokens,
            "context": self.context,
            "counted": self.counted,
            "entropy": {"unigram": self.unigram_entropy, "bigram": self.bigram_entropy},
            "rows": [self._plain_row(row) for row in self.rows],
        }

    def _plain_row(self, row: Row) -> dict[str, Any]:
        found = row.evaluation
        return {
            "name": row.name,
            "parameters": row.parameters,
            "nats": _finite(found.nats),
            "standard_error": found.standard_error,
            "perplexity": _finite(found.perplexity),
            "bits_per_byte": _finite(found.bits_per_byte),
            "excess": _finite(found.nats - self.bigram_entropy),
            "impossible": found.impossible,
            "by_position": [_finite(nats) for nats in found.by_position],
        }

    def curves(self) -> tuple[Panel, ...]:
        """For a plot: the loss at the positions of a window, which falls where context helps."""
        groups = _doublings(len(self.rows[0].evaluation.by_position))
        x = tuple(sum(group) / len(group) + 1 for group in groups)
        lines = [
            Line(
                label=row.name,
                x=x,
                y=tuple(sum(row.evaluation.by_position[at] for at in group) / len(group) for group in groups),
            )
            for row in self.rows
            # One that learned nothing is a flat line far above the others, and an infinite one is no line.
            if row.parameters and not row.evaluation.impossible
        ]
        bound = Line(label="H(X2|X1)", x=x, y=(self.bigram_entropy,) * len(x), kind="bound")
        title = "loss by position, averaged between powers of two"
        return (Panel(title=title, x="tokens seen in the window", y="nats per token", lines=(*lines, bound), x_scale="log"),)


def _doublings(length: int) -> list[range]:
    """Positions in groups that double: single ones say little, since each window has one of each.

    >>> _doublings(6)
    [range(0, 1), range(1, 2), range(2, 4), range(4, 6)]
    """
    edges = [0, *(2**power for power in range(length.bit_length()) if 2**power < length), length]
    return [range(begin, end) for begin, end in pairwise(edges)]


def compare(
    predictors: Sequence[Predictor], corpus: Corpus, *, context: int, most: int | None = None, progress: Progress = silent
) -> Comparison:
    """Evaluate predictors, one after the other, on the same tokens that a corpus holds out (see ``evaluate``)."""
    sizes = bytes_of_tokens(corpus.tokenizer, corpus.tokenizer.size)
    rows: list[Row] = []
    for number, predictor in enumerate(predictors):

        def tell(done: int, tokens: int, name: str = predictor.name, before: int = number) -> None:
            progress(name, (before + done / tokens) / len(predictors))

        found = evaluate(predictor, corpus.held_out, context=context, token_bytes=sizes, most=most, progress=tell)
        rows.append(Row(name=predictor.name, parameters=predictor.parameters, evaluation=found))
    return Comparison(
        context=context,
        counted=len(corpus.train),
        unigram_entropy=entropy(corpus.unigrams),
        bigram_entropy=conditional_entropy(corpus.bigrams.first, corpus.bigrams.count),
        rows=tuple(sorted(rows, key=lambda row: row.evaluation.nats)),
    )


def _finite(number: float | None) -> float | None:
    return None if number is None or math.isinf(number) else number
