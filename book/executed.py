"""The executed documents: for each source document a page that goes through its statements in order, and one page over all."""

from collections.abc import Sequence
from pathlib import Path

from headwater.claims.claim import Language
from headwater.claims.contradictions import contradictions
from headwater.claims.evidence import VERDICTS, Fact
from headwater.claims.figures.drawings import drawing_of
from headwater.claims.given import Given
from headwater.claims.labels import ROLE, VERDICT, WORDS, bound, number, numbers, short
from headwater.claims.registry import TITLES, code_of
from headwater.claims.verdicts import Answer, counts
from headwater.show.looks import Look, Theme
from mutations import MUTATIONS
from texts import cell, formula, prose

THEMES: tuple[Theme, ...] = ("light", "dark")
SAID = {
    "en": {
        "all": "Every statement, measured",
        "intro": "What the five documents state, and what came out when it was measured: on weights drawn for the purpose where a "
        "statement is one of mathematics, on the reference models where only a trained model can answer. "
        "`headwater claims` measures all of it again.",
        "counts": "Verdicts, found and in the ledger",
        "same": "Every verdict is the ledger's.",
        "differ": "Where our verdict is not the ledger's",
        "examples": "Worked examples, printed and right",
        "contradictions": "Contradictions",
        "stand": "stand",
        "mutations": "Mutations that the checks caught",
        "mutated": "In a scratch copy of the library each of these was made, and the claims beside it turned; a test does it again.",
        "check": "The check",
        "elsewhere": "Em português",
        "statements": "statements",
    },
    "pt": {
        "all": "Cada afirmação, medida",
        "intro": "O que os cinco documentos afirmam e o que saiu quando foi medido: em pesos sorteados para esse fim quando a afirmação "
        "é de matemática, nos modelos de referência quando só um modelo treinado pode responder. "
        "`headwater claims --lang pt` mede tudo de novo.",
        "counts": "Vereditos, encontrados e no registro",
        "same": "Todos os vereditos são os do registro.",
        "differ": "Onde nosso veredito não é o do registro",
        "examples": "Exemplos resolvidos, impresso e correto",
        "contradictions": "Contradições",
        "stand": "valem",
        "mutations": "Mutações que as verificações perceberam",
        "mutated": "Em uma cópia de rascunho da biblioteca fez-se cada uma destas mudanças, e as afirmações ao lado mudaram; um teste o repete.",
        "check": "A verificação",
        "elsewhere": "In English",
        "statements": "afirmações",
    },
}


def write_documents(answers: Sequence[Answer], given: Given, place: Path) -> None:
    """All pages in both languages, and the figures in both languages and themes."""
    for language in ("en", "pt"):
        folder = place / language / "documents"
        (folder / "figures").mkdir(parents=True, exist_ok=True)
        (folder / "index.md").write_text(_overview(answers, language))
        for document in TITLES:
            these = [answer for answer in answers if answer.claim.document == document]
            (folder / f"{document}.md").write_text(_page(document, these, language))
        for answer in answers:
            if answer.claim.verdict == "figure":
                _draw(answer.claim.id, given, folder / "figures", language)


def _draw(id_: str, given: Given, folder: Path, language: Language) -> None:
    for theme in THEMES:
        (folder / f"{id_}.{theme}.svg").write_bytes(drawing_of(id_).file(given, Look(language, theme)))


def _other(language: Language, page: str) -> str:
    """The link to the same page in the other language."""
    target = f"../pt/documents/{page}" if language == "en" else f"../../documents/{page}"
    return f"[{SAID[language]['elsewhere']}]({target})\n"


def _page(document: str, answers: Sequence[Answer], language: Language) -> str:
    said = SAID[language]
    count = f"{len(answers)} {said['statements']}: " + ", ".join(
        f"{sum(answer.finding.verdict == name for answer in answers)} {short(name, language)}" for name in VERDICTS
    )
    head = [f"# {document} · {TITLES[document][language]}\n", _other(language, f"{document}.html"), count + "\n"]
    return "\n".join([*head, *(_section(answer, language) for answer in answers)])


def _section(answer: Answer, language: Language) -> str:
    claim, words, label = answer.claim, answer.claim.words(language), WORDS[language]
    badge = f'<span class="verdict {answer.finding.verdict}">{VERDICT[language][answer.finding.verdict]}</span>'
    parts = [
        f"## {claim.id} · {prose(words.place)} {{ #{claim.id} }}\n",
        f"{badge} {_support(answer, language)}{label['line']} {claim.line}\n",
        prose(words.statement) + "\n",
    ]
    if claim.formula:
        parts.append(formula(claim.formula) + "\n")
    if claim.verdict == "figure":
        alt = words.place.replace("[", "(").replace("]", ")")
        parts += [f"![{alt}](figures/{claim.id}.{theme}.svg#only-{theme})" for theme in THEMES]
        parts.append("")
    parts.append(prose(words.why) + "\n")
    for name in ("correction", "answer", "supports", "differs"):
        if text := getattr(words, name):
            parts.append(f"**{label[name].capitalize()}.** {prose(text)}\n")
    parts += [_facts(answer, language), _printed(answer, language), _foot(answer, language)]
    return "\n".join(parts)


def _support(answer: Answer, language: Language) -> str:
    supported = answer.finding.supported
    return "" if supported is None else f"{WORDS[language]['supported' if supported else 'not supported']} · "


def _facts(answer: Answer, language: Language) -> str:
    label = WORDS[language]
    head = f"| {label['number']} | {label['measured']} | {label['against']} | | |\n|---|--:|---|---|---|"
    return "\n".join([head, *(_fact(answer, fact, language) for fact in answer.finding.facts), ""])


def _fact(answer: Answer, fact: Fact, language: Language) -> str:
    label, words = WORDS[language], answer.claim.words(language)
    met = "" if fact.relation == "none" else label["met"] if fact.passes else label["not met"]
    name = cell(words.facts.get(fact.name, fact.name))
    return f"| {name} | {number(fact.measured, language)} | {bound(fact, language)} | {met} | {ROLE[language][fact.role]} |"


def _printed(answer: Answer, language: Language) -> str:
    rows = answer.finding.printed
    if not rows:
        return ""
    label, words = WORDS[language], answer.claim.words(language)
    head = f"| {label['number']} | {label['printed']} | {label['right']} |\n|---|---|---|"
    return "\n".join([head, *(f"| {cell(words.facts[fact.name])} | {_pair(fact, language)} |" for fact in rows), ""])


def _pair(fact: Fact, language: Language) -> str:
    return f"{cell(numbers(fact.printed, language))} | {cell(numbers(fact.right, language))}"


def _foot(answer: Answer, language: Language) -> str:
    label, said = WORDS[language], SAID[language]
    examples = [f"{label['examples']}: " + " · ".join(map(prose, answer.finding.examples)) + "\n"]
    lines = [*examples * bool(answer.finding.examples), f"{label['on']}: {answer.finding.on or label['drawn weights']}\n"]
    if answer.claim.related:
        links = ", ".join(_link(id_, answer.claim.document) for id_ in answer.claim.related)
        lines.append(f"{label['related']}: {links}\n")
    code = "\n".join("    " + line for line in code_of(answer.claim.id).splitlines())
    return "\n".join([*lines, f'??? note "{said["check"]}"\n\n    ```python\n{code}\n    ```\n'])


def _link(id_: str, here: str = "") -> str:
    return f"[{id_}]({'' if id_[:3] == here else id_[:3] + '.md'}#{id_})"


def _overview(answers: Sequence[Answer], language: Language) -> str:
    said, label = SAID[language], WORDS[language]
    lines = [f"# {said['all']}\n", _other(language, "index.html"), said["intro"] + "\n", f"## {said['counts']}\n"]
    lines += [*_counted(answers, language), ""]
    differ = [answer for answer in answers if answer.claim.ledger != answer.finding.verdict]
    lines += [f"## {said['differ']}\n"] if differ else [said["same"] + "\n"]
    for answer in differ:
        verdicts = f"{VERDICT[language][answer.finding.verdict]} ({VERDICT[language][answer.claim.ledger]})"
        lines.append(f"- {_link(answer.claim.id)}: {verdicts}. {prose(answer.claim.words(language).differs)}")
    lines += [
        f"\n## {said['examples']}\n",
        f"| id | {label['number']} | {label['printed']} | {label['right']} |\n|---|---|---|---|",
    ]
    for answer in answers:
        words = answer.claim.words(language)
        printed = [fact for fact in answer.finding.facts if fact.printed]
        lines += [
            f"| {_link(answer.claim.id)} | {cell(words.facts[fact.name])} | {_pair(fact, language)} |" for fact in printed
        ]
    lines.append(f"\n## {said['contradictions']}\n")
    for one in contradictions():
        stand = f" ({said['stand']}: {', '.join(one.right)})" if one.right else ""
        lines.append(f"- {', '.join(_link(id_) for id_ in one.ids)}: {prose(one.text(language))}{stand}")
    lines += [f"\n## {said['mutations']}\n", said["mutated"] + "\n", *_mutations()]
    return "\n".join([*lines, ""])


def _mutations() -> list[str]:
    """The list that the tests go through."""
    rows = [f"| {cell(one.name)} | `{one.file}` | {', '.join(map(_link, one.ids))} |" for one in MUTATIONS]
    return ["| | | |\n|---|---|---|", *rows]


def _counted(answers: Sequence[Answer], language: Language) -> list[str]:
    label = WORDS[language]
    head = " | ".join(short(name, language) for name in VERDICTS)
    rows = [f"| {label['document']} | {head} | {label['all']} |", "|---" + "|--:" * (len(VERDICTS) + 1) + "|"]
    for count in counts(answers):
        cells = [f"{count.found[name]} / {count.ledger[name]}" for name in VERDICTS]
        whole = f"{sum(count.found.values())} / {sum(count.ledger.values())}"
        rows.append(f"| [{count.document}]({count.document}.md) | {' | '.join(cells)} | {whole} |")
    return rows
