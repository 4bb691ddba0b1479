import json

import pytest
import torch

from headwater.api import load
from headwater.model.record import record
from headwater.text.spoken import Spoken
from headwater.trace.experts import experts

TEXT = """    def __init__(self, name, value=None):
        self.name = name
        self.value = value

    def __repr__(self):
        return f"{self.name}"
"""


@pytest.fixture(scope="module")
def model():
    return load("one-layer")


@pytest.fixture(scope="module")
def run(model):
    return record(model.weights.to(dtype=torch.float64), model.tokens(TEXT))


def test_probabilities_of_the_trained_model_multiply_and_do_not_add(run):
    found = [experts(run, position) for position in range(1, run.tokens.shape[1])]
    assert max(each.certificate for each in found) < 1e-10
    assert max(each.product_certificate for each in found) < 1e-12
    # Additive probabilities would have none of it, whatever the terms were.
    assert max(abs(each.pairs[0].defect) for each in found) > 0.01
    assert max(abs(each.worst.defect) for each in found) > 0.01
    assert all(abs(each.worst.defect) >= abs(each.pairs[0].defect) for each in found)
    assert max(abs(each.added - each.p) for each in found) > 0.1


def test_the_bigram_alone_is_no_match_for_what_sources_add(run):
    found = [experts(run, position) for position in range(1, run.tokens.shape[1])]
    assert sum(each.p > each.p_bigram for each in found) > 0.9 * len(found)


def test_it_is_told_in_words_and_as_plain_data(model, run):
    spoken, found = Spoken(model.tokenizer), experts(run)
    told = found.words(spoken)
    assert "bigrams and skip-trigrams." in told
    assert spoken(found.token) in told
    assert f"{found.logit:.3f}" in told
    assert f"{found.p:.4f} by all" in told
    assert f"differs by {found.worst.defect:+.4f}" in told
    assert f"add up to {len(found.sources) + 1}.0" in told
    plain = json.loads(json.dumps(found.plain(spoken), allow_nan=False))
    assert plain["token_text"] == spoken.text(found.token)
    assert "".join(source["text"] for source in plain["sources"]) == TEXT
    assert plain["certificate"] == found.certificate
    assert len(plain["pairs"]) == 15
    assert found.plain()["token_text"] is None


def test_the_first_position_has_one_source_and_no_pair(model, run):
    found = experts(run, 0)
    assert (len(found.sources), found.pairs, found.worst) == (1, (), None)
    assert found.p == pytest.approx(found.sources[0].p, rel=1e-12)
    assert "do not add" not in found.words(Spoken(model.tokenizer))


def test_without_words_tokens_go_by_their_numbers(run):
    found = experts(run, 5, token=7)
    assert f"The logit of #7 after #{found.current}" in found.words(Spoken(None))
