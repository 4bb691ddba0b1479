"""Rotary positions as Hugging Face configurations spell them, old and new."""

from typing import Any

from headwater.model.config import LinearStretch, Llama3Stretch, NoStretch, RotaryPositions
from headwater.model.foreign.fields import Fields


def read_rotary(fields: Fields, *, d_head: int, context: int) -> RotaryPositions:
    """Whole heads that turn: ``rope_parameters`` (transformers 5), or ``rope_theta`` and ``rope_scaling``."""
    inner = fields.table("rope_parameters", "rope_scaling")
    # Some versions of these classes read a share and some do not.
    fields.must_be(partial_rotary_factor=1.0)
    inner.must_be(partial_rotary_factor=1.0)
    base = inner.number("rope_theta", default=fields.number("rope_theta", default=10_000.0))
    return _rotary(inner, dims=d_head, base=base, context=context)


def read_partial_rotary(fields: Fields, *, d_head: int, context: int) -> RotaryPositions:
    """GPT-NeoX' spelling, where ``rotary_pct`` of each head turns; what the inner table says wins."""
    inner = fields.table("rope_parameters", "rope_scaling")
    outer_share = fields.number("rotary_pct", "partial_rotary_factor", default=0.25)
    share = inner.number("partial_rotary_factor", default=outer_share)
    base = inner.number("rope_theta", default=fields.number("rotary_emb_base", "rope_theta", default=10_000.0))
    return _rotary(inner, dims=int(d_head * share), base=base, context=context)


def _rotary(inner: Fields, *, dims: int, base: float, context: int) -> RotaryPositions:
    stretch = _stretch(inner, context)
    inner.finish()
    return RotaryPositions(dims=dims, base=base, stretch=stretch)


def _stretch(inner: Fields, context: int) -> NoStretch | LinearStretch | Llama3Stretch:
    match inner.word("rope_type", "type", among=("default", "linear", "llama3"), default="default"):
        case "linear":
            return LinearStretch(factor=inner.number("factor"))
        case "llama3":
            return Llama3Stretch(
                factor=inner.number("factor"),
                low_frequency_factor=inner.number("low_freq_factor"),
                high_frequency_factor=inner.number("high_freq_factor"),
                original_context=inner.whole("original_max_position_embeddings", default=context),
            )
        case _:
            return NoStretch()


def write_scaling(rotary: RotaryPositions) -> dict[str, Any] | None:
    """The value of ``rope_scaling``, which transformers 4 and 5 both read."""
    match rotary.stretch:
        case NoStretch():
            return None
        case LinearStretch(factor=factor):
            return {"rope_type": "linear", "factor": factor}
        case Llama3Stretch() as stretch:
            return {
                "rope_type": "llama3",
                "factor": stretch.factor,
                "low_freq_factor": stretch.low_frequency_factor,
                "high_freq_factor": stretch.high_frequency_factor,
                "original_max_position_embeddings": stretch.original_context,
            }
