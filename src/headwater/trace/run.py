"""``Run``: what a model did with a text, as a value that can be asked why."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from headwater.circuits.head import HeadName
from headwater.errors import InputError
from headwater.model.record import Record
from headwater.model.taps import NOBODY, Tap
from headwater.shapes import floats, whole
from headwater.show.html import fragment
from headwater.show.values import Table
from headwater.text.spoken import Spoken
from headwater.text.tokenizer import Tokenizer
from headwater.trace import kept
from headwater.trace.attend import Attending, attend
from headwater.trace.edits import Zero
from headwater.trace.effects import Effect, effect
from headwater.trace.experts import are_experts, experts
from headwater.trace.frozen import Frozen
from headwater.trace.looks import Survey, View, looks, survey
from headwater.trace.nodes import StreamNode, token_facts
from headwater.trace.parts import MOST, Split, take_apart
from headwater.trace.patterns import Patterns
from headwater.trace.places import Place, PlaceName, find_place
from headwater.trace.question import about_logit, check_one_text, known, within
from headwater.trace.totals import Totals, totals
from headwater.trace.view.stream import StreamView, stream

SHOWN = 12
"""Positions of a long text whose predictions are printed, from its end."""


@dataclass(frozen=True, eq=False, repr=False)
class Run(Record):
    """A record of one forward pass, and the words for its tokens.

    >>> import torch
    >>> from headwater.model.presets import named
    >>> from headwater.model.record import record
    >>> from headwater.model.weights import Weights
    >>> run = Run.of(record(Weights.draw(named("one-layer"), seed=0), torch.tensor([[1, 2, 3]])))
    >>> why = run.explain(position=-1, token=7)
    >>> len(why.parts), why.certificate < 1e-5
    (9, True)
    """

    tokenizer: Tokenizer | None = None

    @classmethod
    def of(cls, record: Record, tokenizer: Tokenizer | None = None) -> "Run":
        """A record, with words."""
        return cls(record.weights, record.tokens, record.kept, record.tap, record.made, tokenizer)

    @cached_property
    def words(self) -> Spoken:
        """Ids as people read them."""
        return Spoken(self.tokenizer)

    @property
    def frozen(self) -> Frozen:
        """The run with everything held fixed that it measured."""
        # Not kept: the two would hold each other, and a run's tensors would wait for the garbage collector.
        return Frozen(self, self.words)

    def explain(
        self, position: int = -1, token: str | int | None = None, against: str | int | None = None, *, centred: bool = False
    ) -> Split:
        """The logit of a token after a position, as a sum of what the components wrote; each part splits further.

        Without a token, the likeliest is explained. ``against`` another token, the difference of their logits is, which is that of their
        log-probabilities too; ``centred``, how far the logit is above the mean of all. Positions count from the end where they are negative.
        """
        check_one_text(self)
        position = within(position, self.tokens.shape[1], "position")
        logits = self.logits_at(position)[0].double()
        chosen = int(logits.argmax()) if token is None else self.find(token)
        other = None if against is None else self.find(against)
        if other is not None and centred:
            raise InputError("a difference that is centred too", "one of the two", "leave out against, or centred")
        question = about_logit(self, position, chosen, other, centred=centred)
        rest = 0.0 if other is None and not centred else float(logits.mean()) if centred else float(logits[other])
        is_told = other is None and not centred and self.tap is NOBODY and are_experts(self.config)
        says = self._says(position, chosen) if is_told and self._is_bare else ""
        node = StreamNode(self.frozen, question, says=says)
        label, value = self._label(position, chosen, other, centred=centred), float(logits[chosen]) - rest
        facts = {"position": position, **self._asked(position, chosen, other), **({"centred": True} if centred else {})}
        split = take_apart(label, value, node, None, most=MOST, ending="logit")
        remarks = (self._in_their_words(position, chosen),) if is_told else self._remarks(position, chosen, other)
        return replace(split, remarks=remarks, facts=facts)

    def attend(self, head: HeadName, dest: int = -1, source: int | None = None, against: int | None = None) -> Attending:
        """Why a head at ``dest`` attends to ``source``: its score as a sum over what made the query and what made the key.

        Without a source, the one that it looks at most is meant; ``against`` another, the difference of their scores is taken apart.
        """
        return attend(self.frozen, head, dest, source, against)

    def looks(self, head: HeadName, view: View = "pattern") -> Float[Tensor, "dest source"]:
        """Where one head looks, ``[dest, source]``: its attention; ``"weighted"`` by the length of what it would write from each source; or its ``"scores"``."""
        return looks(self.frozen, head, view)

    def survey(self) -> Survey:
        """All heads on this text: how much each looks at the token before, its own, the first one; and small pictures of their patterns."""
        return survey(self.frozen)

    def patterns(self) -> Patterns:
        """The attention of all heads on this text, to be printed and, in a notebook, looked at head by head."""
        check_one_text(self)
        return Patterns(self.frozen)

    def totals(
        self,
        position: int | None = -1,
        token: str | int | None = None,
        against: str | int | None = None,
        *,
        listen: Callable[[], None] = lambda: None,
    ) -> Totals:
        """What every token, head, layer and order comes to in a logit, by one sweep; ``position=None`` asks at all positions at once.

        Without a token, at one position the likeliest is meant; at all positions, at each the token that did come next, and at the last the likeliest.
        ``listen`` is called between two steps, and may end it by an error.
        """
        check_one_text(self)
        length = self.tokens.shape[1]
        at = list(range(length)) if position is None else [within(position, length, "position")]
        if token is not None:
            ids = [self.find(token)] * len(at)
        else:
            likeliest = int(self.logits_at(at[-1]).argmax())
            ids = [*([] if position is not None else whole(self.tokens[0, 1:])), likeliest]
        others = None if against is None else [self.find(against)] * len(at)
        return totals(self.frozen, at, ids, others, listen=listen)

    def stream(
        self, positions: int | Iterable[int] | None = None, token: str | int | None = None, *, top: int = 5
    ) -> StreamView:
        """The stream at every stage of every block: lengths, cosines, logit lens, shares, what norms changed.

        ``token`` is the one whose probability and rank are told; without it, the one that the text goes on with.
        """
        chosen = None if token is None else self.find(token)
        return stream(self, positions=positions, token=chosen, top=top, words=self.words)

    def effect(
        self, edit: Tap | PlaceName, position: int = -1, token: str | int | None = None, against: str | int | None = None
    ) -> Effect:
        """What an edit does to a token's logit: in the frozen model, and in the model as it is. A name such as ``"L1H4"`` stands for zeros there."""
        tap = edit if isinstance(edit, Tap) else Zero(self.place(edit))
        chosen = self.top(position, 1)[0][0] if token is None else self.find(token)
        return effect(self, tap, position, chosen, None if against is None else self.find(against))

    def place(self, name: PlaceName) -> Place:
        """Where an edit is made: ``L1H4``, ``L0.feed_forward``, ``L1N17``, ``L1H4.pattern``, ``embed@3`` or any other site."""
        return find_place(name, self.config)

    def find(self, token: str | int) -> int:
        """The id of a token that is given by its text or by its id."""
        if not isinstance(token, str):
            return known(token, self.config.vocab)
        if self.tokenizer is None:
            raise InputError(f"the token {token!r:.40} for a model without a tokenizer", "a token's id", "give its number")
        ids = self.tokenizer.encode(token)
        if len(ids) == 1:
            return ids[0]
        pieces = ", ".join(self.words(each) for each in ids[:8])
        advice = f"choose one of {pieces}" if ids else "give a text that is a token"
        raise InputError(
            f"{token!r:.60}, which is {len(ids)} tokens of this model", "one token; many begin with a space", advice
        )

    def top(self, position: int = -1, count: int = 5) -> list[tuple[int, float]]:
        """The likeliest tokens after a position, with their probabilities."""
        check_one_text(self)
        p = self.logits_at(within(position, self.tokens.shape[1], "position"))[0].double().softmax(dim=-1)
        best = p.sort(descending=True, stable=True)
        return list(zip(whole(best.indices[:count]), floats(best.values[:count]), strict=True))

    def save(self, path: str | Path) -> None:
        """Write the run, with its model and its words, to one file; ``load_run`` opens it without anything else."""
        kept.save(self, Path(path), tokenizer=self.tokenizer)

    def __str__(self) -> str:
        lines = [repr(self)]
        for table in self._tables():
            width = max(len(row[0]) for row in table.rows)
            lines += [f"  {place:{width}}  {said}" for place, said in table.rows]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return fragment(*self._tables(), remarks=(repr(self),))

    def _tables(self) -> Sequence[Table]:
        if len(self.tokens) != 1:
            return ()
        length = self.tokens.shape[1]
        rows = [(self.frozen.place(position), self._said(position)) for position in range(max(0, length - SHOWN), length)]
        title = "" if length <= SHOWN else f"the last {SHOWN} of {length:,} positions"
        return (Table(title=title, columns=("token", "what comes next"), rows=tuple(rows)),)

    def _said(self, position: int) -> str:
        return "  ".join(f"{self.words(token)} {p:.0%}" for token, p in self.top(position, 3))

    def _label(self, position: int, token: int, against: int | None, *, centred: bool) -> str:
        above = " above the mean of all" if centred else "" if against is None else f" above {self.words(against)}"
        return f"logit of {self.words(token)}{above} after {self.frozen.place(position)}"

    def _says(self, position: int, token: int) -> str:
        return f"{self.words(int(self.tokens[0, position]))} → {self.words(token)}"

    def _asked(self, position: int, token: int, against: int | None) -> dict[str, Any]:
        p = self.logits_at(position)[0].double().softmax(dim=-1)
        named = {"token": self.words.text(token), "id": token, "probability": float(p[token])}
        at = {f"dest_{name}": value for name, value in token_facts(self.frozen, position).items()}
        other = (
            {}
            if against is None
            else {"against": self.words.text(against), "against_id": against, "against_probability": float(p[against])}
        )
        return {**at, **named, **other}

    @property
    def _is_bare(self) -> bool:
        """Whether a one-layer model has nothing but tokens to say: no positions in the stream, no biases on the way."""
        biases = [self.weights.blocks[0].attention.b_V, self.weights.norm("L0.norm_1").bias]
        return "positions" not in self and all(bias is None for bias in biases)

    def _in_their_words(self, position: int, token: int) -> str:
        told = experts(self, position, token).words(self.words)
        return told if self._is_bare else f"In the documents' terms, with positions and biases apart: {told}"

    def _remarks(self, position: int, token: int, against: int | None) -> tuple[str, ...]:
        p = self.logits_at(position)[0].double().softmax(dim=-1)
        said = f"p({self.words(token)}) = {float(p[token]):.4f}"
        if against is None:
            return (f"{said}; logits add up, probabilities do not",)
        return (
            f"{said}, p({self.words(against)}) = {float(p[against]):.4f}; the difference of logits is that of log-probabilities",
        )


def load_run(path: str | Path) -> Run:
    """The run in a file that ``Run.save`` wrote: nothing else is needed."""
    return Run.of(*kept.load(Path(path)))
