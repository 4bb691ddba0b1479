"""A foreign configuration, read field by field, so that no field goes unread."""

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any

from headwater.errors import ConfigError, ModelFileError
from headwater.model.config import Activation

ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu", "gelu_python": "gelu",
    # One formula, ½x(1 + tanh(√(2/π)(x + 0.044715x³))); gelu_fast writes √(2/π) with ten digits.
    "gelu_new": "gelu-tanh", "gelu_fast": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh",
    "gelu_python_tanh": "gelu-tanh", "gelu_accurate": "gelu-tanh",
    "silu": "silu", "swish": "silu",
}  # fmt: skip
"""The names that other libraries give to the activations of this family."""


_MOST = 2**53
"""Beyond this, whole numbers are no longer exact as floats."""


class Fields:
    """The fields of a configuration, each of which must be asked for before ``finish``.

    A null counts as left out, except where an optional field is asked for. A field may have several spellings: those that are
    there must agree.

    >>> fields = Fields({"n_layer": 2, "colour": "red"})
    >>> fields.whole("n_layer", default=12), fields.whole("n_head", default=12)
    (2, 12)
    >>> fields.finish()
    Traceback (most recent call last):
    headwater.errors.ModelFileError: colour='red'
    a configuration whose every field is known; remove the field if it changes nothing, or convert the model
    """

    def __init__(self, plain: Mapping[str, Any], place: str = "") -> None:
        self._plain = plain
        self._place = place
        self._asked: set[str] = set()

    def whole(self, *names: str, default: int | None = None) -> int:
        """A whole number."""
        name, value = self._take(names, default)
        if type(value) is not int or abs(value) >= _MOST:
            raise self.unfit(name, value, "a whole number")
        return value

    def optional_whole(self, name: str, default: int | None = None) -> int | None:
        """A whole number, or nothing where null is written."""
        self._asked.add(name)
        value = self._plain.get(name, default)
        return None if value is None else self.whole(name, default=default)

    def number(self, *names: str, default: float | None = None) -> float:
        """A number above zero."""
        name, value = self._take(names, default)
        if type(value) not in (int, float) or not 0 < value < _MOST:
            raise self.unfit(name, value, "a number above zero")
        return float(value)

    def optional_number(self, name: str, *, nothing: float) -> float | None:
        """A number above zero, or ``None`` where it is left out or written as ``nothing``."""
        self._asked.add(name)
        return None if self._plain.get(name) in (None, nothing) else self.number(name)

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""
        _, value = self._take((name,), default)
        if type(value) is not bool:
            raise self.unfit(name, value, "true or false")
        return value

    def word(self, *names: str, among: Iterable[str], default: str | None = None) -> str:
        """One of a few texts."""
        name, value = self._take(names, default)
        if not isinstance(value, str) or value not in among:
            raise self.unfit(name, value, f"one of {', '.join(among)}")
        return value

    def optional_word(self, name: str, *, among: Iterable[str], default: str) -> str | None:
        """One of a few texts, or nothing where null is written."""
        self._asked.add(name)
        return None if self._plain.get(name, default) is None else self.word(name, among=among, default=default)

    def words(self, name: str, *, among: Iterable[str], default: list[str]) -> list[str]:
        """A list of texts."""
        _, value = self._take((name,), default)
        if not isinstance(value, list) or not all(word in among for word in value):  # pyright: ignore[reportUnknownVariableType]
            raise self.unfit(name, value, f"a list of {', '.join(among)}")
        return value  # pyright: ignore[reportUnknownVariableType]

    def activation(self, name: str, *, default: str | None = None) -> Activation:
        """An activation of this family."""
        return ACTIVATIONS[self.word(name, among=ACTIVATIONS, default=default)]

    def table(self, *names: str) -> "Fields":
        """A configuration within the configuration; empty when left out."""
        name, value = self._take(names, {})
        if not isinstance(value, dict):
            raise self.unfit(name, value, "a table of fields")
        return Fields(value, place=f"{name}.")  # pyright: ignore[reportUnknownArgumentType]

    def must_not_be(self, name: str, values: Iterable[Any]) -> None:
        """A field that is harmless but for a few values."""
        self._asked.add(name)
        if self._plain.get(name) in values:
            raise self.unfit(name, self._plain[name], f"another {name}")

    def must_be(self, **values: Any) -> None:
        """Fields that, where they are there, must have the one value that this family has."""
        for name, needed in values.items():
            _, value = self._take((name,), needed)
            if value != needed:
                raise self.unfit(name, value, f"{name}={needed!r}")

    def ignore(self, names: Iterable[str]) -> None:
        """Fields that change no logit."""
        self._asked.update(names)

    def finish(self) -> None:
        """Refuse what nobody asked for."""
        for name, value in self._plain.items():
            if name not in self._asked and value is not None:
                raise ModelFileError(
                    f"{self._place}{name[:80]}={value!r:.80}",
                    "a configuration whose every field is known",
                    "remove the field if it changes nothing, or convert the model",
                )

    def unfit(self, name: str, value: Any, needed: str) -> ModelFileError:
        """The refusal of a field's value."""
        return ModelFileError(f"{self._place}{name[:80]}={value!r:.80}", needed, "use a model that has it, or convert this one")

    def _take(self, names: tuple[str, ...], default: Any) -> tuple[str, Any]:
        self._asked.update(names)
        given = {name: self._plain[name] for name in names if self._plain.get(name) is not None}
        name, value = next(iter(given.items()), (names[0], default))
        for other, again in given.items():
            if again != value:
                raise self.unfit(other, again, f"the same as {name}={value!r:.80}")
        return name, value


@contextmanager
def reading(name: str) -> Generator[None]:
    """Errors inside are told about the file ``name``; a configuration that describes no model is a damaged file."""
    try:
        yield
    except ModelFileError as error:
        raise error.within(name) from None
    except ConfigError as error:
        raise ModelFileError(f"{name}: {error.given}", error.needed, error.do) from None
