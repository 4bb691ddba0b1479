"""Claims in the terminal: one in full, or all of them in a table with the counts and the contradictions."""

from collections.abc import Sequence
from typing import Any

from headwater.claims.claim import Language
from headwater.claims.contradictions import contradictions
from headwater.claims.evidence import VERDICTS, Verdict
from headwater.claims.labels import ROLE, VERDICT, WORDS, bound, number, numbers, short
from headwater.claims.registry import TITLES, all_claims, code_of
from headwater.claims.verdicts import Answer, Count, counts
from headwater.cli.terminal import say, show_table


def plain(answers: Sequence[Answer], language: Language) -> dict[str, Any]:
    """For JSON."""
    return {
        "claims": [answer.plain(language) for answer in answers],
        "counts": [{"document": count.document, "found": count.found, "ledger": count.ledger} for count in counts(answers)],
        "contradictions": [
            {"ids": list(found.ids), "right": list(found.right), "text": found.text(language)} for found in contradictions()
        ],
        "ok": all(answer.ok for answer in answers),
    }


def show_each(answers: Sequence[Answer], language: Language) -> None:
    """Each claim in full."""
    for index, answer in enumerate(answers):
        if index:
            say("\n" + "─" * 60)
        _show_one(answer, language)


def _show_one(answer: Answer, language: Language) -> None:
    claim, finding, words = answer.claim, answer.finding, answer.claim.words(language)
    label = WORDS[language]
    say(f"{claim.id} · {TITLES[claim.document][language]}, {label['line']} {claim.line} · {words.place}\n")
    say(words.statement)
    if claim.formula:
        say(f"\n    {claim.formula}")
    say(f"\n{label['verdict']}: {VERDICT[language][finding.verdict]}{_support(answer, language)}")
    say(f"\n{words.why}")
    for name in ("correction", "answer", "supports", "differs"):
        if text := getattr(words, name):
            say(f"\n{label[name]}: {text}")
    say("")
    columns = [label["number"], label["measured"] + "#", label["against"], "", label["role"]]
    show_table(columns, [_fact_row(answer, index, language) for index in range(len(finding.facts))])
    _show_examples(answer, language)
    say(f"\n{label['on']}: {finding.on or label['drawn weights']}")
    if claim.related:
        known = [id_ for id_ in claim.related if id_ in all_claims()]
        say(f"{label['related']}: {', '.join(known)}")
    say(f"\n{label['code']}:\n\n{code_of(claim.id)}")


def _support(answer: Answer, language: Language) -> str:
    supported = answer.finding.supported
    if supported is None:
        return ""
    return f" · {WORDS[language]['supported' if supported else 'not supported']}"


def _fact_row(answer: Answer, index: int, language: Language) -> list[str]:
    fact, label = answer.finding.facts[index], WORDS[language]
    name = answer.claim.words(language).facts.get(fact.name, fact.name)
    met = "" if fact.relation == "none" else label["met"] if fact.passes else label["not met"]
    return [name, number(fact.measured, language), bound(fact, language), met, ROLE[language][fact.role]]


def _show_examples(answer: Answer, language: Language) -> None:
    """The printed numbers of a worked example beside the right ones."""
    label, words = WORDS[language], answer.claim.words(language)
    rows = [
        [words.facts.get(fact.name, fact.name), numbers(fact.printed, language), numbers(fact.right, language)]
        for fact in answer.finding.facts
        if fact.printed
    ]
    if rows:
        say("")
        show_table([label["number"], label["printed"], label["right"]], rows)


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
        rows = [[answer.claim.id, VERDICT[language][answer.claim.verdict], _verdict(answer, language)] for answer in wrong]
        show_table(["id", label["ok"], label["measured"]], rows, title=f"\n{label['differences']}")


def _verdict(answer: Answer, language: Language) -> str:
    return VERDICT[language][answer.finding.verdict] + _support(answer, language)


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
