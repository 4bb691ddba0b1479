# pyright: basic
# A job may return anything.
"""The atlas of the reference model one-layer as a person has it made: built from weights and held against its text, opened, searched."""

import atexit
import shutil
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path

from headwater.bench.contest import contest
from headwater.bench.goals import Table, at_most, beside, shown
from headwater.bench.phases import functions

NAME, ROUNDS = "one-layer", 1
TITLE = "One-layer atlas: the reference model one-layer (4,096 tokens, 8 heads), all settings as they are unless told otherwise"
TEXT, ALONE, BUILT = "its text, read and encoded", "built from weights alone", "built, and held against its text"
OPENED, SEARCHED = "opened", "searched: source = X, the 100 of largest lift"
ASKED = 20
"""Searches in a turn."""


def table(rounds: int) -> Table:
    with tempfile.TemporaryDirectory() as folder:
        corpus, atlas = f"{folder}/corpus", f"{folder}/atlas"
        results = contest({TEXT: f"one_layer:text:{corpus}"}, 1)
        results |= contest({ALONE: f"one_layer:build:{folder}/alone", BUILT: f"one_layer:build:{atlas}:{corpus}-0"}, rounds)
        jobs = {OPENED: f"one_layer:opened:{atlas}-0", SEARCHED: f"one_layer:search:{atlas}-0"}
        results |= contest(jobs, max(3, rounds))
    each = {name: result.seconds / (ASKED if name == SEARCHED else 1) for name, result in results.items()}
    rows = [["", "seconds", "MB over what was there"]]
    rows += [[name, shown(each[name], 3), shown(result.megabytes, 0)] for name, result in results.items()]
    goals = [
        at_most("built, and held against its text", each[BUILT], 30.0, unit="s", why="one_layer:why"),
        beside("opened", 1000 * each[OPENED], unit="ms"),
        beside("a search", 1000 * each[SEARCHED], unit="ms"),
    ]
    return Table(rows, goals)


def text(place: str) -> Callable[[], None]:
    """Into a new folder each turn, as it is taken where nobody gives a corpus."""
    from headwater.model.sources import look
    from headwater.text.corpus import build_corpus
    from headwater.text.tokenizer import read_tokenizer
    from headwater.train.own_text import own_text

    words, own, numbers = look(NAME).words, own_text(Path(NAME)), count()
    assert words is not None
    tokenizer = read_tokenizer(words)

    def run() -> None:
        build_corpus(own.source, tokenizer, Path(f"{place}-{next(numbers)}"), held_out=own.held_out)

    return run


def build(place: str, corpus: str = "") -> Callable[[], None]:
    """Into a new folder each turn."""
    from headwater.atlas.build import build_atlas
    from headwater.text.corpus import open_corpus

    held, numbers = open_corpus(Path(corpus)) if corpus else None, count()

    def run() -> None:
        build_atlas(NAME, f"{place}-{next(numbers)}", corpus=held)

    return run


def opened(place: str) -> Callable[[], None]:
    from headwater.atlas.atlas import open_atlas

    def run() -> None:
        with open_atlas(place):
            pass

    return run


def search(place: str) -> Callable[[], float]:
    """Other sources each time."""
    from headwater.atlas.atlas import open_atlas

    atlas, sources = open_atlas(place), count(300)
    return lambda: float(sum(len(atlas.search(source=next(sources), limit=100)) for _ in range(ASKED)))


def why() -> Callable[[], dict[str, float]]:
    from headwater.atlas import against_text, joins
    from headwater.atlas import build as building

    folder = tempfile.mkdtemp(prefix="headwater-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    text(f"{folder}/corpus")()
    places = {
        "tables of all heads": (building, "_do"),
        "the strongest of all heads": (joins, "write_all_strongest"),
        "summaries of heads": (building, "_write_summaries"),
        "bigrams": (building, "_write_bigrams"),
        "held against text": (against_text, "write"),
        "hashes of all files": (building, "commit"),
    }
    return functions(build(f"{folder}/atlas", f"{folder}/corpus-0"), places)
