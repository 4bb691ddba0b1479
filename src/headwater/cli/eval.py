"""``headwater eval``: how well a model predicts held-out text, and how well simpler things do."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from headwater.cli.terminal import Flag, Whole, show_json, show_table, use_cores, watched, working
from headwater.errors import InputError
from headwater.show.plots import check_plot, draw
from headwater.train.own_text import HELD_OUT, Wanted, check_words, corpus_for

if TYPE_CHECKING:
    from headwater.api import Model
    from headwater.text.corpus import Corpus
    from headwater.train.predictors import Predictor


def evaluate(  # noqa: PLR0913  (each is one choice a person makes on the command line)
    model: Path,
    /,
    *,
    text: Annotated[list[str] | None, Parameter(negative="", consume_multiple=True)] = None,
    corpus: Path | None = None,
    against: Annotated[list[str] | None, Parameter(negative="", consume_multiple=True)] = None,
    recurrent: Path | None = None,
    context: Whole | None = None,
    most: Whole = 200_000,
    json: Flag = False,
    plot: Path | None = None,
) -> None:
    """Measure a model's loss on held-out text, and that of baselines on the same tokens.

    The baselines are counted on the rest of the text. The table has nats per token with their standard error, perplexity, bits per
    byte, and what lies above H(X2|X1), the conditional entropy of the training part's pairs.

    Parameters
    ----------
    model
        A model's file or folder, in any format that Headwater reads; a run's folder; or the name of one of ours.
    text
        Files, folders or patterns to read, instead of the text the model was trained on; part of them is held out.
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
    from headwater.train.baselines import USUAL, check_baselines, compare

    names = check_baselines(against or USUAL)
    if plot is not None:
        check_plot(plot)
    use_cores()
    with working(f"reading {model}"):
        loaded = load(model)
    length = _length(context, loaded.config.context)
    with watched("reading the text") as tell, corpus_for(model, Wanted(text, corpus, HELD_OUT), tell) as opened:
        predictors = _predictors(loaded, opened, names, recurrent)
        comparison = compare(predictors, opened, context=length, most=most, progress=tell)
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


def _predictors(model: "Model", corpus: "Corpus", names: Sequence[str], recurrent: Path | None) -> "list[Predictor]":
    from headwater.train.baselines import count_baselines
    from headwater.train.predictors import Transformer
    from headwater.train.recurrent import Recurrent, load

    predictors: list[Predictor] = [Transformer(model.weights, "the model")]
    if recurrent is not None:
        network, tokenizer = load(recurrent / "model" if (recurrent / "model").is_dir() else recurrent)
        check_words(tokenizer, model.tokenizer, model.config.vocab, f"{recurrent}")
        predictors.append(Recurrent(network))
    return [*predictors, *count_baselines(corpus.train, vocab=corpus.vocab, names=names)]
