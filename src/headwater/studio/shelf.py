"""What a studio serves: models, atlases and trainings that were named when it was started, by ids instead of paths.

Nothing that comes over HTTP is ever made into a path. Files are looked at again before each answer: where they are no longer those that were opened, the answer
is an error and not a number from one model beside a number from another.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, TypeVar

from headwater.errors import HeadwaterError, InputError, did_you_mean
from headwater.studio.errors import Refused, changed
from headwater.studio.limits import MODELS_BYTES, RUNS_BYTES, TEXT, TOKENS
from headwater.studio.work import Stop

if TYPE_CHECKING:
    from headwater.api import Model
    from headwater.atlas.atlas import Atlas
    from headwater.model.config import ModelConfig
    from headwater.model.reorder import Order
    from headwater.model.source import Source
    from headwater.trace.run import Run
    from headwater.train.folder import RunFolder

Stamp = tuple[tuple[str, int, int, int, int], ...]
Value = TypeVar("Value")


def stamp(paths: Iterable[Path]) -> Stamp:
    """Which files these are: name, inode, size, times of the last change of what is in them and of anything; what is not there is no part of it."""
    found: list[tuple[str, int, int, int, int]] = []
    for path in paths:
        with suppress(OSError):
            state = path.stat()
            if S_ISREG(state.st_mode):
                # What is in a file cannot change without the last of these, whatever is done to the others afterwards.
                found.append((str(path), state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns))
    return tuple(found)


@dataclass(frozen=True)
class Item:
    """One thing that is served."""

    id: str
    name: str
    """As people call it; as it was given."""
    path: Path
    """Where it lies; never told to a browser and never taken from one."""
    typed: str = ""
    """Of an atlas: its folder as whoever started the studio would type it there, for lines that give the same numbers."""


@dataclass(frozen=True)
class Card:
    """What is known of a model without its numbers."""

    config: "ModelConfig"
    has_words: bool


@dataclass(eq=False)
class _Opened:
    """A value, the files that it was read from as they were then, and how large it is."""

    value: Any
    files: list[Path]
    were: Stamp
    size: int

    @property
    def is_fresh(self) -> bool:
        """Whether the files are still those."""
        return stamp(self.files) == self.were


class _Used(threading.local):
    """What the answer that a thread works on was made from."""

    things: "dict[tuple[str, str], _Opened] | None" = None


@dataclass
class Shelf:
    """Everything that is served, and what of it lies open."""

    models: "OrderedDict[str, Item]"
    atlases: "OrderedDict[str, Item]"
    trainings: "OrderedDict[str, Item]"
    atlas_of: dict[str, str]
    """By a model's id, the id of its atlas."""
    here: Path = field(default_factory=Path.cwd)
    """Where the studio was started: what it writes, it writes below."""
    cards: dict[str, Card] = field(default_factory=dict[str, Card])
    """By a model's id, what was last known of it."""
    _open: "OrderedDict[tuple[str, str], _Opened]" = field(default_factory=OrderedDict[tuple[str, str], _Opened])
    _were: dict[tuple[str, str], _Opened] = field(default_factory=dict[tuple[str, str], _Opened])
    """What had to make room, without what was in it: its files must still be those when it is read again."""
    _runs: "OrderedDict[tuple[str, Order | None, tuple[int, ...]], Run]" = field(default_factory=OrderedDict[Any, "Run"])
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _doors: dict[tuple[str, str], threading.RLock] = field(default_factory=dict[tuple[str, str], threading.RLock])
    """Held while a thing is read: one that takes its time keeps nobody from the others."""
    _used: _Used = field(default_factory=_Used)

    @property
    def places(self) -> list[tuple[Path, str]]:
        """Where things lie, and what they are called instead."""
        every = [item for items in (self.models, self.atlases, self.trainings) for item in list(items.values())]
        return [(item.path, item.name) for item in every]

    def card(self, name: str) -> Card:
        """What is known of a model: as it was opened; else as its files are; else, where they cannot be read, as they were."""
        item, there = _known(self.models, name, "model"), self._open.get(("model", name)) or self._were.get(("model", name))
        if there is None:
            with suppress(HeadwaterError, OSError):
                self.cards[item.id] = _card(item.path)
        return self.cards[item.id]

    def model(self, name: str) -> "Model":
        """A model, loaded when it is first asked for; refused once its files are others."""
        return self._model(name).value

    def _model(self, name: str) -> _Opened:
        from headwater.api import load

        item = _known(self.models, name, "model")
        return self._opened("model", item, lambda: load(item.path), model_files, size=_model_size)

    def atlas(self, name: str) -> "Atlas":
        """An atlas, opened when it is first asked for; its files are read against their hashes then."""
        from headwater.studio.opened import open_checked

        item = _known(self.atlases, name, "atlas")
        return self._opened("atlas", item, lambda: open_checked(item.path), atlas_files, size=lambda _: 0).value

    def training(self, name: str) -> "RunFolder":
        """A training's folder; it may be growing while it is read."""
        from headwater.train.folder import RunFolder

        return RunFolder(_known(self.trainings, name, "training").path)

    def run(self, model: str, text: str, stop: Stop, order: "Order | None" = None) -> "Run":
        """What a model did with a text, or would do with its norms in another order; ``ids:1,2,3`` is a text by its tokens."""
        from headwater.studio.opened import give_back, record_until

        # A run makes sites again when it is asked for them, and keeps them: it is no thing for two threads.
        assert is_alone(), "runs belong to the lane of models"
        if len(text) > TEXT:
            raise Refused(413, f"a text of {len(text):,} letters", f"at most {TEXT:,}", "give a shorter one")
        opened = self._model(model)
        tokens = opened.value.tokens(_ids(text) if text.startswith("ids:") else text)
        if tokens.shape[1] > TOKENS:
            raise Refused(413, f"a text of {tokens.shape[1]:,} tokens", f"at most {TOKENS:,}", "give a shorter one")
        key = (model, order, tuple(int(token) for token in tokens[0]))
        with self._lock:
            found = self._runs.get(key)
        if found is None:
            found = record_until(opened.value if order is None else opened.value.reordered(order), tokens, stop)
        with self._lock:
            # Unless it has been opened anew meanwhile: then this one is of a model that nobody asks about any more.
            if self._open.get(("model", model)) is opened:
                self._runs[key] = found
                self._runs.move_to_end(key)
            while len(self._runs) > 1 and sum(map(_run_size, self._runs.values())) > RUNS_BYTES:
                del self._runs[next(iter(self._runs))]
                give_back()
        return found

    def atlas_place(self, model: str) -> Path:
        """Where the atlas of a model is built: never at a place that a request names."""
        return self.here / "models" / _known(self.models, model, "model").id / "atlas"

    def add_atlas(self, model: str) -> str:
        """Serve the atlas that has been built of a model, and give its id."""
        place = self.atlas_place(model)
        with self._lock:
            if model not in self.atlas_of:
                item = self.models[model]
                self.atlas_of[model] = _add(self.atlases, item.id, item.name, place, _typed(place, self.here)).id
            self._open.pop(("atlas", self.atlas_of[model]), None)
            self._were.pop(("atlas", self.atlas_of[model]), None)
            return self.atlas_of[model]

    @contextmanager
    def unchanged(self) -> Generator[None]:
        """Refuse an answer whose files changed while it was made: half of it would be of one thing, half of another."""
        before, self._used.things = self._used.things, {}
        try:
            yield
            for (_, name), opened in self._used.things.items():
                if not opened.is_fresh:
                    raise changed(name)
        finally:
            self._used.things = before

    def reopen(self, kind: str, name: str) -> None:
        """Forget what lies open of a thing, so that its files are read anew."""
        item = _known({"model": self.models, "atlas": self.atlases}[kind], name, kind)
        with self._lock:
            self._open.pop((kind, item.id), None)
            self._were.pop((kind, item.id), None)
            self._forget_runs(kind, item.id)

    def _forget_runs(self, kind: str, name: str) -> None:
        for key in [key for key in self._runs if kind == "model" and key[0] == name]:
            del self._runs[key]

    def _opened(
        self,
        kind: str,
        item: Item,
        read: Callable[[], Value],
        files: Callable[[Path], list[Path]],
        *,
        size: Callable[[Value], int],
    ) -> _Opened:
        key = (kind, item.id)
        with self._lock:
            door = self._doors.setdefault(key, threading.RLock())
        with door:
            there = self._open.get(key) or self._were.get(key)
            if there is not None and not there.is_fresh:
                raise changed(item.name)
            if there is None or there.value is None:
                there = _read_at_rest(item, read, files, size)
                self._keep(key, there)
        with self._lock:
            if key in self._open:
                self._open.move_to_end(key)
        if self._used.things is not None:
            self._used.things[key] = there
        return there

    def _keep(self, key: tuple[str, str], opened: _Opened) -> None:
        """Let a thing lie open; where there is too much, what was asked longest ago is closed."""
        with self._lock:
            self._open[key] = opened
            self._were.pop(key, None)
            if key[0] == "model":
                self.cards[key[1]] = Card(opened.value.config, opened.value.tokenizer is not None)
            for other in [other for other in self._open if other != key and self._open[other].size]:
                if sum(each.size for each in self._open.values()) > MODELS_BYTES:
                    self._were[other] = replace(self._open.pop(other), value=None)
                    self._forget_runs(*other)


def is_alone() -> bool:
    """Whether this thread is none of those of which several work side by side."""
    return not threading.current_thread().name.startswith(("search-", "files-"))


def _read_at_rest(
    item: Item, read: Callable[[], Value], files: Callable[[Path], list[Path]], size: Callable[[Value], int]
) -> _Opened:
    paths = files(item.path)
    were = stamp(paths)
    value = read()
    opened = _Opened(value, paths, were, size(value))
    if not opened.is_fresh:
        raise Refused(503, f"{item.name} was being written while it was read", "files that rest", "try again")
    return opened


def _run_size(run: "Run") -> int:
    """Bytes of all that a run holds: also of what was made again, and of its logits."""
    tensors = [*run.made.values(), *(value for name, value in vars(run).items() if name == "logits")]
    return run.size + sum(tensor.nbytes for tensor in tensors)


def _known(items: "OrderedDict[str, Item]", name: str, what: str) -> Item:
    if name not in items:
        needed, do = (
            f"an id of a {what} that this studio was started with",
            did_you_mean(name, items) if items else "start it with one",
        )
        raise Refused(404, f"the {what} {name!r:.60}", needed, do)
    return items[name]


def _ids(text: str) -> list[int]:
    numbers = text.removeprefix("ids:").replace(",", " ").split()
    if not all(re.fullmatch(r"\d{1,9}", each, re.ASCII) for each in numbers):
        raise InputError(f"{text!r:.60} as ids", "whole numbers", "write ids:12,7,33")
    return [int(each) for each in numbers]


def _card(path: Path) -> Card:
    from headwater.model.sources import look

    source: Source = look(path)
    return Card(source.config, source.words is not None)


def _model_size(model: "Model") -> int:
    return sum(tensor.nbytes for tensor in model.weights.tensors().values())


def model_files(path: Path) -> list[Path]:
    """The files that a model is read from; with a recipe beside them, the folder would be a training's and mean another model."""
    from headwater.model.sources import look

    source: Source = look(path)
    return [*source.files, path / "recipe.toml"]


def atlas_files(path: Path) -> list[Path]:
    """The files of an atlas."""
    from headwater.atlas.manifest import MANIFEST

    return [path / MANIFEST, *sorted(each for each in path.rglob("*") if each.is_file() and each.name != MANIFEST)]


def fill(models: Sequence[str | Path], atlases: Sequence[str | Path] = (), here: Path | None = None) -> Shelf:
    """A shelf of models by path or name, with the atlases that lie beside them, and of further atlases.

    The folder of a training counts as its model and as a training. What cannot be served is refused now, not later.
    """
    from headwater.model.sources import look

    shelf = Shelf(OrderedDict(), OrderedDict(), OrderedDict(), {}, (here or Path.cwd()).absolute())
    for given in models:
        path = Path(given)
        if _is_training(path):
            _add(shelf.trainings, path.name, str(given), path)
        try:
            source = look(path)
        except HeadwaterError:
            if _is_training(path):
                # It has only just begun: there is no model yet, and yet something to see.
                continue
            raise
        # One of ours is called by its name: where it was found now, whatever may lie under that name here later.
        item = _add(shelf.models, _called(path), str(given), path if path.exists() else source.path)
        shelf.cards[item.id] = Card(source.config, source.words is not None)
        beside = (source.path / "atlas", source.path.parent / "atlas", shelf.atlas_place(item.id))
        found = next((place for place in beside if _is_atlas(place)), None)
        if found is not None:
            shelf.atlas_of[item.id] = _add(shelf.atlases, item.id, str(given), found, _typed(found, shelf.here)).id
    for given in atlases:
        path = Path(given)
        if not _is_atlas(path):
            raise InputError(f"--atlas {given}", "the folder of an atlas", "build one with headwater atlas build")
        _add(shelf.atlases, _called(path), str(given), path, str(given))
    return shelf


def _is_training(path: Path) -> bool:
    return (path / "recipe.toml").is_file() and not (path / "config.json").exists()


def _is_atlas(path: Path) -> bool:
    from headwater.atlas.manifest import MANIFEST

    return (path / MANIFEST).is_file()


def _called(path: Path) -> str:
    """A short name: a folder that is called as all of them are is called by the one around it."""
    whole = path.absolute()
    return whole.parent.name if whole.name in ("model", "atlas") else whole.name


def _typed(path: Path, here: Path) -> str:
    whole = path.absolute()
    return str(whole.relative_to(here) if whole.is_relative_to(here) else whole)


def _add(items: "OrderedDict[str, Item]", name: str, given: str, path: Path, typed: str = "") -> Item:
    short = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "model"
    taken = [short, *(f"{short}-{number}" for number in range(2, len(items) + 3))]
    item = Item(next(each for each in taken if each not in items), given, path.absolute(), typed)
    items[item.id] = item
    return item
