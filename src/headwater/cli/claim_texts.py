"""Claims in the terminal: one in full, or all of them in a table with the counts and the contradictions."""

from collections.abc import Sequence
from typing import Any

from headwater.claims.claim import Language
from headwater.claims.contradictions import contradictions
from headwater.claims.evidence import VERDICTS, Verdict
from headwater.claims.in_full import in_full, told
from headwater.claims.labels import VERDICT, WORDS, bound, number, short
from headwater.claims.verdicts import Answer, Count, Refusal, counts
from headwater.cli.terminal import say, show_table


def plain(answers: Sequence[Answer], language: Language, refused: Sequence[Refusal] = ()) -> dict[str, Any]:
    """For JSON."""
    asked = {answer.claim.id for answer in answers}
    return {
        "claims": [answer.plain(language) for answer in answers],
        "counts": [{"document": count.document, "found": count.found, "ledger": count.ledger} for count in counts(answers)],
        "contradictions": [
            {"ids": list(found.ids), "right": list(found.right), "text": found.text(language)}
            for found in contradictions()
            if asked >= set(found.ids)
        ],
        "refused": [each.plain() for each in refused],
        "ok": all(answer.ok for answer in answers),
    }


def show_each(answers: Sequence[Answer], language: Language) -> None:
    """Each claim in full."""
    for index, answer in enumerate(answers):
        say(("\n" + "─" * 60 + "\n") * bool(index) + in_full(answer, language))


def show_all(answers: Sequence[Answer], language: Language) -> None:
    """A line for each claim, then how many came to each verdict, and where the documents disagree."""
    label = WORDS[language]
    rows = [_row(answer, language) for answer in answers]
    columns = ["id", label["verdict"], label["measured"] + "#", label["against"], label["ok"], label["statement"]]
    show_table(columns, rows)
    found = counts(answers)
    show_table(
        [label["document"], *(f"{short(name, language)}#" for name in _columns(found)), f"{label['all']}#"],
        [_count_row(count, _columns(found)) for count in [*found, _total(found, label["all"])]],
        title=f"\n{label['counts']}",
    )
    asked = {answer.claim.id for answer in answers}
    rows = [[", ".join(one.ids), one.text(language)] for one in contradictions() if asked >= set(one.ids)]
    if rows:
        show_table(["id", ""], rows, title=f"\n{label['contradictions']}")
    wrong = [answer for answer in answers if not answer.ok]
    if wrong:
        rows = [[answer.claim.id, VERDICT[language][answer.claim.verdict], told(answer, language)] for answer in wrong]
        show_table(["id", label["ok"], label["measured"]], rows, title=f"\n{label['differences']}")


def show_refused(refused: Sequence[Refusal], language: Language) -> None:
    """The claims that could not be asked of a model, and why."""
    label = WORDS[language]
    rows = [[each.claim.id, each.why.given.removeprefix(f"{each.claim.id}: "), each.why.needed] for each in refused]
    show_table(["id", label["given"], label["needed"]], rows, title=f"\n{label['refused']}")


def _row(answer: Answer, language: Language) -> list[str]:
    claim, finding, label = answer.claim, answer.finding, WORDS[language]
    return [
        claim.id,
        short(finding.verdict, language),
        number(finding.leading.measured, language),
        bound(finding.leading, language),
        label["yes"] if answer.ok else label["no"],
        claim.words(language).statement,
    ]


def _columns(found: Sequence[Count]) -> list[Verdict]:
    unsettled: list[Verdict] = ["unsettled"] if any(count.found["unsettled"] for count in found) else []
    return [*VERDICTS, *unsettled]


def _total(found: Sequence[Count], name: str) -> Count:
    every: tuple[Verdict, ...] = (*VERDICTS, "unsettled")
    return Count(
        name,
        {verdict: sum(count.found[verdict] for count in found) for verdict in every},
        {verdict: sum(count.ledger[verdict] for count in found) for verdict in every},
    )


def _count_row(count: Count, columns: Sequence[Verdict]) -> list[str]:
    pairs = [(count.found[name], count.ledger[name]) for name in columns]
    pairs.append((sum(count.found.values()), sum(count.ledger.values())))
    return [count.document, *(f"{found} / {ledger}" for found, ledger in pairs)]
