"""What the screen ``training`` computes, once for each snapshot: its files do not change."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headwater.errors import InputError
from headwater.studio.errors import Refused
from headwater.studio.memory import Known
from headwater.studio.shelf import stamp
from headwater.studio.work import Stop

if TYPE_CHECKING:
    from headwater.atlas.timeline import Said, Timeline
    from headwater.text.corpus import Corpus
    from headwater.text.spoken import Spoken
    from headwater.train.baselines import Comparison
    from headwater.train.folder import RunFolder
    from headwater.train.history import History, Point
    from headwater.train.recipe import Recipe
    from headwater.train.studies.bigram import BigramStudy

Value = TypeVar("Value")
LOG_BYTES = 256 * 2**20
"""Of a log that is read."""
COUNTED = 60_000_000
"""Tokens of a text whose n-grams are counted while somebody waits."""
MOST_TOKENS = 200_000
"""Held-out tokens that baselines predict: as many as for ``headwater eval``."""


@dataclass(frozen=True)
class Looking:
    """What is known already, at how many snapshots more to look, and when to end."""

    known: Known[Any]
    fresh: int | None
    """None: at all of them."""
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


def history(folder: "RunFolder") -> "History":
    """A training as its folder tells it now."""
    from headwater.train.history import read_history

    try:
        size = folder.log.stat().st_size if folder.log.exists() else 0
        if size > LOG_BYTES:
            raise Refused(413, f"a log of {size:,} bytes", f"at most {LOG_BYTES:,}", "read it by headwater.train.history")
        return read_history(folder.path)
    except OSError as reason:
        raise Refused(409, f"a training that cannot be read ({reason.strerror})", "its folder", "check it") from None


def thin(points: "Sequence[Point]", most: int, *, full: bool) -> "Sequence[Point]":
    """As many points as are drawn; all of them where they are asked for, or an error."""
    from headwater.train.history import thinned

    if full and len(points) > most:
        raise Refused(413, f"a log of {len(points):,} lines", f"at most {most:,}", "read log.jsonl itself")
    return thinned(points, most)


def known_entropies(folder: "RunFolder", recipe: "Recipe", known: Known[Any]) -> dict[str, float]:
    """The entropies of the text; until it is there, ``ln`` of the model's vocabulary, which may hold more than the text's tokens."""
    import math

    from headwater.train.history import entropies

    corpus = _corpus(folder, recipe)
    if corpus is None:
        return {"model_uniform": math.log(recipe.model.vocab)}
    found = known.get(("entropies", _files(corpus.folder)), lambda: entropies(corpus))
    return {"uniform": found.uniform, "unigram": found.unigram, "bigram": found.bigram}


def heads(folder: "RunFolder", recipe: "Recipe", looking: Looking) -> "Along[Timeline]":
    """Every head at the snapshots."""
    from headwater.atlas.timeline import snapshot_at, spoken_at, timeline_of

    _check_transformer(recipe, "the heads")
    if not recipe.model.layers:
        return Along([], 0, None)
    corpus, kept = _corpus(folder, recipe, own=True), _kept(folder)
    found, left = _along(("heads",), kept, corpus, lambda step, place: snapshot_at(step, place, corpus, 0), looking)
    if not found:
        return Along([], left, None)
    value = timeline_of(str(folder.path), spoken_at(kept[-1].place), [snapshot for _, snapshot in found])
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
    corpus, kept = _corpus(folder, recipe, own=True), _kept(folder)
    if not kept:
        return Spoken(None), Along([], 0, None)
    key = ("said", str(head), top)
    found, left = _along(key, kept, corpus, lambda _, place: said_at(place, corpus, head, top), looking)
    spoken = looking.known.get(("spoken", kept[-1].files), lambda: spoken_at(kept[-1].place))
    return spoken, Along([step for step, _ in found], left, [says for _, says in found])


def bigrams(folder: "RunFolder", recipe: "Recipe", often: int, looking: Looking) -> "Along[BigramStudy]":
    """The snapshots against the bigrams of the text."""
    from headwater.model.sources import load_weights, look
    from headwater.train.studies.bigram import fit, pairs_of, study_of

    _check_transformer(recipe, "the direct path")
    corpus = _corpus(folder, recipe)
    if corpus is None:
        raise Refused(404, "a training whose text is not there yet", "its corpus", "wait until it has been read")
    key, vocab = ("pairs", recipe.model.vocab, _files(corpus.folder)), recipe.model.vocab
    pairs = looking.known.get(key, lambda: pairs_of(corpus, vocab))

    def look_at(step: int, place: Path) -> Any:
        return fit(load_weights(look(place)), pairs, step=step, often=often, progress=looking.stop)

    found, left = _along(("bigrams", often), _kept(folder), corpus, look_at, looking)
    return Along([step for step, _ in found], left, study_of(recipe.model, pairs, [each for _, each in found], often=often))


def names_of(against: str) -> list[str]:
    """Names of baselines, each once."""
    from headwater.train.baselines import check_baselines

    return list(check_baselines(list(dict.fromkeys(name for each in against.split(",") if (name := each.strip())))))


def compared(
    folder: "RunFolder", recipe: "Recipe", names: list[str], network: "RunFolder | None", looking: Looking
) -> Compared:
    """Baselines, and a recurrent network where one is given, on the held-out part of a training's text."""
    from headwater.train.baselines import compare, count_baselines
    from headwater.train.recurrent import Recurrent

    corpus = _corpus(folder, recipe)
    if corpus is None or len(corpus.held_out) < 2:
        raise Refused(404, "a training without held-out text", "some that is held out", "wait until its text has been read")
    if len(corpus.train) > COUNTED:
        raise Refused(413, f"{len(corpus.train):,} tokens", f"at most {COUNTED:,}", "use headwater eval")
    if not names and network is None:
        raise InputError("no baseline", "one at least", "name one, such as trigram")
    there = (_files(network.model),) if network else ()

    def count() -> Compared:
        predictors: list[Any] = list(count_baselines(corpus.train, vocab=corpus.vocab, names=names)) if names else []
        kinds = dict(zip((each.name for each in predictors), names, strict=True))
        looking.stop()
        if network is not None:
            predictors.append(Recurrent(_network(network, corpus)))
            kinds[predictors[-1].name] = "recurrent"
        comparison = compare(predictors, corpus, context=recipe.model.context, most=MOST_TOKENS, progress=looking.stop)
        return Compared(comparison, kinds)

    key = ("compared", tuple(names), recipe.model.context, _files(corpus.folder), *there)
    return looking.known.get(key, count)


def _network(folder: "RunFolder", corpus: "Corpus") -> Any:
    from headwater.train.recurrent import load

    if not folder.model.is_dir():
        raise Refused(404, "a recurrent network that is not there yet", "one that has been trained", "wait for its end")
    module, tokenizer = load(folder.model)
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
    text = _files(corpus.folder) if corpus else ()
    left = len(kept) if looking.fresh is None else looking.fresh
    found: list[tuple[int, Value]] = []
    for each in reversed(kept):
        whole = (*key, each.files, text)
        if whole not in looking.known:
            if left == 0:
                continue
            left -= 1
        looking.stop()
        found.append((each.step, looking.known.get(whole, lambda each=each: look_at(each.step, each.place))))
    return found[::-1], len(kept) - len(found)


def _corpus(folder: "RunFolder", recipe: "Recipe", *, own: bool = False) -> "Corpus | None":
    """A training's text; with ``own`` only where it lies in its own folder, since a timeline looks no further."""
    from headwater.train.history import corpus_of

    if own and not folder.corpus.is_dir():
        return None
    try:
        return corpus_of(folder.path, recipe)
    except OSError as reason:
        raise Refused(409, f"a text that cannot be read ({reason.strerror})", "the training's corpus", "check it") from None


def _files(folder: Path) -> Hashable:
    try:
        return stamp(sorted(folder.iterdir())) if folder.is_dir() else ()
    except OSError:
        return ()


def _check_transformer(recipe: "Recipe", what: str) -> None:
    if recipe.architecture != "transformer":
        raise InputError(f"{what} of a recurrent network", "a transformer", "choose another training")
