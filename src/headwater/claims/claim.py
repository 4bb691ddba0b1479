"""A claim: one numbered statement of a source document, in English and in Portuguese."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from headwater.claims.evidence import Verdict

Language: TypeAlias = Literal["en", "pt"]
Kind: TypeAlias = Literal[
    "claim", "comment", "corollary", "crucial-point", "definition", "diagram", "equation", "example", "figure", "footnote",
    "insight", "lemma", "limitation", "observation", "proposition", "question", "theorem",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Words:
    """What is said of a claim in one language; formulas stand between dollar signs.

    ``place`` is what a reader of the document looks for; ``statement`` what the document says, in our words; ``why`` the reason for
    the verdict, with its conditions. ``correction`` is what should have been printed, where it is false as stated; ``answer``
    answers a question; ``supports`` says what the measured number supports, where only a model can give one. ``facts`` names each
    number that the check measures.
    """

    place: str
    statement: str
    why: str
    correction: str = ""
    answer: str = ""
    supports: str = ""
    differs: str = ""
    """Why our verdict is not the ledger's, where it is not."""
    facts: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One statement: where it stands, what is said of it, and the verdict that its check must come to."""

    id: str
    line: int
    """Of the document's text."""
    kind: Kind
    ledger: Verdict
    """What the ledger of the documents says."""
    verdict: Verdict
    """What we found, and what a check has to find again: the ledger's, unless ``differs`` says why not."""
    unsupported: frozenset[str] = frozenset()
    """The numbers of the reference models that do not support it, where only a model can tell."""
    formula: str = ""
    """In LaTeX."""
    related: tuple[str, ...] = ()
    en: Words
    pt: Words

    @property
    def document(self) -> str:
        """``000`` to ``004``."""
        return self.id[:3]

    def words(self, language: Language) -> Words:
        """What is said of it in one language."""
        return self.en if language == "en" else self.pt
