"""The command as a person runs it: its output and its exit code."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch

from headwater.api import Model, load
from headwater.cli.generate import _pieces
from headwater.model.config import Attention, FeedForward, ModelConfig, PostNorm, PreNorm
from headwater.text.tokenizer import byte_tokenizer
from strategies import random_weights

CONFIG = ModelConfig(
    vocab=256,
    context=32,
    d_model=8,
    layers=2,
    attention=Attention(heads=2, d_head=4),
    feed_forward=FeedForward(d_mlp=8),
    norm=PreNorm(),
)
ENVIRONMENT = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "small"
    Model(random_weights(CONFIG, 0, torch.float32), byte_tokenizer()).save(folder)
    return folder


def test_inspect_shows_the_architecture_and_every_tensor(headwater, model):
    result = headwater("inspect", model)
    assert result.returncode == 0
    assert "2 heads of 4" in result.stdout
    assert "blocks.*.attn.W_Q  × 2" in result.stdout
    document = json.loads(headwater("inspect", model, "--json").stdout)
    assert document["parameters"] == sum(tensor.numel() for tensor in load(model).weights.tensors().values())
    assert {tensor["name"] for tensor in document["tensors"]} == set(load(model).weights.tensors())


@pytest.mark.parametrize("text", ['{"license": "mit"}', "[1]", '{"text":', '{"text": 1, "trained": 2, "held_out": 3}'])
def test_inspect_passes_over_a_card_that_somebody_else_wrote(headwater, model, tmp_path, text):
    copied = shutil.copytree(model, tmp_path / "copied")
    (copied / "card.json").write_text(text)
    result = headwater("inspect", copied)
    assert result.returncode == 0, result.stderr
    assert "its card" not in result.stdout
    assert "card" not in json.loads(headwater("inspect", copied, "--json").stdout)


@pytest.mark.parametrize(
    ("verbs", "told"),
    [
        (["explain"], "headwater ablate shows how far that carries"),
        (["atlas", "bugs"], "A head that raises keep"),
        (["atlas", "quote"], "Tokens are given as in headwater atlas search"),
        (["study", "bigram"], "Without a model, a zero-layer one is trained"),
    ],
)
def test_the_help_of_a_verb_says_all_of_it(headwater, monkeypatch, verbs, told):
    monkeypatch.setenv("COLUMNS", "1000")
    assert told in headwater(*verbs, "--help").stdout


def test_whoever_misuses_a_verb_is_sent_to_its_own_help(headwater):
    assert "see headwater atlas search --help" in headwater("atlas", "search").stderr


def test_generate_prints_the_prompt_and_what_follows_and_the_same_seed_repeats_it(headwater, model):
    first, again = (headwater("generate", model, "abc", "-n", 10, "--seed", 3) for _ in range(2))
    other = headwater("generate", model, "abc", "-n", 10, "--seed", 4)
    assert first.returncode == 0
    assert first.stdout.startswith("abc")
    assert first.stdout == again.stdout != other.stdout


def test_generate_in_json_has_the_ids_that_the_library_draws(headwater, model):
    document = json.loads(headwater("generate", model, "abc", "-n", 5, "--temperature", 0, "--json").stdout)
    loaded = load(model)
    ids = [97, 98, 99]
    for drawn in document["ids"]:
        assert drawn == int(loaded.logits(ids)[0, -1].argmax())
        ids.append(drawn)
    assert document["prompt_ids"] == [97, 98, 99]
    assert document["text"] == loaded.tokenizer.decode(ids)


def test_generate_reads_standard_input_and_ids(headwater, model):
    piped = headwater("generate", model, "-", "-n", 3, stdin="abc")
    by_ids = headwater("generate", model, "--ids", "97,98,99", "-n", 3)
    assert piped.stdout == by_ids.stdout


def test_standard_input_is_read_as_it_is_and_in_utf_8(headwater, model):
    document = json.loads(headwater("generate", model, "-", "-n", 0, "--json", stdin="é\r\n".encode()).stdout)
    assert bytes(document["prompt_ids"]).decode() == "é\r\n"
    refused = headwater("generate", model, "-", stdin=b"ab\xff")
    assert refused.returncode == 2
    assert "byte 2" in refused.stderr


def test_generate_ends_before_a_stop_text(headwater, model):
    whole = json.loads(headwater("generate", model, "abc", "-n", 12, "--json").stdout)["text"]
    stop = whole[6:8]
    cut = headwater("generate", model, "abc", "-n", 12, "--stop", stop).stdout
    assert cut == whole[: whole.index(stop, 3)] + "\n"


def test_a_character_begun_in_the_prompt_is_ended_by_what_follows(model):
    pieces = list(_pieces(load(model), [97, 195], iter([169, 98, 195]), None))
    assert "".join(pieces) == "aéb\ufffd"
    assert pieces[0] == "a"


def test_inspect_takes_the_weights_file_for_its_folder(headwater, model):
    assert json.loads(headwater("inspect", model / "model.safetensors", "--json").stdout)["format"] == "Headwater"


def test_generate_says_when_the_context_is_full(headwater, model):
    result = headwater("generate", model, "abc", "-n", 100)
    assert result.returncode == 0
    assert "context of 32 positions is full" in result.stderr


@pytest.mark.parametrize("to", ["headwater", "hugging-face", "transformer-lens"])
def test_convert_writes_a_model_that_says_the_same(headwater, model, tmp_path, to):
    result = headwater("convert", model, tmp_path / "out", "--to", to)
    assert result.returncode == 0, result.stderr
    assert torch.allclose(load(tmp_path / "out").logits([1, 2, 3]), load(model).logits([1, 2, 3]), atol=1e-5)
    again = headwater("convert", model, tmp_path / "out", "--to", to)
    assert again.returncode == 2
    assert "already there" in again.stderr
    assert headwater("convert", model, tmp_path / "out", "--to", to, "--overwrite").returncode == 0


def test_convert_refuses_a_format_that_cannot_express_the_model(headwater, tmp_path):
    config = ModelConfig(
        vocab=256,
        context=8,
        d_model=8,
        layers=1,
        attention=Attention(heads=2, d_head=4),
        feed_forward=FeedForward(d_mlp=4),
        norm=PostNorm(),
    )
    Model(random_weights(config, 0, torch.float32)).save(tmp_path / "post")
    for to in ("hugging-face", "transformer-lens"):
        result = headwater("convert", tmp_path / "post", tmp_path / "out", "--to", to)
        assert result.returncode == 2
        assert "post-norm" in result.stderr
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["inspect", "nowhere"], "nothing is there"),
        (["inspct", "x"], "inspect"),
        (["generate", "MODEL", "abc", "--topk", "3"], "top-k"),
        (["generate", "MODEL"], "neither a text nor ids"),
        (["generate", "MODEL", "abc", "--ids", "1"], "both a text and ids"),
        (["generate", "MODEL", "--ids", "1,x"], "whole numbers"),
        (["generate", "MODEL", "--ids", "999"], "token id 999"),
        (["generate", "MODEL", "abc", "--temperature", "-1"], "temperature"),
        (["generate", "MODEL", "a" * 40], "40 tokens"),
        (["generate", "MODEL", "abc", "-n", "many"], "many"),
        (["generate", "MODEL", "abc", "-n", "-3"], "-3 tokens"),
        (["generate", "MODEL", "", "--ids", "1"], "both a text and ids"),
        (["generate", "MODEL", "--ids", "9" * 30], "token id 999"),
        (["generate", "MODEL", "abc", "--seed", "9" * 30], "seed"),
        (["convert", "MODEL", "/dev/null/x"], "cannot be written"),
        (["inspect", "one-layre"], "did you mean one-layer"),
    ],
)
def test_a_mistake_is_told_in_two_lines_on_stderr_and_exits_2(headwater, model, arguments, told):
    result = headwater(*(str(model) if argument == "MODEL" else argument for argument in arguments))
    assert result.returncode == 2
    assert result.stdout == ""
    assert told in result.stderr
    assert result.stderr.startswith("error:")
    assert len(result.stderr.strip().splitlines()) == 2
    assert "Traceback" not in result.stderr


def test_an_interrupt_exits_130(tmp_path):
    config = ModelConfig(vocab=256, context=100_000, d_model=8, layers=1, attention=Attention(heads=1, d_head=4))
    Model(random_weights(config, 0, torch.float32), byte_tokenizer()).save(tmp_path / "long")
    command = [sys.executable, "-m", "headwater.cli.main", "generate", str(tmp_path / "long"), "abc", "-n", "90000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)
    assert process.stdout is not None
    process.stdout.read(6)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in told


def test_an_interrupt_in_the_middle_of_a_query_exits_130(headwater, monkeypatch):
    def query(*_, **__):
        raise RuntimeError("Query interrupted")

    monkeypatch.setattr("headwater.cli.main.app", query)
    done = headwater("atlas", "verify", "x")
    assert (done.returncode, done.stderr) == (130, "")


def test_a_reader_that_goes_away_is_no_error_message(model):
    command = f"{sys.executable} -m headwater.cli.main inspect {model} --json | head -c 1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert "Traceback" not in result.stderr
    assert "Exception" not in result.stderr


@pytest.mark.slow
def test_the_demo_passes_its_checks(headwater, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the tables are written there
    document = json.loads(headwater("demo", "--json").stdout)
    assert document["ok"]
    assert all(check["difference"] <= check["bound"] for check in document["checks"])
    assert document["text"].startswith("for line in open(")
    assert document["atlas"]["rows"][0]["nats"] > 0


def test_one_of_our_models_tells_what_its_card_says(headwater):
    card = json.loads(headwater("inspect", "two-layer", "--json").stdout)["card"]
    told = headwater("inspect", "two-layer").stdout
    assert card["about"] in " ".join(told.split())
    assert card["made_by"] in told
    assert "planted repeats" in told
