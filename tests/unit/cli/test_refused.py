"""What verbs that look at a text refuse: options that contradict each other, numbers that are none, runs that overflowed."""

import json
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from cyclopts import CycloptsError, Parameter

from headwater.api import Model
from headwater.cli.ablate import ablate
from headwater.cli.attend import attend
from headwater.cli.check import check
from headwater.cli.explain import explain
from headwater.cli.main import app, main
from headwater.cli.stream import stream
from headwater.cli.study import terms
from headwater.cli.terminal import WHOLE, Flag
from headwater.errors import InputError
from headwater.model.config import Attention, FeedForward, ModelConfig
from headwater.model.weights import Weights, laid_out
from headwater.trace.places import read_positions

CONFIG = ModelConfig(
    vocab=9, context=6, d_model=4, layers=2, attention=Attention(heads=2, d_head=2), feed_forward=FeedForward(d_mlp=3)
)


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setenv("HEADWATER_THREADS", "1")


@pytest.fixture
def made(tmp_path):
    """A model without words, with weights so many times as large as usual, and some by themselves."""

    def build(factor=1.0, **factors):
        drawn = Weights.draw(CONFIG, seed=0).tensors()
        larger = {name: factors.get(name, factor) * tensor for name, tensor in drawn.items()}
        weights = Weights.assemble(CONFIG, laid_out(larger))
        Model(weights).save(tmp_path / "model")
        return tmp_path / "model"

    return build


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", "--position", "1.5"),
        ("explain", "--most", "2.4"),
        ("stream", "--position", "0x1"),
        ("ablate", "--seed", "1.0"),
        ("check", "--samples", "many"),
        ("generate", "--most", "1.5"),
    ],
)
def test_a_number_that_is_not_whole_is_not_rounded(arguments):
    verb, *rest = arguments
    with pytest.raises(CycloptsError, match="no whole number"):
        app([verb, "one-layer", "text", *rest])


def every_command(verbs=app):
    """Each verb, and each below one."""
    for name in verbs:
        if not name.startswith("-"):
            own = verbs[name]
            yield from [own] if own.default_command is not None else every_command(own)


def hints_of(command):
    """By their names, the kinds of its options."""
    found = get_type_hints(command.default_command, include_extras=True)
    return {name: hint for name, hint in found.items() if name != "return"}


def parts_of(hint):
    """A type, and all that it is made of."""
    return (
        [hint, *(part for inner in get_args(hint) for part in parts_of(inner))] if not isinstance(hint, Parameter) else [hint]
    )


def test_every_whole_number_of_every_verb_is_one():
    options = {
        (command.name[0], name): parts_of(hint) for command in every_command() for name, hint in hints_of(command).items()
    }
    wholes = {option: parts for option, parts in options.items() if int in parts}
    assert len(wholes) > 40
    assert [option for option, parts in wholes.items() if WHOLE not in parts] == []


def test_what_is_asked_for_alike_by_several_verbs_is_asked_for_in_the_same_way():
    kinds = [hint for command in every_command() for name, hint in hints_of(command).items() if name in ("json", "overwrite")]
    assert len(kinds) > 25
    assert [kind for kind in kinds if kind != Flag] == []


@pytest.mark.parametrize(
    "options",
    [
        {"centred": True},
        {"by": "path"},
        {"part": ["L0H0"]},
        {"budget": 3},
    ],
)
def test_totals_are_of_the_whole_logit_as_it_is(made, options):
    with pytest.raises(InputError, match="--totals with --"):
        explain(made(), ids="1,2", totals=True, **options)


def test_a_budget_is_for_paths(made, capfd):
    model = made()
    with pytest.raises(InputError, match="--by token"):
        explain(model, ids="1,2", by="token", budget=5)
    explain(model, ids="1,2", budget=5)
    assert "→ logit" in capfd.readouterr().out


def test_parts_go_by_the_names_that_other_verbs_take(made, capfd):
    model = made()
    explain(model, ids="1,2,3", part=["l1h0"], json=True)
    told = json.loads(capfd.readouterr().out)
    assert told["label"].startswith("L1H0 in logit")
    assert told["model"] == str(model)
    with pytest.raises(InputError, match=r"L0\.feed_forward L0N1"):
        explain(model, ids="1,2,3", part=["l0n1"])
    explain(model, ids="1,2,3", part=["l0.feed_forward", "l0n1"])


@pytest.mark.parametrize("verb", [explain, stream, ablate, check, attend])
def test_a_run_that_overflowed_is_refused_by_name(made, verb):
    head = {"head": "L1H0"} if verb is attend else {}
    with pytest.raises(InputError, match=r"NaN or infinity in L0\.mixed"):
        verb(made(1e15), ids="1,2,3", json=True, **head)


def test_logits_that_overflow_are_refused_though_the_stream_does_not(made):
    with pytest.raises(InputError, match="NaN or infinity in logits"):
        explain(made(**{"embed.W_E": 1e6, "unembed.W_U": 1e37}), ids="1,2,3", json=True)


def test_logits_that_might_overflow_by_their_sizes_and_do_not_are_told(made):
    explain(made(**{"unembed.W_U": 1e37}), ids="1,2,3", json=True)


def test_seeds_and_samples_are_within_bounds(made):
    model = made()
    for seed in (-1, 2**63):
        with pytest.raises(InputError, match="seed"):
            ablate(model, ids="1,2,3", how="resample", seed=seed)
        with pytest.raises(InputError, match="seed"):
            check(model, ids="1,2,3", seed=seed)
    with pytest.raises(InputError, match="--samples -1"):
        check(model, samples=-1)


def test_a_stretch_of_a_billion_positions_is_a_slip():
    with pytest.raises(InputError, match="0-999999999"):
        read_positions("0-999999999")


def test_a_position_that_is_named_twice_is_taken_away_once(made, capfd):
    ablate(made(), None, "L0H1", ids="1,2,3", at="1,1,-2", json=True)
    told = json.loads(capfd.readouterr().out)
    assert told["certificate"] < 1e-5


def test_verbs_agree_on_which_of_equals_is_the_likeliest(made, capfd):
    model = made(0.0)
    explain(model, ids="1,2,3", json=True)
    first = json.loads(capfd.readouterr().out)["id"]
    ablate(model, ids="1,2,3", json=True)
    assert json.loads(capfd.readouterr().out)["id"] == first


def test_a_stream_of_zeros_has_shares_of_nothing(made, capfd):
    stream(made(0.0), ids="1,2,3", json=True)
    assert json.loads(capfd.readouterr().out)["certificate"] == 0


def test_windows_are_counted_before_text_is_read():
    with pytest.raises(InputError, match="--windows 0"):
        terms(Path("no-such-model"), windows=0)


def test_no_zero_has_a_sign(made, capfd):
    ablate(made(), None, "L0.scores", ids="1,2,3")
    assert "-0.0000" not in capfd.readouterr().out


def test_a_verb_whose_input_was_closed_has_nothing_to_read(monkeypatch, capfd):
    monkeypatch.setattr(sys, "argv", ["headwater", "explain", "one-layer", "-"])
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "no tokens" in capfd.readouterr().err
    sys.stdin.close()


def test_a_verb_whose_output_was_closed_has_nobody_to_tell(headwater, monkeypatch, made):
    model = made()
    monkeypatch.setattr(sys, "stdout", None)
    assert headwater("check", model).returncode == 0
    sys.stdout.close()
