"""What the screen ``training`` computes, once for each snapshot: its files do not change."""

import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headwater.errors import InputError
from headwater.studio.errors import Refused, changed
from headwater.studio.memory import Known
from headwater.studio.stamps import stamp
from headwater.studio.work import Stop

if TYPE_CHECKING:
    from headwater.atlas.timeline import Said, Timeline
    from headwater.studio.training_log import Log, LogRead
    from headwater.text.corpus import Corpus
    from headwater.text.spoken import Spoken
    from headwater.train.baselines import Comparison
    from headwater.train.folder import RunFolder
    from headwater.train.history import History, Point
    from headwater.train.recipe import Recipe
    from headwater.train.studies.bigram import BigramStudy

Value = TypeVar("Value")
COUNTED = 60_000_000
"""Tokens of a text whose pairs and n-grams are counted while somebody waits."""
MOST_TOKENS = 200_000
"""Held-out tokens that baselines predict: as many as for ``headwater eval``."""


@dataclass(frozen=True)
class Looking:
    """What is known already, at how many snapshots more to look, the training's text, and when to end."""

    known: Known[Any]
    fresh: int | None
    """None: at all of them."""
    text: "Callable[[], Corpus | None]"
    """None until it is there."""
    stop: Stop


@dataclass(frozen=True)
class Kept:
    """A snapshot that has files."""

    step: int
    place: Path
    files: Hashable


@dataclass(frozen=True)
class Along(Generic[Value]):
    """Something along the snapshots that have been looked at."""

    steps: list[int]
    left: int
    value: Value | None


@dataclass(frozen=True)
class Compared:
    """A comparison, and by the names of its rows what they are."""

    comparison: "Comparison"
    kinds: dict[str, str]


def log_of(folder: "RunFolder", known: Known[Any]) -> "Log":
    """A training's log, which is read once for everybody."""
    from headwater.studio.training_log import Log

    return known.get(("log", folder), lambda: Log(folder))


def history(log: "Log", pause: Callable[[], object], most: int = sys.maxsize) -> "tuple[History, LogRead]":
    """A training as its folder tells it now, once at most so many pieces more of its log have been read."""
    from headwater.train.history import History

    try:
        # Asked first: a training that ends while the rest is read has then at least all that it had when it was asked.
        running, has_model = log.folder.is_running(), log.folder.model.is_dir()
        told, snapshots = log.read_on(pause, most), tuple(step for step, _ in log.folder.snapshots())
    except OSError as reason:
        raise Refused(409, f"a training that cannot be read ({reason.strerror})", "its folder", "check it") from None
    return History(recipe=told.recipe, points=told.points, running=running, has_model=has_model, snapshots=snapshots), told


def thin(points: "Sequence[Point]", most: int, *, full: bool) -> "Sequence[Point]":
    """As many points as are drawn; all of them where they are asked for, or an error."""
    from headwater.train.history import thinned

    if full and len(points) > most:
        raise Refused(413, f"a log of {len(points):,} lines", f"at most {most:,}", "read log.jsonl itself")
    return thinned(points, most)


def known_entropies(recipe: "Recipe", looking: Looking) -> dict[str, float]:
    """The entropies of the text; until it is there, or where it is too long, ``ln`` of the model's vocabulary, which may hold more than the text's tokens."""
    import math

    from headwater.train.history import entropies

    try:
        corpus = looking.text()
    except Refused as refused:
        if refused.status != 413:
            raise
        corpus = None
    if corpus is None or len(corpus.train) > COUNTED:
        return {"model_uniform": math.log(recipe.model.vocab)}
    found = looking.known.get(("entropies", _hashes(corpus)), lambda: entropies(corpus))
    return {"uniform": found.uniform, "unigram": found.unigram, "bigram": found.bigram}


def heads(folder: "RunFolder", recipe: "Recipe", looking: Looking) -> "Along[Timeline]":
    """Every head at the snapshots."""
    from headwater.atlas.timeline import snapshot_at, spoken_at, timeline_of

    _check_transformer(recipe, "the heads")
    if not recipe.model.layers:
        return Along([], 0, None)
    corpus, kept = _own_text(folder, recipe, looking), _kept(folder)
    found, left = _along(("heads",), kept, corpus, lambda step, place: snapshot_at(step, place, corpus, 0), looking)
    if not found:
        return Along([], left, None)
    value = timeline_of(str(folder.path), _at_rest(kept[-1], spoken_at), [snapshot for _, snapshot in found])
    return Along([step for step, _ in found], left, value)


def said(
    folder: "RunFolder", recipe: "Recipe", asked: tuple[str, int], looking: Looking
) -> "tuple[Spoken, Along[Sequence[tuple[Said, ...]]]]":
    """The strongest skip-trigrams of a head at the snapshots."""
    from headwater.atlas.timeline import said_at, spoken_at
    from headwater.circuits.head import find_head
    from headwater.text.spoken import Spoken

    _check_transformer(recipe, "the heads")
    head, top = find_head(asked[0], recipe.model), asked[1]
    corpus, kept = _own_text(folder, recipe, looking), _kept(folder)
    if not kept:
        return Spoken(None), Along([], 0, None)
    key = ("said", str(head), top)
    found, left = _along(key, kept, corpus, lambda _, place: said_at(place, corpus, head, top), looking)
    spoken = looking.known.get(("spoken", kept[-1].files), lambda: _at_rest(kept[-1], spoken_at))
    return spoken, Along([step for step, _ in found], left, [says for _, says in found])


def bigrams(folder: "RunFolder", recipe: "Recipe", often: int, looking: Looking) -> "Along[BigramStudy]":
    """The snapshots against the bigrams of the text."""
    from headwater.model.sources import load_weights, look
    from headwater.train.studies.bigram import fit, pairs_of, study_of

    _check_transformer(recipe, "the direct path")
    corpus = looking.text()
    if corpus is None:
        raise Refused(404, "a training whose text is not there yet", "its corpus", "wait until it has been read")
    key, vocab = ("pairs", recipe.model.vocab, _hashes(corpus)), recipe.model.vocab
    pairs = looking.known.get(key, lambda: pairs_of(corpus, vocab))

    def look_at(step: int, place: Path) -> Any:
        return fit(load_weights(look(place)), pairs, step=step, often=often, progress=looking.stop)

    found, left = _along(("bigrams", often), _kept(folder), corpus, look_at, looking)
    return Along([step for step, _ in found], left, study_of(recipe.model, pairs, [each for _, each in found], often=often))


def names_of(against: str) -> list[str]:
    """Names of baselines, each once."""
    from headwater.train.baselines import check_baselines

    return list(check_baselines(list(dict.fromkeys(name for each in against.split(",") if (name := each.strip())))))


def compared(recipe: "Recipe", names: list[str], network: "RunFolder | None", looking: Looking) -> Compared:
    """Baselines, and a recurrent network where one is given, on the held-out part of a training's text."""
    from headwater.train.baselines import compare, count_baselines
    from headwater.train.recurrent import Recurrent

    corpus = looking.text()
    if corpus is None or len(corpus.held_out) < 2:
        raise Refused(404, "a training without held-out text", "some that is held out", "wait until its text has been read")
    if len(corpus.train) > COUNTED:
        raise Refused(413, f"{len(corpus.train):,} tokens", f"at most {COUNTED:,}", "use headwater eval")
    if not names and network is None:
        raise InputError("no baseline", "one at least", "name one, such as trigram")
    other = Kept(0, network.model, _files(network.model)) if network else None

    def count() -> Compared:
        predictors: list[Any] = list(count_baselines(corpus.train, vocab=corpus.vocab, names=names)) if names else []
        kinds = dict(zip((each.name for each in predictors), names, strict=True))
        looking.stop()
        if other is not None:
            predictors.append(Recurrent(_at_rest(other, lambda place: _network(place, corpus))))
            kinds[predictors[-1].name] = "recurrent"
        comparison = compare(predictors, corpus, context=recipe.model.context, most=MOST_TOKENS, progress=looking.stop)
        return Compared(comparison, kinds)

    key = ("compared", tuple(names), recipe.model.context, _hashes(corpus), other)
    return looking.known.get(key, count)


def _network(place: Path, corpus: "Corpus") -> Any:
    from headwater.train.recurrent import load

    if not place.is_dir():
        raise Refused(404, "a recurrent network that is not there yet", "one that has been trained", "wait for its end")
    module, tokenizer = load(place)
    if tokenizer != corpus.tokenizer:
        raise InputError("a recurrent network with another tokenizer", "the training's own", "train it on the same corpus")
    return module


def _kept(folder: "RunFolder") -> list[Kept]:
    """The snapshots, but for those without a file, at which there will never be anything to look."""
    return [Kept(step, place, files) for step, place in folder.snapshots() if (files := _files(place))]


def _along(
    key: tuple[Hashable, ...],
    kept: list[Kept],
    corpus: "Corpus | None",
    look_at: Callable[[int, Path], Value],
    looking: Looking,
) -> tuple[list[tuple[int, Value]], int]:
    """What has been found at the snapshots, and at how many nothing has been looked for: the latest are looked at first."""
    text = _hashes(corpus) if corpus else ()
    left = len(kept) if looking.fresh is None else looking.fresh
    found: list[tuple[int, Value]] = []
    for each in reversed(kept):
        whole = (*key, each.files, text)
        if whole not in looking.known:
            if left == 0:
                continue
            left -= 1
        looking.stop()
        look = partial(look_at, each.step)
        found.append((each.step, looking.known.get(whole, lambda each=each, look=look: _at_rest(each, look))))
    return found[::-1], len(kept) - len(found)


def _at_rest(kept: Kept, look: Callable[[Path], Value]) -> Value:
    """What is read from a snapshot, unless its files became others meanwhile."""
    found = look(kept.place)
    if _files(kept.place) != kept.files:
        raise changed(f"the snapshot {kept.place.name}")
    return found


def _own_text(folder: "RunFolder", recipe: "Recipe", looking: Looking) -> "Corpus | None":
    """A training's text where it lies in its own folder: a timeline looks no further."""
    from headwater.train.history import corpus_place

    return looking.text() if corpus_place(folder.path, recipe) == folder.corpus else None


def _hashes(corpus: "Corpus") -> Hashable:
    """What a text is, wherever it lies: it was held against these."""
    return tuple(file.sha256 for file in corpus.manifest.files)


def _files(folder: Path) -> Hashable:
    try:
        return stamp(sorted(folder.iterdir())) if folder.is_dir() else ()
    except OSError:
        return ()


def _check_transformer(recipe: "Recipe", what: str) -> None:
    if recipe.architecture != "transformer":
        raise InputError(f"{what} of a recurrent network", "a transformer", "choose another training")
