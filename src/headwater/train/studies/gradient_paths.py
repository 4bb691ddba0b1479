"""The gradient through the direct path against those through the layers.

Without norms the logits are a sum, ``T = T_direct + Σ T_l`` with ``T_l = write_l W_U``. So every path gets the *same* gradient at the logits,
``∂L/∂T = p − y``: they are neither orthogonal nor complementary there. Paths part only where they share a parameter: ``W_E`` and ``W_U`` are used
by all of them, and the gradient of each is a sum over paths. How these addends lie to each other is a number to be measured, and it
changes: where training has come to rest the expected gradient is zero, so that the direct path's is the *opposite* of all the others' together.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd import grad
from torch.nn.functional import cross_entropy, one_hot

from headwater.errors import InputError
from headwater.model.config import NoNorm
from headwater.model.forward import forward
from headwater.model.taps import Recorder
from headwater.model.weights import Weights
from headwater.show.values import Line, Panel, Progress, Table, silent

Gradients = dict[tuple[str, str], Float[Tensor, "from_axis to_axis"]]
"""By parameter and path."""


@dataclass(frozen=True, kw_only=True)
class Angle:
    """Between the gradient of one parameter through the direct path and through one other path."""

    step: int
    parameter: str
    path: str
    """``L0``, ``L1`` … or ``layers``, all of them together."""
    mean: float
    """Of the cosine, over batches."""
    deviation: float
    batches: int
    of_mean: float
    """The cosine between the two gradients averaged over all batches: what "in expectation" says."""
    ratio: float
    """How long the gradient through this path is, as a multiple of the direct one; mean over batches."""

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return self.deviation / math.sqrt(self.batches)


@dataclass(frozen=True, kw_only=True)
class PathStudy:
    """Angles at one or several moments of a training."""

    at_the_logits: float
    """The least cosine that was met between the direct path's gradient and another's at the logits: 1."""
    angles: tuple[Angle, ...]

    def tables(self) -> tuple[Table, ...]:
        """One row for each moment, parameter and path."""
        rows = tuple(
            (
                f"{angle.step:,}",
                angle.parameter,
                angle.path,
                f"{angle.mean:+.4f}",
                f"{angle.error:.4f}",
                f"{abs(angle.mean) / angle.error:.1f}" if angle.error else "–",
                f"{angle.of_mean:+.4f}",
                f"{angle.ratio:.3f}",
            )
            for angle in self.angles
        )
        title = f"cosine of gradients with that through the direct path; at the logits it is {self.at_the_logits:.6f}"
        columns = ("step#", "of", "through", "cosine#", "± s.e.#", "s.e. from 0#", "of the means#", "length / direct#")
        return (Table(title=title, columns=columns, rows=rows),)

    def plain(self) -> dict[str, Any]:
        """All numbers."""
        angles = [asdict(angle) | {"error": angle.error} for angle in self.angles]
        return {"at_the_logits": self.at_the_logits, "angles": angles}

    def curves(self) -> tuple[Panel, ...]:
        """The cosine along the training, of each parameter for all layers together."""
        lines: list[Line] = []
        for parameter in ("W_E", "W_U"):
            points = [angle for angle in self.angles if angle.parameter == parameter and angle.path == "layers"]
            steps, cosines = (tuple(float(max(1, at.step)) for at in points), tuple(at.mean for at in points))
            lines.append(Line(label=f"{parameter}, mean over batches", x=steps, y=cosines))
        steps = lines[0].x
        lines.append(Line(label="orthogonal", x=steps, y=(0.0,) * len(steps), kind="bound"))
        title = "Direct path against layers, in the parameters they share"
        return (Panel(title=title, x="step", y="cosine of gradients", lines=tuple(lines), x_scale="log"),)


def run(
    snapshots: Iterable[tuple[int, Weights]],
    batch_of: Callable[[int], Int[Tensor, "batch window"]],
    *,
    batches: int = 40,
    progress: Progress = silent,
) -> PathStudy:
    """Measure angles for each of some models, with the step it was made at, on batches of windows ``[batch, context + 1]``."""
    angles: list[Angle] = []
    least = 1.0
    for step, weights in snapshots:
        found: list[Gradients] = []
        for number in range(batches):
            windows = batch_of(number)
            found.append(path_gradients(weights, windows))
            progress(f"paths, step {step:,}", (number + 1) / batches)
        least = min(least, cosine_at_the_logits(weights, batch_of(0)))
        angles.extend(_angles(step, found))
    return PathStudy(at_the_logits=least, angles=tuple(angles))


def path_gradients(weights: Weights, windows: Int[Tensor, "batch window"]) -> Gradients:
    """The gradients of the mean loss with respect to ``W_E`` and ``W_U`` through each path: ``direct``, ``L0``, ``L1`` …

    They add up to the whole gradients; where the two matrices are one, these are those of its two uses.
    """
    _check(weights)
    leaf = weights.W_E.detach().clone().requires_grad_()
    logits, paths = _paths(weights.changed({"embed.W_E": leaf}), windows)
    G = _at_the_logits(logits.detach(), windows[:, 1:])
    question = einsum(G, weights.W_U, "batch pos vocab, d_model vocab -> batch pos d_model")
    gradients: Gradients = {}
    for path, written in paths.items():
        (gradients["W_E", path],) = grad((written * question).sum(), leaf, retain_graph=True)
        gradients["W_U", path] = einsum(written.detach(), G, "batch pos d_model, batch pos vocab -> d_model vocab")
    return gradients


def cosine_at_the_logits(weights: Weights, windows: Int[Tensor, "batch window"]) -> float:
    """The least cosine between ``∂L/∂T_direct`` and ``∂L/∂T_l``: each path's logits are an input of the loss by themselves."""
    _check(weights)
    with torch.no_grad():
        _, paths = _paths(weights, windows)
        parts = [einsum(x, weights.W_U, "batch pos d_model, d_model vocab -> batch pos vocab") for x in paths.values()]
    leaves = [part.requires_grad_() for part in parts]
    total = sum(leaves[1:], leaves[0])
    logits = total if weights.b_U is None else total + weights.b_U
    direct, *others = grad(cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten()), leaves)
    return min(_cosine(direct, other) for other in others)


def _check(weights: Weights) -> None:
    config = weights.config
    if not config.layers or not isinstance(config.norm, NoNorm):
        given = "a model without layers" if not config.layers else "a model with norms"
        raise InputError(
            given, "layers that add to a stream without norms, so that the logits are a sum of paths", "give another model"
        )


def _paths(weights: Weights, windows: Int[Tensor, "batch window"]) -> tuple[Tensor, dict[str, Tensor]]:
    """The logits, and what each path writes to the final stream."""
    watch = Recorder(["embed", "positions", "L*.attention", "L*.feed_forward"])
    logits = forward(weights, windows[:, :-1], watch)
    kept = watch.kept
    paths = {"direct": kept["embed"] + kept.get("positions", 0.0)}
    for layer in range(weights.config.layers):
        paths[f"L{layer}"] = kept[f"L{layer}.attention"] + kept.get(f"L{layer}.feed_forward", 0.0)
    return logits, paths


def _at_the_logits(logits: Float[Tensor, "batch pos vocab"], targets: Int[Tensor, "batch pos"]) -> Tensor:
    """``(p − y) / tokens``."""
    return (logits.softmax(dim=-1) - one_hot(targets, logits.shape[-1])) / targets.numel()


def _angles(step: int, found: list[Gradients]) -> list[Angle]:
    layers = [path for parameter, path in found[0] if parameter == "W_E" and path != "direct"]
    angles: list[Angle] = []
    for parameter in ("W_E", "W_U"):
        for path in layers if len(layers) == 1 else [*layers, "layers"]:
            through = layers if path == "layers" else [path]
            direct = torch.stack([gradients[parameter, "direct"] for gradients in found])
            other = torch.stack([torch.stack([gradients[parameter, one] for one in through]).sum(dim=0) for gradients in found])
            angles.append(_angle(direct, other, step=step, parameter=parameter, path="layers" if through == layers else path))
    return angles


def _angle(
    direct: Float[Tensor, "batch from_axis to_axis"], other: Float[Tensor, "batch from_axis to_axis"], **what: Any
) -> Angle:
    cosines = torch.tensor([_cosine(a, b) for a, b in zip(direct, other, strict=True)], dtype=torch.float64)
    ratios = [float(b.square().sum().sqrt() / a.square().sum().sqrt()) for a, b in zip(direct, other, strict=True)]
    return Angle(
        mean=float(cosines.mean()),
        deviation=float(cosines.std()) if len(cosines) > 1 else 0.0,
        batches=len(cosines),
        of_mean=_cosine(direct.mean(dim=0), other.mean(dim=0)),
        ratio=sum(ratios) / len(ratios),
        **what,
    )


def _cosine(a: Float[Tensor, "*any"], b: Float[Tensor, "*any"]) -> float:
    """0 where one of them is nothing at all."""
    lengths = float(a.double().square().sum().sqrt() * b.double().square().sum().sqrt())
    return float((a.double() * b.double()).sum()) / lengths if lengths else 0.0
