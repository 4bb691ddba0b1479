"""The errand ``claims DOCUMENT LANG MODEL``: statements measured one after the other, each told as soon as it is found. Empty names mean all, and our models."""

from collections.abc import Callable
from typing import Any, cast

from headwater.claims.claim import Language
from headwater.claims.given import Given
from headwater.claims.registry import chosen
from headwater.claims.verdicts import Answer, Refusal, ask, counts


def measure_claims(say: Callable[[dict[str, Any]], None], document: str, lang: str, model: str) -> None:
    """Measure; every event is said."""
    from headwater.studio.documents_measured import told

    language = cast(Language, lang)
    wanted, refused, answers = chosen(document=document or None), list[Refusal](), list[Answer]()

    def tell(what: str, share: float) -> None:
        for each in refused[tell_from[0] :]:
            say({"refused": each.plain()})
        tell_from[0] = len(refused)
        say({"what": what, "share": share})

    tell_from = [0]
    with Given(model or None) as given:
        for answer in ask(wanted, given, tell, refused=refused):
            answers.append(answer)
            say({"answer": told(answer, language, model or None).model_dump(mode="json")})
    found = counts(answers)
    say(
        {
            "done": {
                "asked": len(wanted),
                "answered": len(answers),
                "as_recorded": sum(answer.ok for answer in answers),
                "refused": len(refused),
                "seconds": sum(answer.seconds for answer in answers),
                "counts": [{"document": each.document, "found": each.found} for each in found],
            }
        }
    )
