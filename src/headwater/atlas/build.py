"""An atlas from a model: plan, tasks, what is said about the whole, evidence, and the record that it is finished.

Whatever is killed in between goes on where it was when the same is asked again, and ends in the same bytes.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from headwater.atlas import against_text, joins
from headwater.atlas.begun import begun, plan_in
from headwater.atlas.engines import Engine, Local
from headwater.atlas.evidence import bigram_likelihoods
from headwater.atlas.manifest import FORMAT, MANIFEST, WORK, Manifest, commit, libraries, read_manifest
from headwater.atlas.order import CorpusUse, Order, Plan, model_hash, subject_of, weights_at
from headwater.atlas.settings import NormScale, Settings
from headwater.atlas.subject import DIRECT
from headwater.atlas.summary import choices_for, document, summaries
from headwater.atlas.tasks import Task, stages
from headwater.circuits.head import every_head, find_head
from headwater.circuits.norms import mean_scales
from headwater.errors import InputError
from headwater.files.atomic import write_file
from headwater.files.safetensors import read_tensors
from headwater.files.tables import read_table, write_table
from headwater.model.config import ModelConfig, NoNorm, RotaryPositions
from headwater.model.sources import look
from headwater.model.weights import Weights
from headwater.settings import to_plain
from headwater.show.values import Progress, silent
from headwater.text.corpus import Corpus
from headwater.text.spoken import Spoken
from headwater.text.tokenizer import Tokenizer, read_tokenizer

MEASURED_WINDOWS = 32
"""Windows of text that norms' mean scales are from."""
SEARCHED = 4
"""Windows of training text that bugs are looked for in, for each window of held-out text."""
MOST_WINDOW = 1024


@dataclass(frozen=True, kw_only=True)
class AtlasChoices:
    """What a person chooses about an atlas; ``headwater.atlas.settings.Settings`` says what each changes, the rest follows from model and text."""

    k: int = 16
    triples: int = 1000
    each: int = 4
    others: int | None = None
    basis: Literal["tokens", "effective-tokens"] = "tokens"
    offset: int = 0
    rows: int = 65_536
    windows: int = 256
    """Windows of text that the evidence is from."""
    part: Literal["held-out", "train"] = "held-out"
    """Which part of the corpus they are of."""
    device: str = "cpu"


def build_atlas(  # noqa: PLR0913  (of what, where to, how, against which text, by whom)
    model: str | Path,
    folder: str | Path,
    chosen: AtlasChoices | None = None,
    *,
    corpus: Corpus | None = None,
    engine: Engine | None = None,
    overwrite: bool = False,
    progress: Progress = silent,
) -> Manifest:
    """Write the tables of a model to a folder, or finish what is missing there."""
    chosen, folder = chosen or AtlasChoices(), Path(folder).absolute()
    place = str(look(model).path.absolute())
    weights_at.cache_clear()
    weights, words = weights_at(place), _words(model)
    plan = _plan(weights, words, chosen, corpus, plan_in(folder))
    order = Order(plan, place, str(folder), _device(chosen.device))
    with begun(order, overwrite=overwrite):
        if not (folder / MANIFEST).exists():
            _work(order, words, corpus, engine or Local(), progress)
            model_facts = {"name": str(model), "sha256": plan.model, "config": to_plain(weights.config)}
            commit(
                folder,
                model=model_facts,
                settings=to_plain(plan.settings),
                plan={"sha256": plan.sha256, "starts": order.starts, "edges": order.edges, "corpus": to_plain(plan.corpus)},
                heads=plan.heads,
                vocab=plan.vocab,
            )
        shutil.rmtree(folder / WORK)
    return read_manifest(folder)


def _device(name: str) -> str:
    """A device that is there: one that is not is refused before anything is begun."""
    try:
        torch.zeros(1, device=name).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as reason:
        words = str(reason).split("\n")[0]
        raise InputError(
            f"the device {name!r:.40} ({words:.120})", "one that torch has here", "use cpu, or cuda where it is"
        ) from None
    return name


def _words(model: str | Path) -> Tokenizer | None:
    source = look(model)
    return read_tokenizer(source.words) if source.words else None


def _plan(weights: Weights, words: Tokenizer | None, chosen: AtlasChoices, corpus: Corpus | None, before: Plan | None) -> Plan:
    config, model, use = weights.config, model_hash(weights), _use(weights, chosen, corpus) if corpus else None
    # Measured once: another number of threads may give another last digit.
    is_measured = before is not None and (before.model, before.corpus) == (model, use)
    scales = before.settings.scales if before and is_measured else _scales(weights, corpus) if corpus else ()
    return Plan(
        format=FORMAT,
        model=model,
        words=words.sha256 if words else None,
        vocab=config.vocab,
        heads=tuple(map(str, every_head(config))) if config.layers else (),
        settings=_settings(config, chosen, scales),
        corpus=use,
        libraries=tuple(f"{name} {version}" for name, version in libraries().items()),
    )


def _settings(config: ModelConfig, chosen: AtlasChoices, scales: tuple[NormScale, ...]) -> Settings:
    if chosen.offset and not isinstance(config.positions, RotaryPositions):
        raise InputError(f"an offset of {chosen.offset} without rotary positions", "scores that depend on it", "leave it out")
    if chosen.basis == "effective-tokens" and config.feed_forward is None:
        raise InputError("effective tokens of a model without feed-forward layers", "what they are made by", "use tokens")
    return Settings(
        others=max(1, config.context - 1) if chosen.others is None else chosen.others,
        k=min(chosen.k, config.vocab),
        triples=chosen.triples,
        each=min(chosen.each, config.vocab),
        basis=chosen.basis,
        offset=chosen.offset,
        norms="the corpus' mean scale" if scales else "one",
        scales=scales,
        rows=chosen.rows,
    )


def _scales(weights: Weights, corpus: Corpus) -> tuple[NormScale, ...]:
    """What norms divide by, on average over some of the text."""
    if isinstance(weights.config.norm, NoNorm):
        return ()
    tokens = against_text.windows(corpus.train, _window(weights), MEASURED_WINDOWS)
    if not len(tokens):
        given = f"a corpus of {len(corpus.train):,} tokens"
        raise InputError(given, f"at least one window of {_window(weights)}", "give more text")
    measured = mean_scales(weights, torch.from_numpy(tokens)).values
    return tuple(NormScale(site=site, value=float(f"{value:.6g}")) for site, value in sorted(measured.items()))


def _window(weights: Weights) -> int:
    return min(weights.config.context, MOST_WINDOW)


def _use(weights: Weights, chosen: AtlasChoices, corpus: Corpus) -> CorpusUse:
    digests = {file.name: file.sha256 for file in corpus.manifest.files}
    window, text = _window(weights), against_text.part_of(corpus, chosen.part)
    if min(chosen.windows, len(text) // window) < 1:
        given = f"{chosen.windows} windows of a {chosen.part} text of {len(text):,} tokens"
        raise InputError(given, f"at least one window of {window} tokens", "give more text, or take the other part")
    return CorpusUse(
        tokenizer=corpus.manifest.tokenizer,
        tokens=corpus.manifest.train.tokens,
        sha256=f"{digests['train.bin']}{digests['held_out.bin']}",
        part=chosen.part,
        windows=min(chosen.windows, len(text) // window),
        searched=min(SEARCHED * chosen.windows, len(corpus.train) // window),
        window=window,
    )


def _work(order: Order, words: Tokenizer | None, corpus: Corpus | None, engine: Engine, progress: Progress) -> None:
    """Everything that is missing but the manifest."""
    if not order.path("vocab.parquet").exists():
        _write_vocabulary(order, words, corpus)
    todo = [[task for task in stage if not task.is_done(order)] for stage in stages(order)]
    if any(todo):
        _do(order, todo, engine, progress)
    steps = {
        f"lines/{DIRECT}.safetensors": lambda: joins.write_lines(order, DIRECT),
        "bigrams.parquet": lambda: _write_bigrams(order, corpus),
        "strongest.parquet": lambda: joins.write_all_strongest(order),
        "heads.json": lambda: _write_summaries(order),
    }
    if not order.plan.heads:
        del steps["strongest.parquet"]
    if corpus is not None and order.plan.heads:
        write, last = against_text.write, against_text.FILES[-1]
        steps[last] = lambda: write(order, corpus, lambda share: progress("evidence", 0.84 + 0.16 * share))
    for number, (name, step) in enumerate(steps.items()):
        progress(name, 0.8 + 0.01 * number)
        if not order.path(name).exists():
            order.path(name).parent.mkdir(exist_ok=True)
            step()


def _do(order: Order, todo: list[list[Task]], engine: Engine, progress: Progress) -> None:
    """Stage after stage."""
    total, done = sum(map(len, todo)), 0
    with engine.start(order) as do:
        for stage in todo:
            for task in do(stage):
                done += 1
                progress(task.kind, 0.8 * done / total)


def _write_vocabulary(order: Order, words: Tokenizer | None, corpus: Corpus | None) -> None:
    """Every token's text, and how often it occurs; without a corpus every token is as likely as every other."""
    vocab, spoken = order.plan.vocab, Spoken(words)
    count = np.zeros(vocab, np.int64)
    if corpus is not None:
        count[: len(corpus.unigrams)] = corpus.unigrams
    share = count / count.sum() if count.sum() else np.full(vocab, 1 / vocab)
    ids = range(vocab)
    write_table(
        order.path("vocab.parquet"),
        {
            "id": np.arange(vocab, dtype=np.uint32),
            "text": [spoken.text(token) for token in ids],
            "shown": [spoken(token) for token in ids],
            "count": count,
            "share": share,
        },
    )


def _write_bigrams(order: Order, corpus: Corpus | None) -> None:
    """What the direct path says, with what it alone would give each out, and with the corpus' log-likelihood beside it."""
    rows = read_table(order.parts(f"{WORK}/says", DIRECT))
    normaliser = read_tensors(order.path(f"lines/{DIRECT}.safetensors"))["log_normaliser"].numpy()
    rows["token"] = rows.pop("source")
    rows = {name: rows[name] for name in ("token", "place", "out", "output")}
    rows["log_share"] = rows["output"] - normaliser[rows["token"]]
    if corpus is not None:
        rows |= bigram_likelihoods(corpus.bigrams, rows["token"], rows["out"])
    write_table(order.path("bigrams.parquet"), rows)


def _write_summaries(order: Order) -> None:
    subject = subject_of(order)
    own = {
        find_head(name, subject.config): read_tensors(order.path(f"lines/{name}.safetensors"))["own_rank"]
        for name in order.plan.heads
    }
    with torch.no_grad():
        write_file(order.path("heads.json"), document(summaries(subject.weights, choices_for(subject, own))))
