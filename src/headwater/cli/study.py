"""``headwater study``: experiments on training, each a table, a JSON document and a plot."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from headwater.cli.terminal import Flag, Whole, show_json, show_table, use_cores, watched
from headwater.cli.trained import opened
from headwater.errors import InputError
from headwater.show.plots import check_plot, draw
from headwater.train.own_text import text_source

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from headwater.show.values import Result
    from headwater.text.corpus import Corpus
    from headwater.text.planted import PlantedLanguage
    from headwater.train.plan import Plan

study = App(name="study", help="Experiments on training: what models learn, and when.")

Paths = Annotated[list[str] | None, Parameter(negative="", consume_multiple=True)]
Numbers = Annotated[list[Whole] | None, Parameter(negative="", consume_multiple=True)]


@study.command
def bigram(  # noqa: PLR0913  (each is one choice a person makes on the command line)
    model: Path | None = None,
    /,
    *,
    text: Paths = None,
    corpus: Path | None = None,
    often: Whole = 1000,
    d_model: Whole | None = None,
    steps: Whole = 600,
    seed: Whole = 0,
    json: Flag = False,
    plot: Path | None = None,
) -> None:
    """Hold a model's W_E W_U against the bigrams of its text.

    A zero-layer model is W_E W_U, and learns ln p(next | present) up to a constant for each present token. Shown are its loss above
    H(X2|X1), the divergence of its rows, the correlation of its logits with ln p, and what it gives to pairs that never occur.
    Without a model, a zero-layer one is trained on the bytes of a text.

    Parameters
    ----------
    model
        A run's folder, of which all snapshots are shown; or a model's file or folder.
    text
        Files, folders or patterns, instead of the run's own text or Python's standard library.
    corpus
        The folder of a corpus that was built with the model's tokenizer.
    often
        How often a token must be seen for its row to count in the mean divergence.
    d_model
        The width of the model that is trained; as wide as the vocabulary unless said otherwise.
    steps
        Updates of the model that is trained.
    seed
        Of the first weights and the order of the text.
    json
        Print one JSON document instead of tables.
    plot
        Draw the curves to a file: .svg, .png or .pdf.
    """
    _prepare(plot)
    from headwater.train.studies import bigram
    from headwater.train.studies.pairs import Pairs
    from headwater.train.studies.small_text import read_bytes

    with watched("bigrams") as progress:
        if model is None:
            ids, vocab = read_bytes(text_source(text))
            plan = _zero_layer_plan(steps, seed)
            result = bigram.train_and_run(ids, vocab, plan, d_model=d_model or vocab, often=often, progress=progress)
        else:
            with opened(model, text, corpus, progress) as trained:
                counts = trained.corpus.bigrams
                pairs = Pairs.sparse(trained.config.vocab, counts.first, counts.second, counts.count)
                result = bigram.run(trained.snapshots(), pairs, often=often, progress=progress)
    _tell(result, json=json, plot=plot)


@study.command
def rank(  # noqa: PLR0913  (each is one choice a person makes on the command line)
    *,
    text: Paths = None,
    widths: Numbers = None,
    often: Whole = 1000,
    steps: Whole = 600,
    seed: Whole = 0,
    json: Flag = False,
    plot: Path | None = None,
) -> None:
    """Loss of zero-layer models against their width d, beside what rank d allows.

    Trained on the bytes of a text. Also shown: the distance of the probabilities from the text's, with the bound that holds for it, the
    width that a precision takes, and why the number of large singular values of P is no lower bound of it.

    Parameters
    ----------
    text
        Files, folders or patterns, instead of Python's standard library.
    widths
        The widths to try; 1, 2, 4, 8, 16, 24, 32, 48 … and the vocabulary unless said otherwise.
    often
        How often a token must be seen for its row to count in the distance.
    steps
        Updates of each model that is trained.
    seed
        Of the first weights and the order of the text.
    json
        Print one JSON document instead of tables.
    plot
        Draw the curves to a file: .svg, .png or .pdf.
    """
    _prepare(plot)
    from headwater.train.studies import rank
    from headwater.train.studies.small_text import read_bytes

    ids, vocab = read_bytes(text_source(text))
    with watched("widths") as progress:
        plan = _zero_layer_plan(steps, seed)
        result = rank.run(ids, vocab, plan, widths=widths, often=often, progress=progress)
    _tell(result, json=json, plot=plot)


@study.command
def gradients(  # noqa: PLR0913  (each is one choice a person makes on the command line)
    model: Path | None = None,
    /,
    *,
    text: Paths = None,
    corpus: Path | None = None,
    steps: Whole = 600,
    seed: Whole = 0,
    json: Flag = False,
    plot: Path | None = None,
) -> None:
    """Where gradients go: along paths, through depth, through the softmax of attention.

    Paths: the cosine between the gradients of W_E and W_U through the direct path and through the layers. Depth: how gradients grow or
    vanish in plain, residual, pre-norm and post-norm stacks before training. Softmax: its derivative against d_k, scaled and not.
    Without a model, a one-layer one is trained on the bytes of a text.

    Parameters
    ----------
    model
        A run's folder, of which all snapshots are shown; or a model's file or folder. It must have layers and no norms.
    text
        Files, folders or patterns, instead of the run's own text or Python's standard library.
    corpus
        The folder of a corpus that was built with the model's tokenizer.
    steps
        Updates of the model that is trained.
    seed
        Of the first weights, the stacks and the order of the text.
    json
        Print one JSON document instead of tables.
    plot
        Draw the curves to a file: .svg, .png or .pdf.
    """
    _prepare(plot)
    from headwater.train.batches import Batches
    from headwater.train.plan import Plan
    from headwater.train.studies import gradients
    from headwater.train.studies.small_text import read_bytes

    with watched("gradients") as progress:
        if model is None:
            ids, vocab = read_bytes(text_source(text))
            plan = Plan(steps=steps, batch=32, learning_rate=3e-3, warmup=50, seed=seed)
            context = gradients.one_layer(vocab).context
            batches = Batches(ids=ids, vocab=vocab, context=context, batch=16, seed=seed + 1)
            snapshots = gradients.train_one_layer(ids, vocab, plan, progress)
            result = gradients.run(snapshots, batches, seed=seed, progress=progress)
        else:
            with opened(model, text, corpus, progress) as trained:
                config = trained.config
                batch = max(1, 1024 // config.context)
                batches = Batches(
                    ids=trained.corpus.train, vocab=config.vocab, context=config.context, batch=batch, seed=seed + 1
                )
                result = gradients.run(trained.snapshots(), batches, seed=seed, progress=progress)
    _tell(result, json=json, plot=plot)


@study.command
def recall(*, farthest: Whole = 64, steps: Whole = 200, seed: Whole = 0, json: Flag = False, plot: Path | None = None) -> None:
    """Who can look back: a key, a gap of words that mean nothing, a question, and the key again.

    n-grams, a recurrent network, and models of zero, one and two layers are trained on the same windows and asked at every gap.

    Parameters
    ----------
    farthest
        The longest gap.
    steps
        Updates of each model that is trained.
    seed
        Of the first weights and the windows.
    json
        Print one JSON document instead of tables.
    plot
        Draw the curves to a file: .svg, .png or .pdf.
    """
    _prepare(plot)
    from dataclasses import replace

    from headwater.text.recall import RecallTask
    from headwater.train.studies import recall

    with watched("recall") as progress:
        plan = replace(recall.USUAL, steps=steps, seed=seed)
        result = recall.run(RecallTask(farthest=farthest), plan, progress=progress)
    _tell(result, json=json, plot=plot)


@study.command
def planted(
    run: Path | None = None,
    /,
    *,
    steps: Whole = 3000,
    seed: Whole = 0,
    json: Flag = False,
    plot: Path | None = None,
) -> None:
    """What a one-layer model finds of a planted language, whose every rule is known.

    Shown is how many of the planted skip-trigrams have their output among the words that the source lifts most. Without a run, a model
    is trained on a language of its own.

    Parameters
    ----------
    run
        The folder of a run that was trained on a planted language; all of its snapshots are shown.
    steps
        Updates of the model that is trained.
    seed
        Of the language, the first weights and the order of the text.
    json
        Print one JSON document instead of tables.
    plot
        Draw the curves to a file: .svg, .png or .pdf.
    """
    _prepare(plot)
    from headwater.text.planted import PlantedLanguage
    from headwater.train.plan import Plan
    from headwater.train.studies import planted

    with watched("planted") as progress:
        if run is None:
            language = PlantedLanguage(seed=seed)
            plan = Plan(steps=steps, batch=32, learning_rate=5e-3, warmup=100, seed=seed)
            result = planted.train_and_run(language, planted.one_layer(language), plan, progress=progress)
        else:
            with opened(run, None, None, progress) as trained:
                result = planted.run(trained.snapshots(), _language(trained.corpus), progress=progress)
    _tell(result, json=json, plot=plot)


@study.command
def induction(model: Path, /, *, sequences: Whole = 16, seed: Whole = 0, json: Flag = False, plot: Path | None = None) -> None:
    """Which heads find what followed last time: random tokens, twice.

    Parameters
    ----------
    model
        A model's file or folder, or a run's.
    sequences
        How many to look at.
    seed
        Of the random tokens.
    json
        Print one JSON document instead of tables.
    plot
        Draw the loss by position to a file: .svg, .png or .pdf.
    """
    _prepare(plot)
    from headwater.api import load
    from headwater.train.studies import induction

    with watched("induction") as progress:
        result = induction.run(load(model).weights, sequences=sequences, seed=seed, progress=progress)
    _tell(result, json=json, plot=plot)


@study.command
def terms(  # noqa: PLR0913  (each is one choice a person makes on the command line)
    model: Path,
    /,
    *,
    text: Paths = None,
    corpus: Path | None = None,
    windows: Whole = 16,
    seed: Whole = 0,
    json: Flag = False,
    plot: Path | None = None,
) -> None:
    """What the paths through no head, one head, two heads … are worth in nats; then each layer and each head.

    With attention patterns (norm scales, gates) held fixed, the logits are an exact sum over paths. Shown is the loss of that sum with some of
    them left out, and beside it what happens when heads are removed and all else is free to change.

    Parameters
    ----------
    model
        A model's file or folder, in any format that Headwater reads; a run's folder; or the name of one of ours.
    text
        Files, folders or patterns, all of which is read, instead of what was held out of the model's own text.
    corpus
        The folder of a corpus that was built with the model's tokenizer.
    windows
        How many stretches of the text, as long as the model's context, to look at.
    seed
        Of the places where they begin.
    json
        Print one JSON document instead of tables.
    plot
        Draw the curves to a file: .svg, .png or .pdf.
    """
    if windows < 1:
        raise InputError(f"--windows {windows}", "at least one", "change --windows")
    _prepare(plot)
    from headwater.api import load
    from headwater.trace import terms

    with watched("terms") as progress, opened(model, text, corpus, progress) as trained:
        there = trained.corpus
        ids = there.held_out if len(there.held_out) else there.train
        weights = load(model).weights
        result = terms.study(weights, _windows(ids, weights.config.context, windows, seed), progress=progress)
    _tell(result, json=json, plot=plot)


def _windows(ids: "NDArray[Any]", context: int, count: int, seed: int) -> "Tensor":
    """Stretches of a text that begin anywhere, each a context and the token after it."""
    import numpy as np
    import torch

    length = min(context + 1, len(ids))
    starts = np.random.default_rng(seed).integers(0, len(ids) - length + 1, count)
    return torch.from_numpy(np.stack([ids[start : start + length] for start in starts]).astype(np.int64))


def _language(corpus: "Corpus") -> "PlantedLanguage":
    from headwater.text.sources import Planted

    source = corpus.manifest.source
    if not isinstance(source, Planted):
        raise InputError(
            "a run on a text that was not planted", "one whose rules are known", "train one with the recipe planted"
        )
    return source.language


def _prepare(plot: Path | None) -> None:
    if plot is not None:
        check_plot(plot)
    use_cores()


def _zero_layer_plan(steps: int, seed: int) -> "Plan":
    from headwater.train.plan import Plan

    return Plan(steps=steps, batch=128, learning_rate=0.03, warmup=20, final_rate=0.01, beta_2=0.99, seed=seed)


def _tell(result: "Result", *, json: bool, plot: Path | None) -> None:
    if plot is not None:
        draw(result.curves(), plot)
    if json:
        show_json(result.plain())
        return
    for number, table in enumerate(result.tables()):
        show_table(table.columns, table.rows, title="\n" * bool(number) + table.title.strip() or None)
