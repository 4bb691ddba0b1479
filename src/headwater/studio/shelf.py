"""What a studio serves: models, atlases and trainings that were named when it was started, by ids instead of paths.

Nothing that comes over HTTP is ever made into a path. Files are looked at again before each answer: where they are no longer those that were opened, the answer
is an error and not a number from one model beside a number from another.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from headwater.errors import HeadwaterError, InputError, did_you_mean
from headwater.studio.errors import Refused, changed
from headwater.studio.limits import MODELS_BYTES, RUNS_BYTES, TEXT, TOKENS
from headwater.studio.work import Stop

if TYPE_CHECKING:
    from headwater.api import Model
    from headwater.atlas.atlas import Atlas
    from headwater.model.source import Source
    from headwater.trace.run import Run
    from headwater.train.folder import RunFolder

Stamp = tuple[tuple[str, int, int, int], ...]
Value = TypeVar("Value")


def stamp(paths: Iterable[Path]) -> Stamp:
    """Which files these are: name, inode, size and time of the last change; what is not there is no part of it."""
    states = ((path, path.stat()) for path in paths if path.is_file())
    return tuple((str(path), state.st_ino, state.st_size, state.st_mtime_ns) for path, state in states)


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


@dataclass
class _Opened:
    """A value, the files that it was read from as they were then, and how large it is."""

    value: object
    files: list[Path]
    were: Stamp
    size: int

    @property
    def is_fresh(self) -> bool:
        """Whether the files are still those."""
        return stamp(self.files) == self.were


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
    _open: "OrderedDict[tuple[str, str], _Opened]" = field(default_factory=OrderedDict[tuple[str, str], _Opened])
    _runs: "OrderedDict[tuple[str, tuple[int, ...]], Run]" = field(
        default_factory=OrderedDict[tuple[str, tuple[int, ...]], "Run"]
    )
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def model(self, name: str) -> "Model":
        """A model, loaded when it is first asked for; refused once its files are others."""
        from headwater.api import load

        item = _known(self.models, name, "model")
        return self._opened("model", item, lambda: load(item.path), model_files, size=_model_size)

    def atlas(self, name: str) -> "Atlas":
        """An atlas, opened when it is first asked for; its files are read against their hashes then."""
        from headwater.studio.opened import open_checked

        item = _known(self.atlases, name, "atlas")
        return self._opened("atlas", item, lambda: open_checked(item.path), atlas_files, size=lambda _: 0)

    def training(self, name: str) -> "RunFolder":
        """A training's folder; it may be growing while it is read."""
        from headwater.train.folder import RunFolder

        return RunFolder(_known(self.trainings, name, "training").path)

    def run(self, model: str, text: str, stop: Stop) -> "Run":
        """What a model did with a text; ``ids:1,2,3`` is a text by its tokens."""
        from headwater.studio.opened import record_until

        if len(text) > TEXT:
            raise Refused(413, f"a text of {len(text):,} letters", f"at most {TEXT:,}", "give a shorter one")
        loaded = self.model(model)
        tokens = loaded.tokens(_ids(text) if text.startswith("ids:") else text)
        if tokens.shape[1] > TOKENS:
            raise Refused(413, f"a text of {tokens.shape[1]:,} tokens", f"at most {TOKENS:,}", "give a shorter one")
        key = (model, tuple(int(token) for token in tokens[0]))
        with self._lock:
            if key in self._runs:
                self._runs.move_to_end(key)
                return self._runs[key]
        found = record_until(loaded, tokens, stop)
        with self._lock:
            self._runs[key] = found
            while len(self._runs) > 1 and sum(run.size for run in self._runs.values()) > RUNS_BYTES:
                self._runs.popitem(last=False)
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
            return self.atlas_of[model]

    def check_unchanged(self, kind: str, name: str) -> None:
        """Refuse an answer whose files changed while it was made: half of it would be of one thing, half of another."""
        there = self._open.get((kind, name))
        if there is not None and not there.is_fresh:
            raise changed(name)

    def reopen(self, kind: str, name: str) -> None:
        """Forget what lies open of a thing, so that its files are read anew."""
        item = _known({"model": self.models, "atlas": self.atlases}[kind], name, kind)
        with self._lock:
            self._open.pop((kind, item.id), None)
            for key in [key for key in self._runs if kind == "model" and key[0] == item.id]:
                del self._runs[key]

    def _opened(
        self,
        kind: str,
        item: Item,
        read: Callable[[], Value],
        files: Callable[[Path], list[Path]],
        *,
        size: Callable[[Value], int],
    ) -> Value:
        key = (kind, item.id)
        with self._lock:
            there = self._open.get(key)
            if there is not None:
                if not there.is_fresh:
                    raise changed(item.name)
                self._open.move_to_end(key)
                return there.value  # pyright: ignore[reportReturnType]
            paths = files(item.path)
            were = stamp(paths)
            value = read()
            opened = _Opened(value, paths, were, size(value))
            if not opened.is_fresh:
                raise Refused(503, f"{item.name} was being written while it was read", "files that rest", "try again")
            self._open[key] = opened
            while len(self._open) > 1 and sum(each.size for each in self._open.values()) > MODELS_BYTES:
                self._open.popitem(last=False)
            return value


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


def _model_size(model: "Model") -> int:
    return sum(tensor.nbytes for tensor in model.weights.tensors().values())


def model_files(path: Path) -> list[Path]:
    """The files that a model is read from, and those beside them."""
    from headwater.model.sources import look

    source: Source = look(path)
    folder = source.path if source.path.is_dir() else source.path.parent
    beside = [source.path] if source.path.is_file() else sorted(folder.glob("*.safetensors*")) + sorted(folder.glob("*.pt"))
    return [*beside, folder / "config.json", folder / "tokenizer.json", *([source.words] if source.words else [])]


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
        item = _add(shelf.models, _called(path), str(given), path)
        beside = (source.path / "atlas", source.path.parent / "atlas", shelf.atlas_place(item.id))
        found = next((place for place in beside if _is_atlas(place)), None)
        if found is not None:
            shelf.atlas_of[item.id] = _add(shelf.atlases, item.id, f"{given}", found, _typed(found, shelf.here)).id
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
    item = Item(next(each for each in taken if each not in items), given, path.absolute() if path.exists() else path, typed)
    items[item.id] = item
    return item
