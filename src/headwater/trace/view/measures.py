"""One measure of the stream at every stage and position, without the others: the logit lens of a long text is a thousand times the work of its lengths.

The numbers are those of ``StreamView``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwater.model.record import Record
from headwater.shapes import whole
from headwater.show.values import Progress, silent
from headwater.trace.question import known
from headwater.trace.view.lens import lenses
from headwater.trace.view.normed import cosine, length
from headwater.trace.view.stages import Seen, Stage, see

Measured = Float[Tensor, "stage pos"]
VectorMeasure: TypeAlias = Literal["norm", "cosine_before", "cosine_embed", "cosine_final"]
LensMeasure: TypeAlias = Literal["p", "rank", "entropy"]
VECTORS: tuple[VectorMeasure, ...] = get_args(VectorMeasure)
"""What is said of vectors alone."""
LENSES: dict[str, str] = {"p": "chance", "rank": "rank", "entropy": "entropy"}
"""What is said by the logit lens, by its name in a ``Lens``."""


@dataclass(frozen=True, eq=False)
class Overview:
    """One measure: a row for each stage, a column for each position that was looked at; not a number where there is none."""

    stages: tuple[Stage, ...]
    positions: tuple[int, ...]
    values: Measured


@torch.no_grad()
def overview(
    record: Record,
    measure: VectorMeasure | LensMeasure,
    *,
    positions: int | Iterable[int] | None = None,
    token: int | None = None,
    tell: Progress = silent,
) -> Overview:
    """One measure of a record of one text; ``token`` is the one whose probability or rank is told, as in ``stream``.

    >>> from headwater.model.presets import named
    >>> from headwater.model.record import record
    >>> from headwater.model.weights import Weights
    >>> seen = overview(record(Weights.draw(named("one-layer"), seed=0), torch.tensor([[1, 2, 3]])), "norm")
    >>> seen.values.shape, seen.stages[-1].names
    (torch.Size([3, 3]), 'L0.t3 = L0.h = final')
    """
    seen = see(record, positions, tell)
    if measure in VECTORS:
        values = measured(seen, measure, tell)
    else:
        said = lenses(seen, chosen_tokens(record, seen, token), top=1, tell=tell)
        values = torch.stack([getattr(one, LENSES[measure]) for one in said]).double()
    return Overview(seen.stages, seen.positions, values)


def measured(seen: Seen, measure: VectorMeasure, tell: Progress = silent) -> Measured:
    """Lengths, or cosines, of all stages."""
    found = list[Tensor]()
    for number, stage in enumerate(seen.stages):
        tell(f"the {measure} of {stage.name}", number / len(seen.stages))
        found.append(_one(seen, stage, measure))
    return torch.stack(found)


def _one(seen: Seen, stage: Stage, measure: VectorMeasure) -> Float[Tensor, " pos"]:
    x = seen[stage.name].double()
    match measure:
        case "norm":
            return length(x)
        case "cosine_embed":
            return cosine(x, seen["embed"].double())
        case "cosine_final":
            return cosine(x, _last(seen))
        case _:
            return torch.full_like(x[:, 0], torch.nan) if stage.of is None else cosine(x, seen[stage.of].double())


def _last(seen: Seen) -> Float[Tensor, "pos d_model"]:
    """The stream that the last block leaves."""
    return next(seen[stage.name] for stage in reversed(seen.stages) if stage.role == "stream").double()


def chosen_tokens(record: Record, seen: Seen, token: int | None) -> Int[Tensor, " pos"]:
    """The token that is told about at each position: the given one, else the next of the text, and after its end the likeliest."""
    vocab, text = record.config.vocab, whole(record.tokens[0])
    if token is not None:
        found = [known(token, vocab)] * len(seen.positions)
    else:
        found = [text[at + 1] if at + 1 < len(text) else int(record.logits_at(at)[0].argmax()) for at in seen.positions]
    return torch.tensor(found, device=record.tokens.device)
