"""What a check finds: facts, each a number against a bound; and the verdict, which follows from them.

A check says what it measured and never what should come out:

- ``stated``: the statement as it is printed;
- ``outside``: the same where a condition that the statement leaves out is not met;
- ``corrected``: what should have been printed;
- ``defined``: that our code computes what the document defines;
- ``answered``: what the answer to a question rests on;
- ``drawn``: what a figure must show;
- ``reported``: a number that only a model can give, beside its baseline;
- ``beside``: a number for the reader, which decides nothing.

>>> verdict([stated("sum", 2e-16, within=1e-10)])
'holds'
>>> verdict([stated("sum", 2e-16, within=1e-10), outside("norm", 3.0, within=1e-10)])
'conditions'
>>> verdict([stated("sum", 3.0, within=1e-10), corrected("frozen", 2e-16, within=1e-10)])
'false'
>>> verdict([stated("sum", 3.0, within=1e-10)])
'unsettled'
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, SupportsFloat, TypeAlias

Role: TypeAlias = Literal["stated", "outside", "corrected", "defined", "answered", "drawn", "reported", "beside"]
Verdict: TypeAlias = Literal["holds", "conditions", "false", "empirical", "definition", "question", "figure", "unsettled"]
VERDICTS: tuple[Verdict, ...] = ("holds", "conditions", "false", "empirical", "definition", "question", "figure")
"""In the order of the ledger's columns. The eighth, ``unsettled``, is what a check must not end in."""
Relation: TypeAlias = Literal["within", "above", "below", "equal", "none"]
SIGNS: dict[Relation, str] = {"within": "≤", "above": ">", "below": "<", "equal": "=", "none": ""}


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One number, and what it is held against. ``name`` leads to its words, which stand beside the claim's text."""

    role: Role
    name: str
    measured: float
    relation: Relation = "none"
    bound: float = 0.0
    printed: tuple[float, ...] = ()
    """The numbers of a worked example as the document has them, and beside them the right ones."""
    right: tuple[float, ...] = ()

    @property
    def passes(self) -> bool:
        """Whether the number is where the bound wants it; what is no number never is."""
        if not math.isfinite(self.measured):
            return False
        return {
            "within": abs(self.measured) <= self.bound,
            "above": self.measured > self.bound,
            "below": self.measured < self.bound,
            "equal": self.measured == self.bound,
            "none": True,
        }[self.relation]


@dataclass(frozen=True)
class _In:
    """Makes facts of one role."""

    role: Role

    def __call__(
        self,
        name: str,
        measured: SupportsFloat,
        *,
        within: SupportsFloat | None = None,
        above: SupportsFloat | None = None,
        below: SupportsFloat | None = None,
        equal: SupportsFloat | None = None,
    ) -> Fact:
        """A fact that passes when ``|measured| ≤ within``, or ``measured > above``, ``< below``, ``== equal``."""
        bounds: dict[Relation, SupportsFloat | None] = {"within": within, "above": above, "below": below, "equal": equal}
        given: list[tuple[Relation, float]] = [
            (relation, float(bound)) for relation, bound in bounds.items() if bound is not None
        ]
        assert len(given) == 1, f"{name} needs one bound"
        return Fact(role=self.role, name=name, measured=float(measured), relation=given[0][0], bound=given[0][1])


stated, outside, corrected = _In("stated"), _In("outside"), _In("corrected")
defined, answered, drawn, reported = _In("defined"), _In("answered"), _In("drawn"), _In("reported")


def beside(name: str, measured: SupportsFloat) -> Fact:
    """A number for the reader, which decides nothing."""
    return Fact(role="beside", name=name, measured=float(measured))


def recalculated(
    name: str, printed: Iterable[SupportsFloat], right: Iterable[SupportsFloat], *, within: float, role: Role = "stated"
) -> Fact:
    """The numbers of a worked example beside the right ones: how far apart they are at the most.

    >>> recalculated("mean", [0.65], [0.6512], within=0.005).passes
    True
    """
    theirs, ours = tuple(map(float, printed)), tuple(map(float, right))
    apart = max(abs(a - b) for a, b in zip(theirs, ours, strict=True))
    return Fact(role=role, name=name, measured=apart, relation="within", bound=within, printed=theirs, right=ours)


@dataclass(frozen=True)
class Finding:
    """What one check found."""

    facts: tuple[Fact, ...]
    on: str = ""
    """The name of the model that they were found on; none where weights were drawn or made."""
    examples: tuple[str, ...] = ()
    """What was found, in the model's own words: skip-trigrams, bigrams, heads."""

    @property
    def verdict(self) -> Verdict:
        """What follows from the facts."""
        return verdict(self.facts)

    @property
    def supported(self) -> bool | None:
        """Whether every reported number lies on the side of its baseline that the statement says; none where nothing is reported."""
        reports = any(fact.role == "reported" for fact in self.facts)
        return not self.unsupported if reports else None

    @property
    def unsupported(self) -> frozenset[str]:
        """The reported numbers that lie on the other side."""
        return frozenset(fact.name for fact in self.facts if fact.role == "reported" and not fact.passes)

    @property
    def needless(self) -> frozenset[str]:
        """Conditions without which the statement holds all the same, although it breaks without others."""
        passing = frozenset(fact.name for fact in self.facts if fact.role == "outside" and fact.passes)
        return passing if self.verdict == "conditions" else frozenset()

    @property
    def printed(self) -> tuple[Fact, ...]:
        """The numbers of a worked example that the document has; those of a correction are our own."""
        return tuple(fact for fact in self.facts if fact.printed and fact.role != "corrected")

    @property
    def leading(self) -> Fact:
        """The one fact that stands for all: what breaks the statement, the number on the model, or else the first that decides."""
        deciding = [fact for fact in self.facts if fact.role != "beside"]
        telling = {
            "false": [fact for fact in deciding if fact.role == "stated" and not fact.passes],
            "empirical": [fact for fact in deciding if fact.role == "reported"],
        }
        return (telling.get(self.verdict) or deciding)[0]


def found(*facts: Fact, on: str = "", examples: Iterable[str] = ()) -> Finding:
    """What a check returns."""
    return Finding(facts, on, tuple(examples))


SHOWN: tuple[tuple[Role, Verdict], ...] = (("drawn", "figure"), ("answered", "question"), ("defined", "definition"))


def verdict(facts: Sequence[Fact]) -> Verdict:
    """What follows from facts.

    A figure, a question or a definition stands when all that must be so is. A number beside its baseline makes the statement one
    for experience, whichever side it lies on, as long as what is exact about it is met. Any other statement holds, holds under
    conditions when it is met and breaks outside of them, or is false when it is not met and its correction is.
    """
    met: dict[Role, list[bool]] = {}
    for fact in facts:
        met.setdefault(fact.role, []).append(fact.passes)
    for role, named in SHOWN:
        if role in met:
            return named if all(met[role]) and all(met.get("stated", ())) else "unsettled"
    if "reported" in met:
        exact = all(met.get("stated", ())) and all(math.isfinite(fact.measured) for fact in facts)
        return "empirical" if exact else "unsettled"
    if not met.get("stated") or not all(met.get("corrected", ())):
        return "unsettled"
    if all(met["stated"]):
        return "holds" if all(met.get("outside", ())) else "conditions"
    return "false" if "corrected" in met else "unsettled"
