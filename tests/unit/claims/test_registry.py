"""Every claim is there, in both languages, with a check and with words for all that it measures."""

import re
from collections import Counter

import pytest

from headwater.claims.contradictions import contradictions
from headwater.claims.evidence import VERDICTS
from headwater.claims.registry import all_claims, check_of, chosen, code_of
from headwater.errors import InputError

LEDGER = {
    "000": (6, 28, 14, 9, 8, 0, 6),
    "001": (7, 14, 6, 7, 8, 3, 5),
    "002": (4, 7, 5, 5, 8, 0, 3),
    "003": (8, 24, 4, 3, 33, 2, 16),
    "004": (4, 8, 6, 6, 7, 0, 2),
}
"""How many of each document hold, hold under conditions, are false, empirical, definitions, questions, figures."""
CLAIMS = all_claims()
OTHER_WORDS = re.compile(
    r"\b(scores?|viés|vieses|feedforward|etapas?|eleva[mr]?|atende[mr]?|atendid[oa]s?|parcelas? d[aeo]s?|treinos?|adivinha[mr]?)\b",
    re.IGNORECASE,
)
"""Portuguese words for what the studio and the page of concepts call otherwise."""


def test_the_counts_are_the_ledgers():
    assert len(CLAIMS) == 276
    counted = Counter((claim.document, claim.ledger) for claim in CLAIMS.values())
    assert {document: tuple(counted[document, name] for name in VERDICTS) for document in LEDGER} == LEDGER


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=list(CLAIMS))
def test_a_claim_says_all_that_is_to_be_said_in_both_languages(claim):
    for words in (claim.en, claim.pt):
        assert words.place
        assert words.statement
        assert words.why
        assert bool(words.correction) == (claim.verdict == "false")
        assert bool(words.answer) == (claim.verdict == "question")
        assert words.supports or claim.verdict != "empirical"
        assert bool(words.differs) == (claim.verdict != claim.ledger)
        for text in (words.statement, words.why, words.correction, words.answer, words.supports):
            assert text.count("$") % 2 == 0, text
            assert not re.search(r"[\x00-\x1f]", text.replace("\n", " ")), "an escape that TOML read"
    assert set(claim.en.facts) == set(claim.pt.facts)
    assert claim.en.place != claim.pt.place
    assert claim.en.why != claim.pt.why
    if re.search(r"\w{4}", re.sub(r"\$[^$]*\$|LayerNorm", "", claim.en.statement)):
        assert claim.en.statement != claim.pt.statement
    assert claim.verdict == "empirical" or not claim.unsupported
    assert claim.unsupported <= set(claim.en.facts)


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=list(CLAIMS))
def test_a_claim_has_a_check_that_can_be_read(claim):
    assert callable(check_of(claim.id))
    code = code_of(claim.id)
    assert code.startswith("def ")
    assert "found(" in code
    assert claim.id not in claim.related
    assert set(claim.related) <= set(CLAIMS)


def test_what_we_say_in_portuguese_has_the_words_of_the_studio():
    # Statements and places are left out: they may have the document's own words.
    ours = {" ".join(one.ids): one.pt for one in contradictions()}
    for claim in CLAIMS.values():
        words = claim.pt
        ours[claim.id] = " ".join(
            (words.why, words.correction, words.answer, words.supports, words.differs, *words.facts.values())
        )
    assert {name: found for name, text in ours.items() if (found := OTHER_WORDS.findall(re.sub(r"\$[^$]*\$", "", text)))} == {}


def test_claims_stand_in_the_order_of_the_documents():
    places = [(claim.document, claim.line) for claim in CLAIMS.values()]
    assert places == sorted(places)


def test_contradictions_are_between_claims_that_are_there():
    assert len(contradictions()) == 11
    for one in contradictions():
        assert set(one.right) < set(one.ids) <= set(CLAIMS)
        # What stands is not what was found to be false.
        assert all(CLAIMS[id_].verdict != "false" for id_ in one.right)
        assert one.en != one.pt


def test_claims_are_chosen_by_id_document_and_verdict():
    assert [claim.id for claim in chosen(["001-E1", "000-L1"])] == ["000-L1", "001-E1"]
    assert {claim.document for claim in chosen(document="002")} == {"002"}
    assert len(chosen(verdict="figure")) == 32
    for wrong in ({"ids": ["000-L99"]}, {"document": "005"}, {"verdict": "wrong"}):
        with pytest.raises(InputError):
            chosen(**wrong)
