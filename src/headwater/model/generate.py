"""Text from a model, one token after the other."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.errors import InputError
from headwater.model.forward import final_stream, unembed
from headwater.model.record import check_tokens
from headwater.model.taps import Tap
from headwater.model.weights import Weights


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is chosen. Temperature 0 always takes the likeliest.

    ``top_k`` keeps the k likeliest tokens, ``top_p`` the fewest whose probabilities reach p; both can be left out.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise InputError(f"temperature {self.temperature}", "a number from 0 up", "change it")
        if self.top_k is not None and self.top_k < 1:
            raise InputError(f"top_k {self.top_k}", "a whole number from 1 up", "change it, or leave it out")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise InputError(f"top_p {self.top_p}", "a share above 0 and up to 1", "change it, or leave it out")
        if not 0 <= self.seed < 2**63:
            raise InputError(f"seed {self.seed}", "a whole number from 0 to 2⁶³ − 1", "change it")

    def distribution(self, logits: Float[Tensor, " vocab"]) -> Float[Tensor, " vocab"]:
        """The probabilities that are drawn from, in float64: half precision would lose the unlikely ones.

        >>> Sampling(top_k=1).distribution(torch.tensor([1.0, 3.0, 2.0]))
        tensor([0., 1., 0.], dtype=torch.float64)
        """
        logits = logits.double()
        if self.temperature == 0:
            return torch.zeros_like(logits).index_fill(0, logits.argmax()[None], 1.0)
        # The largest is taken out first, so that no temperature, however low, divides it to infinity.
        probabilities = ((logits - logits.max()) / self.temperature).softmax(dim=0)
        return probabilities if self.top_k is None and self.top_p is None else self._likeliest(probabilities)

    def draw(self, logits: Float[Tensor, " vocab"], generator: torch.Generator) -> int:
        """One token. The likeliest needs no luck, and no probability of any other."""
        if self.temperature == 0:
            return int(logits.argmax())
        return int(torch.multinomial(self.distribution(logits), 1, generator=generator))

    def _likeliest(self, probabilities: Float[Tensor, " vocab"]) -> Float[Tensor, " vocab"]:
        """The tokens that ``top_k`` and ``top_p`` keep, their probabilities made to add up to one again."""
        ranked, order = probabilities.sort(descending=True, stable=True)
        if self.top_k is not None:
            ranked[self.top_k :] = 0
        if self.top_p is not None:
            # A token stays while the ones before it have not reached p yet; the likeliest always stays.
            before = ranked.cumsum(dim=0) - ranked
            ranked[before >= self.top_p * ranked.sum()] = 0
        return torch.zeros_like(probabilities).index_put((order,), ranked / ranked.sum())


class KeyValueCache(Tap):
    """Hands each block the keys and values of earlier positions, so that a new token costs one position."""

    def __init__(self, room: int) -> None:
        self.room = room
        """Positions that there will be at most: space for all of them is taken once, so that a new one copies no earlier one."""
        self.kept: dict[str, Tensor] = {}
        self.seen: dict[str, int] = {}

    def wants(self, site: str) -> bool:
        """Whether this is a block's keys or values."""
        return site.endswith((".keys", ".values"))

    def __call__(self, site: str, value: Tensor) -> Tensor:
        """Add the new positions and go on with all of them."""
        batch, heads, new, d_head = value.shape
        if site not in self.kept:
            self.kept[site] = value.new_empty(batch, heads, self.room, d_head)
        before = self.seen.get(site, 0)
        after = before + new
        self.kept[site][:, :, before:after] = value
        self.seen[site] = after
        return self.kept[site][:, :, :after]


def generate(
    weights: Weights, prompt: Sequence[int], sampling: Sampling, *, most: int, ends: Collection[int] = ()
) -> Iterator[int]:
    """Up to ``most`` further tokens, each as soon as it is drawn; ends early after one of ``ends``, or when the context is full.

    The same seed gives the same tokens, whatever else the process draws.
    """
    if most < 0:
        raise InputError(f"{most} tokens", "a whole number from 0 up", "change it")
    attention = weights.config.attention
    if attention is not None and attention.mask == "full":
        raise InputError(
            "a model with full attention", "causal attention: a token must not see those after it", "use another model"
        )
    check_tokens(weights.config, torch.tensor([list(prompt)], dtype=torch.long))
    if len(prompt) > weights.config.context:
        raise InputError(
            f"{len(prompt):,} tokens", f"at most {weights.config.context:,}, the model's context", "shorten the text"
        )
    steps = min(most, weights.config.context + 1 - len(prompt))
    return _draw(weights, list(prompt), sampling, steps, ends)


@torch.inference_mode()
def _next_logits(weights: Weights, tokens: list[int], cache: KeyValueCache, start: int) -> Float[Tensor, " vocab"]:
    batch = torch.tensor([tokens], device=weights.device)
    return unembed(weights, final_stream(weights, batch, cache, start=start)[:, -1:])[0, -1]


def _draw(weights: Weights, tokens: list[int], sampling: Sampling, steps: int, ends: Collection[int]) -> Iterator[int]:
    generator = torch.Generator().manual_seed(sampling.seed)
    cache, seen = KeyValueCache(len(tokens) + steps), 0
    for _ in range(steps):
        logits = _next_logits(weights, tokens[seen:], cache, seen).cpu()
        seen = len(tokens)
        tokens.append(sampling.draw(logits, generator))
        yield tokens[-1]
        if tokens[-1] in ends:
            return
