"""A configuration in another library's words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from headwater.errors import ConfigError
from headwater.model.config import ModelConfig
from headwater.settings import kind_of

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Expressed:
    """``config`` is the nearest configuration that the library can hold, ``plain`` its own words for it.

    The nearest one may have biases and gains that the model lacks (written as zeros and ones) or lack biases that the model has
    (which must then be zero).
    """

    config: ModelConfig
    plain: dict[str, Any]


def need(field: str, given: Any, allowed: Sequence[Any]) -> None:
    """Refuse a configuration whose ``field`` the library has no word for.

    >>> need("attention.mask", "full", ["causal"])
    Traceback (most recent call last):
    headwater.errors.ConfigError: attention.mask='full'
    the format has only 'causal'; save the model in Headwater's own format
    """
    if given not in allowed:
        choices = " or ".join(map(repr, allowed))
        raise ConfigError(f"{field}={given!r}", f"the format has only {choices}", "save the model in Headwater's own format")


def only(field: str, given: object, *allowed: type[Kind]) -> Kind:
    """The alternative that was ``given``, if the library has it.

    >>> from headwater.model.config import FeedForward
    >>> only("feed_forward", None, FeedForward)
    Traceback (most recent call last):
    headwater.errors.ConfigError: feed_forward=None
    the format has only 'feed-forward'; save the model in Headwater's own format
    """
    if isinstance(given, allowed):
        return given
    need(field, None if given is None else kind_of(type(given)), [kind_of(each) for each in allowed])
    raise AssertionError("what is not allowed has just been refused")
