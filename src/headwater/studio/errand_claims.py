"""The errand ``claims``: statements measured one after the other, each told as soon as it is found."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headwater.claims.claim import Language
from headwater.claims.given import Given
from headwater.claims.registry import chosen
from headwater.claims.verdicts import Answer, Refusal, ask, counts


@dataclass(frozen=True)
class Wanted:
    """Which statements, in which language, and on which model: its path, and what it is called."""

    document: str | None = None
    lang: Language = "en"
    model: str | None = None
    name: str | None = None


def measure_claims(wanted: Wanted, say: Callable[[dict[str, Any]], None]) -> None:
    """Measure, and say every event: ``{"what", "share"}``, ``{"answer"}``, ``{"refused"}``, and at the end ``{"done"}``."""
    from headwater.studio.documents_measured import told

    claims, refused, answers = chosen(document=wanted.document), list[Refusal](), list[Answer]()
    with Given(wanted.model, called=wanted.name) as given:
        for answer in ask(claims, given, lambda what, share: say({"what": what, "share": share}), refused=refused):
            answers.append(answer)
            say({"answer": told(answer, wanted.lang, wanted.name).model_dump(mode="json")})
    for each in refused:
        say({"refused": each.plain()})
    tally = {
        "asked": len(claims),
        "answered": len(answers),
        "as_recorded": sum(answer.ok for answer in answers),
        "refused": len(refused),
        "seconds": sum(answer.seconds for answer in answers),
        "counts": [{"document": each.document, "found": each.found} for each in counts(answers)],
    }
    say({"done": tally})
