"""``headwater eval``: how well a model predicts held-out text, and how well simpler things do."""

import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from headwater.cli.plots import check_plot, draw
from headwater.cli.terminal import show_json, show_table, use_cores, working
from headwater.errors import InputError

if TYPE_CHECKING:
    from headwater.api import Model
    from headwater.text.corpus import Corpus
    from headwater.text.tokenizer import Tokenizer
    from headwater.train.baselines import Comparison
    from headwater.train.predictors import Predictor
    from headwater.train.studies.result import Progress


def evaluate(  # noqa: PLR0913  (each is one choice a person makes on the command line)
    model: Path,
    /,
    *,
    text: Annotated[list[str] | None, Parameter(negative="", consume_multiple=True)] = None,
    corpus: Path | None = None,
    against: Annotated[list[str] | None, Parameter(negative="", consume_multiple=True)] = None,
    recurrent: Path | None = None,
    context: int | None = None,
    most: int = 200_000,
    json: bool = False,
    plot: Path | None = None,
) -> None:
    """Measure a model's loss on held-out text, and that of baselines on the same tokens.

    The baselines are counted on the rest of the text. The table has nats per token with their standard error, perplexity, bits per
    byte, and what lies above H(X2|X1), the conditional entropy of the training part's pairs.

    Parameters
    ----------
    model
        A model's file or folder, in any format that Headwater reads.
    text
        Files, folders or patterns to read; part of them is held out.
    corpus
        The folder of a corpus that was built with the model's tokenizer.
    against
        The baselines: uniform, unigram, bigram-counts, bigram-add, and with Kneser-Ney smoothing bigram, trigram, 4-gram … 9-gram.
        Unless said otherwise all but some of the longest.
    recurrent
        The folder of a trained recurrent network, to compare with too.
    context
        Tokens in a window; the model's context unless said otherwise.
    most
        How many tokens to predict at the most.
    json
        Print one JSON document instead of tables.
    plot
        Draw the loss by position to a file: .svg, .png or .pdf.
    """
    from headwater.api import load
    from headwater.train.baselines import USUAL, check_baselines

    names = check_baselines(against or USUAL)
    if plot is not None:
        check_plot(plot)
    use_cores()
    with working(f"reading {model}"):
        loaded = load(model)
    length = _length(context, loaded.config.context)
    with _opened(loaded, text, corpus) as opened:
        predictors = _predictors(loaded, opened, names, recurrent)
        comparison = _compare(predictors, opened, length, most)
    if plot is not None:
        draw(comparison.curves(), plot)
    if json:
        show_json({"model": str(model), **comparison.plain()})
        return
    for number, table in enumerate(comparison.tables()):
        show_table(table.columns, table.rows, title="\n" * bool(number) + table.title)


def _length(asked: int | None, most: int) -> int:
    if asked is not None and not 1 <= asked <= most:
        raise InputError(f"--context {asked}", f"1 to {most:,}, the model's context", "change --context")
    return asked or most


@contextmanager
def _opened(model: "Model", text: list[str] | None, folder: Path | None) -> "Generator[Corpus]":
    """The text to evaluate on: a corpus as it is, or files as a corpus that is gone afterwards."""
    from headwater.text.corpus import build_corpus, open_corpus
    from headwater.text.sources import Files

    if (text is None) == (folder is None):
        given = "neither a text nor a corpus" if text is None else "both a text and a corpus"
        raise InputError(given, "one of them", "give --text FILE or --corpus DIR")
    if folder is not None:
        opened = open_corpus(folder)
        _check_words(opened.tokenizer, model, f"{folder}")
        yield opened
        return
    if model.tokenizer is None:
        raise InputError("a text for a model without a tokenizer", "a tokenizer.json beside the model", "give --corpus DIR")
    with tempfile.TemporaryDirectory(prefix="headwater-") as temporary:
        with _watched("reading") as tell:
            built = build_corpus(
                Files(paths=tuple(text or ())),
                model.tokenizer,
                Path(temporary) / "corpus",
                progress=lambda done, total: tell("reading", done / total if total else 0.0),
            )
        yield built


def _check_words(tokenizer: "Tokenizer", model: "Model", place: str) -> None:
    """Ids mean the same to both: the same tokenizer, or, for a model that has none, as many tokens as it has at the most."""
    if model.tokenizer is None and tokenizer.size <= model.config.vocab:
        return
    if tokenizer != model.tokenizer:
        raise InputError(f"{place} was made with another tokenizer", "the model's own", "build or train it again with that one")


def _predictors(model: "Model", corpus: "Corpus", names: Sequence[str], recurrent: Path | None) -> "list[Predictor]":
    from headwater.train.baselines import count_baselines
    from headwater.train.predictors import Transformer
    from headwater.train.recurrent import Recurrent, load

    predictors: list[Predictor] = [Transformer(model.weights, "the model")]
    if recurrent is not None:
        network, tokenizer = load(recurrent / "model" if (recurrent / "model").is_dir() else recurrent)
        _check_words(tokenizer, model, f"{recurrent}")
        predictors.append(Recurrent(network))
    with working(f"counting {len(corpus.train):,} tokens"):
        return [*predictors, *count_baselines(corpus.train, vocab=corpus.vocab, names=names)]


def _compare(predictors: "list[Predictor]", corpus: "Corpus", context: int, most: int) -> "Comparison":
    from headwater.train.baselines import compare

    with _watched("predicting") as tell:
        return compare(predictors, corpus, context=context, most=most, progress=tell)


@contextmanager
def _watched(what: str) -> "Generator[Progress]":
    """A bar on stderr; gone when the work is done, so that it does not stand between tables."""
    from rich.console import Console
    from rich.progress import Progress as Bars

    with Bars(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(what, total=1.0)
        yield lambda name, share: bars.update(task, description=name, completed=share)
