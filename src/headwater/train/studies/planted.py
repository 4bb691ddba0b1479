"""What a one-layer model has found of a planted language.

**Skip-trigrams and copying.** With dest B at the last position i of a full window and source A at position ``j = i − distance``, a head's
score is ``s(B, A, j) = q · W_K e_A + q · W_K π_j``, where ``q = (e_B + π_i) W_Q / √d_head`` and ``π`` are the positions, which reach
queries and keys only. A competes with B itself and with words drawn from the unigrams p at the other positions::

    α(B, A) = mean over the planted distances of  exp s(B, A, j) / (exp s(B, A, j) + exp s(B, B, i) + Σ_j' Σ_A' p(A') exp s(B, A', j'))
    lift(A, B, C) = Σ_heads α(B, A) · o(A, C),    o(A, C) = (W_E W_V W_O W_U)[A, C], centred over C

A rule ``[A] … [B] → [C]`` is found when C is among the three words that A lifts most. Both tables are exact and come from the weights
alone, with no text but its unigrams.

**Bigrams.** Where the present word is no destination, the next one follows the language's row: ``KL(row ‖ prediction)`` is what the
model's bigrams lack, on the average over a text. Its direct path ``W_E W_U`` alone need not be the table, for the heads help.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from headwater.errors import InputError
from headwater.model.config import Attention, LearnedPositions, ModelConfig, NoNorm, NoPositions, SinusoidalPositions
from headwater.model.forward import forward, unembed
from headwater.model.positions import place
from headwater.model.weights import Weights
from headwater.show.values import Line, Panel, Progress, Table, silent
from headwater.text.planted import Cause, PlantedLanguage, Sample, SkipTrigram
from headwater.train.batches import Batches
from headwater.train.loop import train_steps
from headwater.train.module import TransformerModule
from headwater.train.plan import Plan

TOP = 3
"""Among how many words the output of a rule must be."""
TRAINING, HELD_OUT = 0, 1
"""Seeds of the two texts, which are those of a corpus too."""
WINDOWS_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One planted rule, and what the weights make of it."""

    source: str
    dest: str
    out: str
    rank: int
    """Of the output among all words by lift, from 1."""
    lift: float
    attention: float
    """``α(B, A)`` of the head that contributes most."""
    head: str

    @property
    def is_found(self) -> bool:
        """Whether the output is among the best."""
        return self.rank <= TOP


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """One model against the language: shares of rules found, and nats."""

    step: int
    skip_trigrams: float | None
    """Found, of all that were planted."""
    copies: float | None
    loss: float
    """On held-out text, without full stops and repeated words, whose places only the language knows."""
    truth: float
    """What the language itself loses on the same words."""
    kl: float
    """``KL(row ‖ prediction)``, the mean over words of the text that are no destinations."""
    direct_kl: float
    """The same for the direct path alone."""


@dataclass(frozen=True, kw_only=True)
class PlantedStudy:
    """Models along a training, the first one first, and the rules as the last one has them."""

    steps: tuple[Recovery, ...]
    untrained: Recovery
    """Weights as they are drawn: what chance would find."""
    skip_trigrams: tuple[Finding, ...]
    copies: tuple[Finding, ...]

    def tables(self) -> tuple[Table, ...]:
        """What was found, then every rule."""
        columns = ("step#", "skip-trigrams#", "copying#", "loss#", "above the truth#", "KL of bigrams#", "direct path#")
        rows = (*map(self._words, self.steps), ("untrained", *self._words(self.untrained)[1:]))
        title = (
            f"rules with their output in the top {TOP} of all lifts; the language itself loses {self.untrained.truth:.4f} nats"
        )
        return (
            Table(title=title, columns=columns, rows=rows),
            *(
                Table(title=f"\n{title}", columns=("source", "dest", "out", "rank#", "lift#", "attention#", "head"), rows=_rules(rules))
                for title, rules in (("skip-trigrams", self.skip_trigrams), ("copying", self.copies))
                if rules
            ),
        )  # fmt: skip

    @staticmethod
    def _words(step: Recovery) -> tuple[str, ...]:
        shares = ("–" if share is None else f"{100 * share:.1f} %" for share in (step.skip_trigrams, step.copies))
        nats = (f"{number:.4f}" for number in (step.loss, step.loss - step.truth, step.kl, step.direct_kl))
        return f"{step.step:,}", *shares, *nats

    def plain(self) -> dict[str, Any]:
        """All numbers."""
        return asdict(self) | {"study": "planted", "top": TOP}

    def curves(self) -> tuple[Panel, ...]:
        """Rules found, and the distance from the truth, along the training."""
        found = [
            (label, [(step.step, share) for step in self.steps if (share := getattr(step, name)) is not None])
            for label, name in (("skip-trigrams", "skip_trigrams"), ("copying", "copies"))
        ]
        losses = [("loss above the truth", [(step.step, step.loss - step.truth) for step in self.steps])]
        losses += [("KL of bigrams", [(step.step, step.kl) for step in self.steps])]
        return (
            Panel(title="Rules found", x="step", y="share", lines=_lines(found)),
            Panel(title="Distance from the truth", x="step", y="nats", lines=_lines(losses), y_scale="log"),
        )


def run(
    snapshots: Iterable[tuple[int, Weights]], language: PlantedLanguage, *, tokens: int = 32_768, progress: Progress = silent
) -> PlantedStudy:
    """Hold each of some one-layer models, with the step it was made at, against the language that it was trained on.

    Losses are taken on ``tokens`` tokens of held-out text.
    """
    text = language.sample(tokens, HELD_OUT)
    steps: list[Recovery] = []
    weights = None
    for step, weights in snapshots:
        progress(f"step {step:,}", 0.0)
        steps.append(recover(weights, language, text, step=step))
    if weights is None:
        raise InputError("no model", "at least one", "give a model, or a run with snapshots")
    skips, copies = (findings(weights, language, rules, text) for rules in (language.skip_trigrams, language.copies))
    return PlantedStudy(
        steps=tuple(steps),
        untrained=recover(Weights.draw(weights.config, seed=0), language, text),
        skip_trigrams=skips,
        copies=copies,
    )


def train_and_run(
    language: PlantedLanguage, config: ModelConfig, plan: Plan, *, tokens: int = 4_000_000, progress: Progress = silent
) -> PlantedStudy:
    """Train a one-layer model on ``tokens`` tokens of the language and follow it: after 0, 1, 2, 4 … updates and the last."""
    _check(config, language)
    ids = language.sample(tokens, TRAINING).ids
    module = TransformerModule(Weights.draw(config, seed=plan.seed))
    batches = Batches(ids=ids, vocab=language.words, context=config.context, batch=plan.batch, seed=plan.seed)
    marks = {2**power for power in range(plan.steps.bit_length())} | {plan.steps}

    def snapshots() -> Iterator[tuple[int, Weights]]:
        yield 0, module.weights()
        for step in train_steps(module, batches, plan):
            progress(f"training, loss {step.loss:.3f}", step.number / plan.steps)
            if step.number in marks:
                yield step.number, module.weights()

    return run(snapshots(), language)


def one_layer(language: PlantedLanguage) -> ModelConfig:
    """A model that is large enough for the usual planted language: eight heads, positions into queries and keys only."""
    return ModelConfig(
        vocab=language.words,
        context=64,
        d_model=128,
        layers=1,
        attention=Attention(heads=8, d_head=16),
        positions=SinusoidalPositions(into="queries-and-keys"),
    )


def recover(weights: Weights, language: PlantedLanguage, text: Sample, *, step: int = 0) -> Recovery:
    """One model against the language, with losses on some of its text."""
    skips, copies = (findings(weights, language, rules, text) for rules in (language.skip_trigrams, language.copies))
    nats, kl = _predict(weights, language, text)
    # Place p of a prediction stands for word p + 1 of the text.
    words = np.flatnonzero(_is_known(text)[1 : len(nats) + 1])
    plain = np.flatnonzero(_follows_a_row(language, text)[1 : len(nats) + 1])
    rows, present = torch.tensor(language.bigrams), text.ids[plain].astype(np.int64)
    direct = unembed(weights, weights.W_E[None])[0].double().log_softmax(dim=-1)
    return Recovery(
        step=step,
        skip_trigrams=_share(skips),
        copies=_share(copies),
        loss=float(nats[words].mean()),
        truth=float(text.nats[1 + words].mean()),
        kl=float(kl[plain].mean()),
        direct_kl=float((torch.xlogy(rows, rows) - rows * direct).sum(dim=-1)[present].mean()),
    )


def findings(weights: Weights, language: PlantedLanguage, rules: Sequence[SkipTrigram], text: Sample) -> tuple[Finding, ...]:
    """Each rule's output among the lifts of all words, with unigrams counted in ``text``."""
    _check(weights.config, language)
    counts = torch.from_numpy(np.bincount(text.ids, minlength=language.words)).double()
    reach, wide = language.reach, weights.to(dtype=torch.float64)
    distances = range(reach.nearest, min(reach.farthest, weights.config.context - 1) + 1)
    outputs = output_table(wide)
    by_dest = {dest: attention_to(wide, dest, counts / counts.sum(), distances) for dest in {rule.dest for rule in rules}}
    found: list[Finding] = []
    for rule in rules:
        attention = by_dest[rule.dest][:, rule.source]
        by_head = attention[:, None] * outputs[:, rule.source]
        lift, head = by_head.sum(dim=0), int(by_head[:, rule.out].argmax())
        source, dest, out = (language.vocabulary[word] for word in rule)
        found.append(
            Finding(
                source=source,
                dest=dest,
                out=out,
                rank=1 + int((lift > lift[rule.out]).sum()),
                lift=float(lift[rule.out]),
                attention=float(attention[head]),
                head=f"L0H{head}",
            )
        )
    return tuple(found)


def output_table(weights: Weights) -> Float[Tensor, "head vocab vocab"]:
    """``o(A, C)``: what each head writes for source A, as logits without their mean."""
    heads, group = weights.blocks[0].attention, _attention(weights.config).group_size
    values = einsum(weights.W_E, heads.W_V, "source d_model, key_head d_model d_head -> key_head source d_head")
    outputs = heads.W_O @ weights.W_U
    table = einsum(values.repeat_interleave(group, dim=0), outputs, "head source d_head, head d_head out -> head source out")
    return table - table.mean(dim=-1, keepdim=True)


def attention_to(
    weights: Weights, dest: int, unigrams: Float[Tensor, " vocab"], distances: Iterable[int]
) -> Float[Tensor, "head vocab"]:
    """``α(B, A)`` of one destination B for every source A."""
    heads, attention = weights.blocks[0].attention, _attention(weights.config)
    context = weights.config.context
    positions = place(weights, 0, context).in_queries_and_keys
    positions = torch.zeros_like(weights.W_E[:1]).expand(context, -1) if positions is None else positions
    query = einsum(weights.W_E[dest] + positions[-1], heads.W_Q, "d_model, head d_model d_head -> head d_head")
    query = attention.scale * (query if heads.b_Q is None else query + heads.b_Q)
    # b_K gives all keys the same score, which softmax cannot see.
    looks_for = einsum(
        query, heads.W_K.repeat_interleave(attention.group_size, dim=0), "head d_head, head d_model d_head -> head d_model"
    )
    of_words, of_places = looks_for @ weights.W_E.T, looks_for @ positions.T
    of_words, of_places = (scores - scores.amax(dim=-1, keepdim=True) for scores in (of_words, of_places))
    words, places = of_words.exp(), of_places.exp()
    itself, any_word, others = words[:, dest] * places[:, -1], words @ unigrams, places[:, :-1].sum(dim=-1)
    found = torch.zeros_like(words)
    for count, distance in enumerate(distances, start=1):
        here = places[:, -1 - distance]
        mine = words * here[:, None]
        share = mine / (mine + (itself + any_word * (others - here))[:, None])
        found += (share - found) / count
    return found


@torch.no_grad()
def _predict(
    weights: Weights, language: PlantedLanguage, text: Sample
) -> tuple[Float[Tensor, " tokens"], Float[Tensor, " tokens"]]:
    """For each word but the first that whole windows predict: its nats, and ``KL(row of the present word ‖ prediction)``."""
    context, ids = weights.config.context, torch.from_numpy(text.ids.astype(np.int64))
    rows = torch.tensor(language.bigrams)
    entropies = -torch.xlogy(rows, rows).sum(dim=-1)
    nats: list[Tensor] = []
    divergences: list[Tensor] = []
    windows = ids.unfold(0, context + 1, context)
    for begin in range(0, len(windows), WINDOWS_AT_ONCE):
        some = windows[begin : begin + WINDOWS_AT_ONCE]
        present, following = some[:, :-1], some[:, 1:]
        log_q = forward(weights, present).double().log_softmax(dim=-1)
        nats.append(-log_q.gather(-1, following[..., None]).flatten())
        divergences.append((-(rows[present] * log_q).sum(dim=-1) - entropies[present]).flatten())
    return torch.cat(nats), torch.cat(divergences)


def _is_known(text: Sample) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Words whose probability follows from the text before them."""
    return (text.causes != Cause.OPENING) & (text.causes != Cause.REPEAT)


def _follows_a_row(language: PlantedLanguage, text: Sample) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Words before which no rule could fire."""
    dests = [rule.dest for rule in language.skip_trigrams + language.copies]
    present = np.concatenate([[0], text.ids[:-1]])
    return _is_known(text) & ~np.isin(present, dests)


def _check(config: ModelConfig, language: PlantedLanguage) -> None:
    needs = {
        f"{config.layers} layers": config.layers == 1,
        f"{config.vocab:,} tokens, where the language has {language.words:,}": config.vocab == language.words,
        "norms": isinstance(config.norm, NoNorm),
        "a feed-forward layer": config.feed_forward is None,
        "positions in the stream or in angles": isinstance(config.positions, NoPositions)
        or (
            isinstance(config.positions, LearnedPositions | SinusoidalPositions) and config.positions.into == "queries-and-keys"
        ),
        f"a context of {config.context}": config.context > language.reach.nearest,
    }
    for given, holds in needs.items():
        if not holds:
            raise InputError(
                f"a model with {given}",
                "one layer of attention alone, over the language's words, with positions into queries and keys only or none",
                "train one with the recipe planted",
            )


def _attention(config: ModelConfig) -> Attention:
    assert config.attention is not None, "a layer has attention"
    return config.attention


def _share(rules: tuple[Finding, ...]) -> float | None:
    return sum(rule.is_found for rule in rules) / len(rules) if rules else None


def _rules(rules: tuple[Finding, ...]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (rule.source, rule.dest, rule.out, str(rule.rank), f"{rule.lift:.2f}", f"{rule.attention:.3f}", rule.head)
        for rule in rules
    )


def _lines(curves: list[tuple[str, list[tuple[int, float]]]]) -> tuple[Line, ...]:
    return tuple(
        Line(label=label, x=tuple(float(x) for x, _ in points), y=tuple(y for _, y in points))
        for label, points in curves
        if points
    )
