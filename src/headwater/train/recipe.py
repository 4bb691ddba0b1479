"""``Recipe``: all that a trained model follows from, as a TOML file."""

import tomllib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import tomli_w

from headwater.errors import ConfigError, InputError, did_you_mean
from headwater.files.plain import read_bytes
from headwater.model.config import ModelConfig
from headwater.settings import from_plain, setting, to_plain
from headwater.text.sources import Built, Files, Planted, StandardInput, StandardLibrary
from headwater.text.training import TokenizerKind
from headwater.train.batches import Repeats
from headwater.train.plan import Plan

MOST_BYTES = 2**20


@setting
class Reading:
    """Which text is read, and how it is cut into tokens."""

    source: Files | StandardInput | StandardLibrary | Planted | Built
    tokenizer: TokenizerKind = "bpe"
    """``bpe`` learns as many pieces as the model has tokens. A planted language and a built corpus bring their own."""
    held_out: float = 0.05
    """The share of the text that is never trained on."""
    repeats: Repeats | None = None


@setting
class Keeping:
    """What a run leaves behind on its way."""

    evaluate_every: int = 250
    log_every: int = 10
    checkpoint_every: int = 500
    snapshots_per_doubling: int = 1
    """Weights are kept after 1, 2, 4, 8 … updates; this many between two powers of two, 0 for none."""
    evaluation_tokens: int = 65_536
    """Of the held-out text, the same ones every time, in whole batches; where there is not one batch of it, there is no evaluation."""

    def __post_init__(self) -> None:
        for name, least in (
            ("evaluate_every", 1),
            ("log_every", 1),
            ("evaluation_tokens", 0),
            ("checkpoint_every", 1),
            ("snapshots_per_doubling", 0),
        ):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} is {getattr(self, name)}", f"at least {least}", f"change keeping.{name}")

    def snapshots(self, steps: int) -> list[int]:
        """The updates after which weights are kept: none, evenly on a logarithmic scale, and the last.

        >>> Keeping().snapshots(10), Keeping(snapshots_per_doubling=2).snapshots(10)
        ([0, 1, 2, 4, 8, 10], [0, 1, 2, 3, 4, 6, 8, 10])
        """
        many = self.snapshots_per_doubling
        if not many:
            return []
        marks = {round(2 ** (power / many)) for power in range(many * steps.bit_length())}
        return sorted({0, steps} | {mark for mark in marks if mark <= steps})


@setting
class Recipe:
    """How one model is made. The same recipe gives the same weights, bit for bit, on the same kind of machine."""

    name: str
    about: str = ""
    architecture: Literal["transformer", "recurrent"] = "transformer"
    """``recurrent``: an LSTM with as many parameters as ``model`` has, to compare it with."""
    text: Reading
    model: ModelConfig
    training: Plan
    keeping: Keeping = Keeping()


def read_recipe(name: str | Path, overrides: Iterable[str] = (), *, files: tuple[str, ...] = ()) -> Recipe:
    """A recipe by the name of one of ours or by path, with ``model.layers=2`` and the like changed, read from ``files`` where given.

    >>> read_recipe("zero-layer", ["training.steps=10"]).training.steps
    10
    """
    plain = _parse(*_find(str(name)))
    for override in overrides:
        _override(plain, override)
    if files:
        plain.setdefault("text", {})["source"] = {"kind": "files", "paths": list(files)}
    return from_plain(Recipe, plain)


def write_recipe(recipe: Recipe) -> bytes:
    """The recipe as TOML, with every setting written out; ``read_recipe`` gives an equal value."""
    return tomli_w.dumps(to_plain(recipe)).encode()


def recipe_names() -> list[str]:
    """Our own recipes."""
    return sorted(file.name.removesuffix(".toml") for file in _ours().iterdir() if file.name.endswith(".toml"))


def _ours() -> Any:
    return resources.files("headwater") / "recipes"


def _find(name: str) -> tuple[str, bytes]:
    path = Path(name)
    if path.suffix == ".toml":
        return path.name, read_bytes(path, MOST_BYTES)
    if name in recipe_names():
        return f"{name}.toml", (_ours() / f"{name}.toml").read_bytes()
    do = f"{did_you_mean(name, recipe_names())}; or give the path of a .toml file"
    raise InputError(f"no recipe is called {name!r:.80}", f"one of {', '.join(recipe_names())}", do)


def _parse(name: str, data: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(data.decode())
    except ValueError as reason:  # what is no text, no TOML, or a number of five thousand digits
        raise ConfigError(f"{name} is no TOML: {reason}", "a recipe in TOML", "correct it at that place") from None
    except RecursionError:
        raise ConfigError(f"{name} is nested too deeply", "a recipe in TOML", "make it flatter") from None


def _override(plain: dict[str, Any], override: str) -> None:
    """Change one setting: ``training.steps=10``; what is no TOML value is taken as text."""
    key, equals, value = override.partition("=")
    *path, last = key.strip().split(".")
    if not equals or not all([*path, last]):
        raise InputError(f"--set {override!r:.80}", "KEY=VALUE", "write for instance --set model.layers=2")
    table = plain
    for part in path:
        inner = table.setdefault(part, {})
        if not isinstance(inner, dict | str):
            raise InputError(f"--set {override!r:.80}", f"a setting; {part} is one itself", f"write --set {part}=VALUE")
        # A word that stands for an alternative, such as "no-norm", gives way to the table that is being written.
        table[part] = {"kind": inner} if isinstance(inner, str) else inner
        table = table[part]
    try:
        read = tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        read = {"value": value.strip()}
    if len(read) > 1:
        raise InputError(f"--set {override!r:.80}", "one setting", "write one --set for each")
    table[last] = read["value"]
