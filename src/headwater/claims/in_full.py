"""A claim in full, as a person reads it: what the document says, the verdict and why, the numbers, the code that measured them."""

from headwater.claims.claim import Language
from headwater.claims.evidence import Fact
from headwater.claims.labels import ROLE, VERDICT, WORDS, bound, number, numbers
from headwater.claims.registry import TITLES, code_of
from headwater.claims.verdicts import Answer
from headwater.show.text import written
from headwater.show.values import Table


def in_full(answer: Answer, language: Language = "en") -> str:
    """Everything about one claim."""
    claim, words, label = answer.claim, answer.claim.words(language), WORDS[language]
    notes = [
        f"{label[name]}: {text}" for name in ("correction", "answer", "supports", "differs") if (text := getattr(words, name))
    ]
    parts = [
        f"{claim.id} · {TITLES[claim.document][language]}, {label['line']} {claim.line} · {words.place}",
        words.statement,
        *([f"    {claim.formula}"] if claim.formula else []),
        f"{label['verdict']}: {told(answer, language)}",
        words.why,
        *notes,
        written(*_tables(answer, language)),
        "\n".join(_roots(answer, language)),
        f"{label['code']}:",
        code_of(claim.id),
    ]
    return "\n\n".join(parts)


def told(answer: Answer, language: Language) -> str:
    """The verdict, and where only a model can tell, whether it supports the statement."""
    supported = answer.finding.supported
    support = "" if supported is None else f" · {WORDS[language]['supported' if supported else 'not supported']}"
    return VERDICT[language][answer.finding.verdict] + support


def _tables(answer: Answer, language: Language) -> list[Table]:
    """The facts; and the printed numbers of a worked example beside the right ones."""
    label, facts = WORDS[language], answer.finding.facts
    columns = (label["number"], label["measured"] + "#", label["against"], "", "")
    tables = [Table(title="", columns=columns, rows=tuple(_row(answer, fact, language) for fact in facts))]
    if answer.finding.printed:
        rows = tuple(
            (_name(answer, fact, language), numbers(fact.printed, language), numbers(fact.right, language))
            for fact in answer.finding.printed
        )
        tables.append(Table(title=" ", columns=(label["number"], label["printed"], label["right"]), rows=rows))
    return tables


def _name(answer: Answer, fact: Fact, language: Language) -> str:
    return answer.claim.words(language).facts.get(fact.name, fact.name)


def _row(answer: Answer, fact: Fact, language: Language) -> tuple[str, ...]:
    label = WORDS[language]
    met = "" if fact.relation == "none" else label["met"] if fact.passes else label["not met"]
    name = _name(answer, fact, language)
    return name, number(fact.measured, language), bound(fact, language), met, ROLE[language][fact.role]


def _roots(answer: Answer, language: Language) -> list[str]:
    label = WORDS[language]
    examples = [f"{label['examples']}: {' · '.join(answer.finding.examples)}"] * bool(answer.finding.examples)
    lines = [*examples, f"{label['on']}: {answer.finding.on or label['drawn weights']}"]
    return lines + [f"{label['related']}: {', '.join(answer.claim.related)}"] * bool(answer.claim.related)
