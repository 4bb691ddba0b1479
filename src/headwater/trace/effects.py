"""What an edit does to what a model says: in the frozen model, where it is exactly its part, and in the real one beside it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headwater.errors import InputError
from headwater.model.config import ModelConfig
from headwater.model.forward import last_norm, run_block
from headwater.model.positions import place
from headwater.model.record import KEPT, Record, record
from headwater.model.taps import Chain, Recorder, Tap, all_sites
from headwater.show.values import Progress, silent
from headwater.trace.edits import MEASURED, Edit, Freeze, Zero, check_edits, every_ablation
from headwater.trace.question import about_logit, within
from headwater.trace.sweep import Swept, sweep

HELD = ("queries", "keys", "scores", "gate_input", *MEASURED)
"""What is held fixed in the frozen model, and what that is made of."""


@dataclass(frozen=True)
class Reading:
    """What a model says about a token after a position."""

    answer: float
    """The token's logit, or how far it is above another's."""
    probability: float
    log_probability: float
    divergence: float
    """KL(before ‖ now) over the whole vocabulary, in nats."""

    def plain(self) -> dict[str, float]:
        """For programs."""
        return {
            "answer": self.answer,
            "probability": self.probability,
            "log_probability": self.log_probability,
            "kl": self.divergence,
        }


@dataclass(frozen=True)
class Effect:
    """One edit, told three times: before it, after it with all else frozen, and after it in the model as it is."""

    edit: Tap
    before: Reading
    frozen: Reading
    """Patterns, scales of norms and gates are held at what the run measured."""
    unfrozen: Reading
    """Everything downstream answers to the edit."""
    part: float | None
    """What the edited write comes to in the answer, by a sweep upstream: by so much the frozen model's answer falls when it is zeroed. None where it is not,
    and where something had intervened downstream already: a sweep knows the model's own components and no edits."""

    @property
    def frozen_change(self) -> float:
        """By how much the edit moves the answer of the frozen model."""
        return self.frozen.answer - self.before.answer

    @property
    def change(self) -> float:
        """By how much the edit moves the answer of the model."""
        return self.unfrozen.answer - self.before.answer

    @property
    def certificate(self) -> float | None:
        """How far the frozen model's change is from the part."""
        return None if self.part is None else abs(self.frozen_change + self.part)

    @property
    def name(self) -> str:
        """The place that was edited."""
        return _place(self.edit)

    def __str__(self) -> str:
        part = "" if self.part is None else f"part {self.part:+.4g}, "
        return (
            f"{self.name}: {part}frozen {self.frozen_change:+.4g}, unfrozen {self.change:+.4g}, "
            f"p {self.before.probability:.3g} → {self.unfrozen.probability:.3g}, KL {self.unfrozen.divergence:.3g}"
        )

    def plain(self) -> dict[str, Any]:
        """For programs."""
        return {
            "place": self.name,
            "edit": repr(self.edit),
            "part": self.part,
            "frozen_change": self.frozen_change,
            "change": self.change,
            "before": self.before.plain(),
            "frozen": self.frozen.plain(),
            "unfrozen": self.unfrozen.plain(),
            "certificate": self.certificate,
        }


@dataclass(frozen=True)
class LossEffect:
    """What an edit does to the loss on a text, in nats for each token that was predicted."""

    edit: Tap
    before: float
    after: float

    @property
    def change(self) -> float:
        """By how much the text became less expected."""
        return self.after - self.before

    @property
    def name(self) -> str:
        """The place that was edited."""
        return _place(self.edit)

    def plain(self) -> dict[str, Any]:
        """For programs."""
        named = {"place": self.name, "edit": repr(self.edit)}
        return {**named, "before": self.before, "after": self.after, "change": self.change}


def _place(edit: Tap) -> str:
    if isinstance(edit, Chain):
        return " ".join(map(_place, edit.taps))
    return str(edit.place) if isinstance(edit, Edit) else repr(edit)


def certificate(found: Sequence[Effect]) -> float | None:
    """The largest distance between a part and what taking it away did to the frozen model; None where there are no parts."""
    return max((effect.certificate for effect in found if effect.certificate is not None), default=None)


def effect(run: Record, edit: Tap, position: int, token: int, against: int | None = None) -> Effect:
    """What an edit does to a token's logit (or how far it is above another's) after a position.

    >>> from headwater.model.presets import named
    >>> from headwater.model.weights import Weights
    >>> from headwater.trace.places import find_place
    >>> run = record(Weights.draw(named("one-layer"), seed=0), torch.tensor([[1, 2, 3]]))
    >>> found = effect(run, Zero(find_place("L0H3", run.config)), position=2, token=7)
    >>> abs(found.frozen_change + found.part) < 1e-5
    True
    """
    return effects(run, position, token, against, edits=[edit])[0]


@torch.no_grad()
def effects(
    run: Record,
    position: int,
    token: int,
    against: int | None = None,
    *,
    edits: Sequence[Tap] | None = None,
    progress: Progress = silent,
) -> list[Effect]:
    """What each edit does by itself; unless told otherwise, each head and each feed-forward layer is zeroed."""
    swept = sweep(run, about_logit(run, position, token, against))
    position, chosen = within(position, run.tokens.shape[1], "position"), every_ablation(run) if edits is None else edits
    before = _log_probabilities(run, position)

    def read(now: Record) -> Reading:
        logits, said = now.logits_at(position)[0].double(), _log_probabilities(now, position)
        answer = logits[token] if against is None else logits[token] - logits[against]
        # What had no probability before has no share in the divergence, whatever became of it.
        share = torch.where(before.isneginf(), 0.0, before.exp() * (before - said))
        return Reading(float(answer), float(said[token].exp()), float(said[token]), float(share.sum().clamp(min=0)))

    found: list[Effect] = []
    as_it_was = read(run)
    for number, edit in enumerate(chosen):
        progress(f"{len(chosen)} edits", number / len(chosen))
        frozen, unfrozen = read(edited(run, edit, frozen=True)), read(edited(run, edit))
        found.append(Effect(edit, as_it_was, frozen, unfrozen, _part(run, swept, edit)))
    return found


@torch.no_grad()
def loss_effects(run: Record, edits: Sequence[Tap] | None = None, *, progress: Progress = silent) -> list[LossEffect]:
    """What each edit by itself does to the mean loss on the run's text; unless told otherwise, heads and feed-forward layers are zeroed."""
    if run.tokens.shape[1] < 2:
        raise InputError("the loss on a text of one token", "a token to predict from those before it", "give a longer text")
    chosen, before, found = every_ablation(run) if edits is None else edits, _loss(run), list[LossEffect]()
    for number, edit in enumerate(chosen):
        progress(f"{len(chosen)} edits", number / len(chosen))
        found.append(LossEffect(edit, before, _loss(edited(run, edit))))
    return found


@torch.no_grad()
def edited(run: Record, edit: Tap, *, frozen: bool = False) -> Record:
    """The same text once more, with an edit on top of what intervened in the run already; ``frozen``, in the frozen model.

    Blocks before the first that the edit looks at would do what they did: the pass begins after them.
    """
    check_edits(edit, run.config)
    tap = Chain(run.tap, Freeze(run), edit) if frozen else Chain(run.tap, edit)
    first, layers = _first_block(run.config, edit), run.config.layers
    if not first:
        return record(run.weights, run.tokens, tap=tap)
    recorder, x = Recorder(KEPT), run[f"L{first - 1}.out"]
    watching, placed = Chain(tap, recorder), place(run.weights, 0, run.tokens.shape[1])
    for layer in range(first, layers):
        x = run_block(run.weights, layer, x, placed, watching)
    last_norm(run.weights, x, watching)
    later = (*(f"L{layer}." for layer in range(first, layers)), "final")
    same = {site: value for site, value in run.kept.items() if not site.startswith(later)}
    return Record(run.weights, run.tokens, same | recorder.kept, tap)


def _first_block(config: ModelConfig, edit: Tap) -> int:
    """The first block that an edit looks at; as many as there are blocks where it looks at none."""
    wanted = next((site for site in all_sites(config) if edit.wants(site)), "logits")
    if wanted in ("embed", "positions"):
        return 0
    return int(wanted[1:].split(".")[0]) if wanted.startswith("L") else config.layers


def _log_probabilities(run: Record, position: int) -> Float[Tensor, " vocab"]:
    return run.logits_at(position)[0].double().log_softmax(dim=-1)


def _loss(run: Record) -> float:
    said = run.logits[:, :-1].double().log_softmax(dim=-1)
    return -float(said.gather(2, run.tokens[:, 1:, None].long()).mean())


def _part(run: Record, swept: Swept, edit: Tap) -> float | None:
    """What a zeroed write came to at the positions where it was zeroed; None where no write was, or where it met an edit."""
    if not isinstance(edit, Zero) or _meets_an_edit(run, edit.place.site):
        return None
    site, name = edit.place.site, str(edit.place.at(None))
    given: dict[str, Callable[[], Tensor | None]] = {"embed": swept.tokens, "positions": swept.positions}
    parts = given[site]() if site in given else swept.writes.get(name)
    # A position that is named twice is still zeroed once.
    return None if parts is None else float(parts[..., sorted(set(edit.place.numbers(parts.shape[-1])))].sum())


def _meets_an_edit(run: Record, site: str) -> bool:
    """Whether something intervened on the way from a site to the logits, other than in what is held fixed anyway."""
    later = all_sites(run.config)[all_sites(run.config).index(site) + 1 :]
    return any(run.tap.wants(each) and each.rsplit(".", 1)[-1] not in HELD for each in later)
