"""What can be chosen about an atlas; all of it changes numbers or names, and all of it is written down with them."""

from typing import Literal

from headwater.circuits.norms import Scales, Scaling
from headwater.errors import ConfigError
from headwater.settings import setting

MOST_TRIPLES = 1_000_000
"""Of each head and sign: all of them are in memory at once."""


@setting
class NormScale:
    """What a norm was taken to multiply by, by the site of its scale in the forward pass."""

    site: str
    value: float


@setting
class Settings:
    """How the tables of a model are made."""

    others: int
    """n: among how many other tokens, drawn by how often they occur, a source stands."""
    k: int = 16
    """Entries of every line that are listed."""
    triples: int = 1000
    """K: how many of each head's skip-trigrams are listed that raise an output most, and as many that lower one."""
    each: int = 4
    """Joined rows for each source, each dest and each out, raising and lowering."""
    basis: Literal["tokens", "effective-tokens"] = "tokens"
    """What stands for a token at layers above the first: its embedding, or what block 0's feed-forward layer makes of it."""
    offset: int = 0
    """Under rotary positions: how far back the sources are that scores are told for."""
    norms: str = "one"
    """Where norms' scales were taken from, in words."""
    scales: tuple[NormScale, ...] = ()
    """The scales, where they were measured."""
    centring: Literal["each row's mean taken out"] = "each row's mean taken out"
    """Of outputs: a softmax cannot see it."""
    rows: int = 65_536
    """Lines of one task: the tile plan."""

    def __post_init__(self) -> None:
        for name, least in (("others", 1), ("k", 1), ("triples", 1), ("each", 1), ("rows", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} is {getattr(self, name)}", f"a number from {least} on", f"change {name}")
        if self.triples > MOST_TRIPLES:
            raise ConfigError(
                f"triples is {self.triples}", f"a number up to {MOST_TRIPLES:,}", "search the joined rows for more"
            )
        if self.k < self.each:
            raise ConfigError(f"each is {self.each} and k is {self.k}", "joined rows come from the lists", "raise k")

    @property
    def scaling(self) -> Scaling:
        """For ``headwater.circuits``."""
        return Scales(self.norms, {scale.site: scale.value for scale in self.scales}) if self.scales else "one"
