"""``headwater study terms`` as a person runs it."""

import json

import pytest

from headwater.api import load
from headwater.model.forward import forward


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.py"
    path.write_text("for name in names:\n    print(name)\n    values[name] = None\n" * 20)
    return path


def test_orders_layers_and_heads_are_told(headwater, text):
    plot = text.with_suffix(".svg")
    result = headwater("study", "terms", "two-layer", "--text", text, "--windows", 2, "--plot", plot)
    assert result.returncode == 0, result.stderr
    for told in ("25 paths", "256 tokens in 2 windows", "0 (direct)", "layer 1", "L1H3", "certificate"):
        assert told in result.stdout
    assert "<svg" in plot.read_text()


def test_json_has_the_same_numbers_for_the_same_seed_and_the_models_loss(headwater, text):
    def study(seed):
        result = headwater("study", "terms", "two-layer", "--text", text, "--windows", 1, "--seed", seed, "--json")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    assert study(3) == study(3)
    text.write_text("x = [1, 2, 3]\nprint(x)\n")
    whole, model = study(0), load("two-layer")
    (beginning,) = model.tokenizer.specials
    tokens = model.tokens([beginning, *model.tokenizer.encode(text.read_text())])
    nats = -forward(model.weights, tokens).log_softmax(dim=-1)[0, :-1].gather(-1, tokens[0, 1:, None])
    assert whole["tokens"] == tokens.shape[1] - 1
    assert whole["loss"] == pytest.approx(float(nats.mean()), rel=1e-5)


def test_what_cannot_be_studied_is_refused_in_words(headwater, text):
    for arguments, told in [
        (("two-layer", "--text", text, "--windows", 0), "--windows 0"),
        (("nothing",), "nothing"),
        (("two-layer", "--text", text, "--corpus", text.parent), "both a text and a corpus"),
    ]:
        result = headwater("study", "terms", *arguments)
        assert result.returncode == 2, arguments
        assert told in result.stderr
        assert not result.stdout
