"""What stands around the claims, in both languages: verdicts, roles, headings, and numbers as readers write them."""

import math

from headwater.claims.claim import Language
from headwater.claims.evidence import SIGNS, Fact

VERDICT = {
    "en": {
        "holds": "holds",
        "conditions": "holds under conditions",
        "false": "false as stated",
        "empirical": "empirical",
        "definition": "definition",
        "question": "question, answered",
        "figure": "figure",
        "unsettled": "unsettled",
    },
    "pt": {
        "holds": "vale",
        "conditions": "vale sob condições",
        "false": "falsa como enunciada",
        "empirical": "empírica",
        "definition": "definição",
        "question": "questão respondida",
        "figure": "figura",
        "unsettled": "em aberto",
    },
}
SHORT = {
    "en": {"conditions": "conditions", "false": "false", "question": "question"},
    "pt": {"conditions": "condições", "false": "falsa", "question": "questão"},
}
"""Of verdicts, for the heads of narrow columns."""
ROLE = {
    "en": {
        "stated": "as stated",
        "outside": "outside the conditions",
        "corrected": "corrected",
        "defined": "as defined",
        "answered": "answer",
        "drawn": "in the figure",
        "reported": "on the model",
        "beside": "for comparison",
    },
    "pt": {
        "stated": "como enunciado",
        "outside": "fora das condições",
        "corrected": "corrigido",
        "defined": "como definido",
        "answered": "resposta",
        "drawn": "na figura",
        "reported": "no modelo",
        "beside": "para comparação",
    },
}
WORDS = {
    "en": {
        "document": "document",
        "line": "line",
        "all": "all",
        "statement": "statement",
        "verdict": "verdict",
        "measured": "measured",
        "against": "held against",
        "number": "what",
        "ok": "as recorded",
        "yes": "yes",
        "no": "NO",
        "met": "met",
        "not met": "not met",
        "correction": "corrected",
        "answer": "answer",
        "supports": "what it supports",
        "differs": "why the ledger says otherwise",
        "related": "related",
        "examples": "for example",
        "on": "measured on",
        "drawn weights": "weights drawn or made for the purpose",
        "code": "the check",
        "printed": "printed",
        "right": "right",
        "supported": "the model supports it",
        "not supported": "the model does not support it",
        "counts": "found / in the ledger",
        "contradictions": "contradictions inside and between the documents",
        "differences": "verdicts that are not the recorded ones",
        "refused": "what cannot be asked of this model",
        "given": "given",
        "needed": "needed",
    },
    "pt": {
        "document": "documento",
        "line": "linha",
        "all": "todos",
        "statement": "enunciado",
        "verdict": "veredito",
        "measured": "medido",
        "against": "comparado com",
        "number": "o quê",
        "ok": "como registrado",
        "yes": "sim",
        "no": "NÃO",
        "met": "atendido",
        "not met": "não atendido",
        "correction": "corrigido",
        "answer": "resposta",
        "supports": "o que isso apoia",
        "differs": "por que o registro dos documentos diz outra coisa",
        "related": "relacionadas",
        "examples": "por exemplo",
        "on": "medido em",
        "drawn weights": "pesos sorteados ou feitos para este fim",
        "code": "a verificação",
        "printed": "impresso",
        "right": "correto",
        "supported": "o modelo apoia",
        "not supported": "o modelo não apoia",
        "counts": "encontrados / no registro",
        "contradictions": "contradições dentro dos documentos e entre eles",
        "differences": "vereditos diferentes dos registrados",
        "refused": "o que não se pode perguntar a este modelo",
        "given": "dado",
        "needed": "necessário",
    },
}


def short(verdict: str, language: Language) -> str:
    """A verdict in one word."""
    return SHORT[language].get(verdict) or VERDICT[language][verdict]


def number(value: float, language: Language) -> str:
    """A number as readers of the language write it.

    >>> number(0.25, "pt"), number(-3e-16, "en"), number(12345, "en")
    ('0,25', '−3e-16', '12345')
    """
    if not math.isfinite(value):
        return {math.inf: "∞", -math.inf: "−∞"}.get(value, "?")
    shown = f"{value:.0f}" if value == round(value) and abs(value) < 1e9 else f"{value:.4g}"
    shown = "−" + shown[1:] if shown.startswith("-") else shown
    return shown.replace(".", ",") if language == "pt" else shown


def numbers(values: tuple[float, ...], language: Language) -> str:
    """A vector: ``[0.5, 1.2]``, and with semicolons where the comma is taken."""
    return "[" + ("; " if language == "pt" else ", ").join(number(value, language) for value in values) + "]"


def bound(fact: Fact, language: Language) -> str:
    """What a number is held against: ``≤ 1e-10``."""
    return f"{SIGNS[fact.relation]} {number(fact.bound, language)}" if fact.relation != "none" else ""
