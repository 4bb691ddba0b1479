"""Claims, asked: what each check found, whether that is what was found before, and how the counts compare with the ledger's."""

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.claims.claim import Claim, Language
from headwater.claims.evidence import VERDICTS, Fact, Finding, Verdict
from headwater.claims.given import Given
from headwater.claims.registry import check_of, chosen
from headwater.errors import HeadwaterError, InputError
from headwater.show.values import Progress, silent


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A claim and what its check found."""

    claim: Claim
    finding: Finding
    seconds: float
    own: bool
    """Whether it was measured on somebody's own model, of which nobody has said yet what it supports."""

    def __str__(self) -> str:
        from headwater.claims.in_full import in_full

        return in_full(self)

    @property
    def ok(self) -> bool:
        """Whether the verdict is the recorded one; on the reference models also what the numbers support, and that each condition is one."""
        same = self.own or (self.finding.unsupported == self.claim.unsupported and not self.finding.needless)
        return self.finding.verdict == self.claim.verdict and same

    def plain(self, language: Language) -> dict[str, Any]:
        """For JSON."""
        words = self.claim.words(language)
        return {
            "id": self.claim.id,
            "verdict": self.finding.verdict,
            "recorded": self.claim.verdict,
            "ledger": self.claim.ledger,
            "measured": _finite(self.finding.leading.measured),
            "supported": self.finding.supported,
            "ok": self.ok,
            "document": self.claim.document,
            "line": self.claim.line,
            "kind": self.claim.kind,
            "place": words.place,
            "statement": words.statement,
            "formula": self.claim.formula,
            "why": words.why,
            **{name: text for name in ("correction", "answer", "supports", "differs") if (text := getattr(words, name))},
            "related": list(self.claim.related),
            "on": self.finding.on,
            "examples": list(self.finding.examples),
            "facts": [_plain_fact(fact, words.facts.get(fact.name, fact.name)) for fact in self.finding.facts],
        }


@dataclass(frozen=True)
class Refusal:
    """A claim that cannot be asked of somebody's own model, and what it would need."""

    claim: Claim
    why: HeadwaterError

    def plain(self) -> dict[str, str]:
        """For JSON."""
        return {"id": self.claim.id, "given": self.why.given, "needed": self.why.needed}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _plain_fact(fact: Fact, label: str) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": fact.role, "name": fact.name, "label": label, "measured": _finite(fact.measured)}
    if fact.relation != "none":
        plain |= {"relation": fact.relation, "bound": _finite(fact.bound), "passes": fact.passes}
    if fact.printed:
        plain |= {"printed": list(fact.printed), "right": list(fact.right)}
    return plain


def measure(*ids: str, model: str | None = None) -> list[Answer]:
    """Some claims, or all of them, on the reference models or on one of yours; each answer prints itself in full.

    Where all are meant, those that cannot be asked of your model are left out.

    >>> answer = measure("000-E4")[0]
    >>> answer.finding.verdict, answer.ok
    ('false', True)
    """
    with Given(model) as given:
        refused: list[Refusal] = []
        answers = list(ask(chosen(ids), given, refused=refused))
    if refused and (ids or not answers):
        raise refused[0].why
    return answers


def ask(
    claims: Sequence[Claim], given: Given, progress: Progress = silent, *, refused: list[Refusal] | None = None
) -> Iterator[Answer]:
    """Each claim's check, run; the answers come as they are found.

    What cannot be asked of somebody's own model is put into ``refused``, so that it does not stand in the way of the others.
    """
    for number, claim in enumerate(claims):
        progress(claim.id, number / len(claims))
        start = time.perf_counter()
        try:
            finding, own = _find(claim, given)
        except HeadwaterError as error:
            why = error.within(claim.id)
            if refused is None or not given.has_own:
                raise why from error
            refused.append(Refusal(claim, why))
            continue
        yield Answer(claim=claim, finding=finding, seconds=time.perf_counter() - start, own=own)
    progress("", 1.0)


def _find(claim: Claim, given: Given) -> tuple[Finding, bool]:
    """What the check finds, and whether on somebody's own model. There, what comes out as no number was no question to ask."""
    try:
        finding = check_of(claim.id)(given)
    except ZeroDivisionError as error:
        if given.has_own:
            raise _no_number("a division by nothing") from error
        raise
    own = bool(finding.on) and given.is_own(finding.on)
    undefined = [fact.name for fact in finding.facts if math.isnan(fact.measured) or math.isnan(fact.bound)]
    if own and undefined and finding.verdict == "unsettled":
        raise _no_number(", ".join(undefined))
    return finding, own


def _no_number(what: str) -> InputError:
    return InputError(f"{what}: no number", "weights that are not zero, and a context in which it occurs", "use another model")


@dataclass(frozen=True)
class Count:
    """How many claims of a document come to each verdict, and how many the ledger has there."""

    document: str
    found: dict[Verdict, int]
    ledger: dict[Verdict, int]


def counts(answers: Sequence[Answer]) -> list[Count]:
    """For each document, in order."""
    documents = dict.fromkeys(answer.claim.document for answer in answers)
    return [_count(document, [answer for answer in answers if answer.claim.document == document]) for document in documents]


def _count(document: str, answers: Sequence[Answer]) -> Count:
    found = Counter(answer.finding.verdict for answer in answers)
    ledger = Counter(answer.claim.ledger for answer in answers)
    every: tuple[Verdict, ...] = (*VERDICTS, "unsettled")
    return Count(document, {name: found[name] for name in every}, {name: ledger[name] for name in every})
