"""How far a change reaches: one token is replaced by another, and the run is compared with the first one, site by site."""

import torch
from jaxtyping import Float
from torch import Tensor

import headwater as hw
from headwater.claims.integration.written import apart
from headwater.model.taps import NOBODY, Tap
from headwater.shapes import Tokens


def replaced(model: hw.Model, ids: Tokens, position: int) -> Tokens:
    """The same tokens, but at one position the one with the next id."""
    other = ids.clone()
    other[:, position] = (other[:, position] + 1) % model.config.vocab
    return other


def moved(model: hw.Model, ids: Tokens, position: int, site: str, tap: Tap = NOBODY) -> Float[Tensor, " pos"]:
    """The largest change at a site, for each position, when the token at one position is another."""
    first, second = (model.record(each, tap=tap)[site] for each in (ids, replaced(model, ids, position)))
    return (first - second).abs().amax(dim=(0, 2))


def bend(model: hw.Model, ids: Tokens, reads: str, *makes: str) -> float:
    """How far a component is from affine: what it makes of a mixture of two inputs, less the same mixture of what it makes of each."""
    run, place = model.record(ids), model.place(reads)
    one, other = run[reads], run[reads].flip(1)
    mixed, second = (model.record(ids, tap=hw.Patch(place, value, "a mixture")) for value in (0.3 * one + 0.7 * other, other))
    return max(apart(mixed[site], 0.3 * run[site] + 0.7 * second[site]) for site in makes)


class OverPositions(Tap):
    """Normalises what the feed-forward layer reads over positions instead of over coordinates, as BatchNorm does."""

    def wants(self, site: str) -> bool:
        """What feed-forward layers read."""
        return site.endswith(".feed_forward_input")

    def __call__(self, site: str, value: Tensor) -> Tensor:
        """Each coordinate with mean 0 and standard deviation 1 along the text."""
        del site
        return over_positions(value)


def over_positions(x: Tensor) -> Tensor:
    """Each coordinate normalised along the text."""
    return (x - x.mean(dim=1, keepdim=True)) / x.std(dim=1, correction=0, keepdim=True)


class NoDiagonal(Tap):
    """Forbids a token to attend to itself; the first, which sees nothing else, still may."""

    def wants(self, site: str) -> bool:
        """All scores."""
        return site.endswith(".scores")

    def __call__(self, site: str, value: Tensor) -> Tensor:
        """−∞ on the diagonal."""
        del site
        diagonal = torch.eye(value.shape[-1], dtype=torch.bool)
        diagonal[0, 0] = False
        return value.masked_fill(diagonal, -torch.inf)
