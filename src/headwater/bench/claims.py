# pyright: basic
# A job may return anything.
"""All claims of the five source documents, measured in one run, as ``headwater claims`` does it."""

from collections import defaultdict
from collections.abc import Callable

from headwater.bench.contest import contest
from headwater.bench.goals import Table, at_most, shown

TITLE = "Claims: every statement of the five source documents, measured"
ROUNDS, MINUTES = 1, 5.0
ALL, MOST = "all claims", 5


def table(rounds: int) -> Table:
    """The run gives its own profile: how long each document took, and the slowest claims."""
    result = contest({ALL: "claims:measured"}, rounds)[ALL]
    rows = [["", "seconds", "MB"], [ALL, shown(result.seconds, 1), shown(result.megabytes, 0)]]
    rows += [[name, shown(seconds, 1), ""] for name, seconds in result.phases.items()]
    return Table(rows, [at_most("the whole run", result.seconds / 60, MINUTES, unit="minutes")])


def measured() -> Callable[[], dict[str, float]]:
    from headwater.claims.given import Given
    from headwater.claims.registry import chosen
    from headwater.claims.verdicts import ask

    def run() -> dict[str, float]:
        documents: dict[str, float] = defaultdict(float)
        with Given(None) as given:
            answers = list(ask(chosen(()), given))
        for answer in answers:
            documents[f"document {answer.claim.document}"] += answer.seconds
        other = [answer.claim.id for answer in answers if not answer.ok]
        assert not other, f"not as recorded: {other}"
        slowest = sorted(answers, key=lambda answer: -answer.seconds)[:MOST]
        return {**documents, **{f"{answer.claim.id} alone": answer.seconds for answer in slowest}}

    return run
