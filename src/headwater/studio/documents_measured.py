"""A claim, measured for the page: the numbers as the library found them, and as readers of a language write them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from fastapi import Request

from headwater.claims.claim import Language
from headwater.claims.evidence import Fact, Relation, Role, Verdict
from headwater.claims.given import Given
from headwater.claims.labels import ROLE, bound, number, numbers
from headwater.claims.registry import chosen, code_of
from headwater.claims.verdicts import Answer as Found
from headwater.claims.verdicts import ask
from headwater.studio.asked import Answer, Lines, finite, memory, shelf
from headwater.studio.formulas import Piece, prose
from headwater.studio.lines import path_in_shell
from headwater.studio.shelf import Item
from headwater.studio.stamps import model_files, stamp
from headwater.studio.work import Stop

Value = TypeVar("Value")
KEPT = 2
"""Sets of models that stay at hand: the reference models, and somebody's own."""


class FactTold(Answer):
    """One number that a check measured, and what it is held against."""

    role: Role
    role_said: str
    name: str
    label: list[Piece]
    measured: float | None
    shown: str
    """As it is printed in this language."""
    relation: Relation
    bound: float | None
    bound_shown: str
    passes: bool | None
    """None where nothing is demanded of it."""
    printed: list[float]
    """The numbers of a worked example as the document has them."""
    right: list[float]
    printed_shown: str
    right_shown: str


class Measured(Answer):
    """What a check found."""

    id: str
    verdict: Verdict
    recorded: Verdict
    ok: bool
    """Whether the verdict is the recorded one, and with it what the numbers support."""
    supported: bool | None
    leading: str
    """The one number that stands for all, as it is printed."""
    measured: float | None
    on: str
    """The model; none where weights were drawn for the purpose."""
    examples: list[str]
    facts: list[FactTold]
    code: str
    seconds: float
    lines: Lines


@dataclass(frozen=True)
class Asked:
    """Which claim, in which language, and of which model of the shelf."""

    id: str
    lang: Language
    model: str | None


def item_of(request: Request, model: str) -> Item:
    """A model of the shelf, as it was given; refused where there is none, or where its files have changed."""
    shelf(request).model(model)
    return shelf(request).models[model]


class Watched(Given):
    """What claims are measured on, looked after: between two things that it makes, and while it makes one, it sees whether somebody still waits."""

    stop: Stop | None = None

    def once(self, name: str, make: Callable[[], Value]) -> Value:
        """What ``make`` makes, made once."""
        self.listen()
        return super().once(name, make)

    def listen(self) -> None:
        """End here where nobody waits any more."""
        if self.stop is not None:
            self.stop()


def given(request: Request, model: str | None, stop: Stop) -> Given:
    """The reference models, or one of the shelf among them; what they have made stays for the next question. In the lane ``model`` alone."""
    kept = memory(request).givens
    item = None if model is None else item_of(request, model)
    key = None if item is None else (item.id, stamp(model_files(item.path)))
    if key not in kept:
        # By its path, which nobody is told: the name as it was given counts from where the studio was started.
        kept[key] = Watched() if item is None else Watched(str(item.path), called=item.name)
    kept.move_to_end(key)
    while len(kept) > KEPT:
        kept.popitem(last=False)[1].__exit__(None, None, None)
    kept[key].stop = stop
    return kept[key]


def measured(request: Request, asked: Asked, stop: Stop) -> Measured:
    """A claim's check, run."""
    claims = chosen([asked.id])
    (found,) = ask(claims, given(request, asked.model, stop))
    return told(found, asked.lang, None if asked.model is None else item_of(request, asked.model).name)


def told(found: Found, lang: Language, model: str | None = None) -> Measured:
    """What a check found, for the page."""
    finding, words = found.finding, found.claim.words(lang)
    own = "" if model is None else f", model={model!r}"
    option = "" if model is None else f" --model {path_in_shell(model)}"
    return Measured(
        id=found.claim.id,
        verdict=finding.verdict,
        recorded=found.claim.verdict,
        ok=found.ok,
        supported=finding.supported,
        leading=number(finding.leading.measured, lang),
        measured=finite(finding.leading.measured),
        on=finding.on,
        examples=list(finding.examples),
        facts=[_fact(fact, words.facts.get(fact.name, fact.name), lang) for fact in finding.facts],
        code=code_of(found.claim.id),
        seconds=found.seconds,
        lines=Lines.of(
            f'import headwater as hw\nprint(hw.measure("{found.claim.id}"{own})[0])',
            f"headwater claims {found.claim.id} --lang {lang}{option} --json",
        ),
    )


def _fact(fact: Fact, label: str, lang: Language) -> FactTold:
    is_held = fact.relation != "none"
    return FactTold(
        role=fact.role,
        role_said=ROLE[lang][fact.role],
        name=fact.name,
        label=prose(label),
        measured=finite(fact.measured),
        shown=number(fact.measured, lang),
        relation=fact.relation,
        bound=finite(fact.bound) if is_held else None,
        bound_shown=bound(fact, lang),
        passes=fact.passes if is_held else None,
        printed=list(fact.printed),
        right=list(fact.right),
        printed_shown=numbers(fact.printed, lang) if fact.printed else "",
        right_shown=numbers(fact.right, lang) if fact.printed else "",
    )
