"""The pictures of ``headwater heads``: eigenvalues in the complex plane, spectra, composition."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.circuits.overview import Overview
from headwater.show.plots import Picture
from headwater.show.values import Cloud, Disc, Grid, Line, Panel

if TYPE_CHECKING:
    from headwater.circuits.composition import Composition
    from headwater.circuits.copying import Eigen
    from headwater.cli.head_words import Direct

MOST = 12
"""Heads that are drawn one by one."""


def of_heads(told: Sequence[Overview], pairs: "Composition") -> list[Picture]:
    """All heads, or one."""
    if len(told) == 1:
        one = told[0]
        return [
            _cloud(one.copying.raw, f"{one.head} OV: eigenvalues"),
            _cloud(one.self_match.raw, f"{one.head} QK: eigenvalues"),
            _spectra({"OV": one.ov.singular_values, "QK": one.qk.singular_values}, f"{one.head}: singular values"),
            *_composition(pairs),
        ]
    chosen = sorted(told, key=lambda one: -abs(one.copying.raw.score))[:MOST]
    shown = [one for one in told if one in chosen]
    spectra = {str(one.head): one.ov.singular_values for one in shown}
    return [
        *(_cloud(one.copying.raw, f"{one.head} OV: Σλ/Σ|λ| = {one.copying.raw.score:+.2f}") for one in shown),
        _spectra(spectra, "OV: singular values"),
        *_composition(pairs),
    ]


def of_direct(told: "Direct") -> list[Picture]:
    """The direct path."""
    spectra = {each.kind: each.singular_values for each in told.spectra}
    return [
        _cloud(told.panel.raw, "direct path: eigenvalues"),
        _cloud(told.panel.centred, "direct path, centred: eigenvalues"),
        _spectra(spectra, "direct path: singular values"),
    ]


def _cloud(found: "Eigen", title: str) -> Cloud:
    discs = [Disc("random over tokens", found.tokens.radius)]
    if found.stream:
        discs.append(Disc("random in the stream", found.stream.radius))
    return Cloud(title=title, points=found.eigenvalues, discs=tuple(discs))


def _spectra(spectra: dict[str, tuple[float, ...]], title: str) -> Panel:
    lines = tuple(
        Line(label=name, x=tuple(map(float, range(1, len(values) + 1))), y=tuple(values)) for name, values in spectra.items()
    )
    return Panel(title=title, x="direction", y="singular value", lines=lines, y_scale="log")


def _composition(pairs: "Composition") -> list[Picture]:
    """A heat map for each way of reading: earlier heads down, later heads across."""
    far = pairs.excess.nan_to_num().abs().max() if pairs.scores.numel() else 0.0
    pictures: list[Picture] = []
    for mode in ("Q", "K", "V"):
        heads = [reader.removesuffix(f".{mode}") for reader in pairs.readers if reader.endswith(f".{mode}")]
        scores = pairs.of(mode).cpu()
        there = ~scores.isnan()
        writes, reads = (list(map(int, there.any(dim=side).nonzero())) for side in (1, 0))
        if writes:
            pictures.append(
                Grid(
                    title=f"{mode}-composition (chance {pairs.chance:.3f})",
                    rows=tuple(pairs.writers[number] for number in writes),
                    columns=tuple(heads[number] for number in reads),
                    values=tuple(tuple(float(scores[row, column]) for column in reads) for row in writes),
                    x="reads", y="writes", middle=pairs.chance, reach=float(far) or 1.0,
                )
            )  # fmt: skip
    return pictures
