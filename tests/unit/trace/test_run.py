"""Runs as values: printed, saved, opened again, asked in words."""

import pytest
import torch

import headwater as hw
from headwater.errors import InputError, ModelFileError
from headwater.model.config import Attention, FeedForward, LearnedPositions, ModelConfig, PostNorm, PreNorm
from headwater.model.record import record
from headwater.trace.run import Run, load_run
from strategies import random_weights

TEXT = "for line in open("


@pytest.fixture(scope="module")
def run():
    return hw.load("one-layer").record(TEXT)


def test_a_run_prints_its_tokens_and_what_comes_next(run):
    lines = str(run).splitlines()
    assert lines[0].startswith("Run(1 × 5 tokens, 1 layers, ")
    assert "‘ line’@1" in lines[2]
    likeliest, p = run.top(-1, 1)[0]
    assert f"{run.words(likeliest)} {p:.0%}" in lines[-1]
    assert "‘ line’@1" in run._repr_html_()


def test_a_run_is_opened_again_without_its_model_bit_for_bit(run, tmp_path):
    run.save(tmp_path / "run")
    again = load_run(tmp_path / "run")
    assert again.kept.keys() == run.kept.keys()
    assert all(torch.equal(tensor, again.kept[name]) for name, tensor in run.kept.items())
    assert again.weights == run.weights
    assert torch.equal(again.logits, run.logits)
    assert [part.label for part in again.explain().parts] == [part.label for part in run.explain().parts]
    assert str(again.explain().label) == str(run.explain().label)


@pytest.mark.parametrize("norm", [PreNorm(), PostNorm()])
def test_whatever_a_run_keeps_survives_its_file(norm, tmp_path):
    config = ModelConfig(
        vocab=9,
        context=6,
        d_model=4,
        layers=2,
        attention=Attention(heads=2, d_head=2),
        feed_forward=FeedForward(d_mlp=3),
        norm=norm,
        positions=LearnedPositions(),
    )
    run = Run.of(record(random_weights(config, 0), torch.tensor([[1, 2, 3]]), ["L*.pattern"]))
    run.save(tmp_path / "run")
    again = load_run(tmp_path / "run")
    assert again.kept.keys() == run.kept.keys()
    assert all(torch.equal(tensor, again.kept[name]) for name, tensor in run.kept.items())


def test_every_flipped_bit_of_a_runs_file_is_found(run, tmp_path):
    path = tmp_path / "run"
    run.save(path)
    whole = path.read_bytes()
    for number in range(40):
        place = number * len(whole) // 40 + number
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << number % 8]) + whole[place + 1 :])
        with pytest.raises(ModelFileError, match="run: "):
            load_run(path)
    path.write_bytes(whole[:-7])
    with pytest.raises(ModelFileError):
        load_run(path)


def test_a_file_that_is_no_run_is_refused(tmp_path):
    from headwater.files.safetensors import write_tensors

    write_tensors(tmp_path / "x", {"a": torch.zeros(2)})
    with pytest.raises(ModelFileError, match="headwater-run/1"):
        load_run(tmp_path / "x")


def test_a_run_with_interventions_is_not_saved(tmp_path):
    class Nothing(hw.Tap):
        def wants(self, site):
            return site == "embed"

    run = hw.load("one-layer").record(TEXT, tap=Nothing())
    with pytest.raises(InputError, match="interventions"):
        run.save(tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_tokens_are_asked_for_in_words_or_ids(run):
    token = run.find("filename")
    assert run.explain(token="filename").value == run.explain(token=token).value == run.explain(-1, token).value
    with pytest.raises(InputError, match=r"\d tokens of this model"):
        run.explain(token="filename line open")
    with pytest.raises(InputError, match="token 99999"):
        run.explain(token=99999)
    with pytest.raises(InputError, match="position 5"):
        run.explain(position=5)
    bare = Run.of(record(run.weights, run.tokens))
    with pytest.raises(InputError, match="without a tokenizer"):
        bare.explain(token="filename")
    assert bare.explain(token=token).value == run.explain(token=token).value


def test_a_difference_is_the_difference_of_both(run):
    both = run.explain(token="filename").value - run.explain(token="self").value
    assert run.explain(token="filename", against="self").value == pytest.approx(both, abs=1e-5)
    with pytest.raises(InputError, match="one of the two"):
        run.explain(token="filename", against="self", centred=True)


def test_a_one_layer_model_is_told_in_the_documents_words(run):
    why = run.explain(token="filename")
    labels = [part.label for part in why.parts]
    assert "bigram ‘(’ → ‘filename’" in labels
    assert "L0H5 skip-trigrams" in labels
    sources = why["L0H5"].split().parts
    assert sources[1].label == "skip-trigram ‘ line’@1 … ‘(’ → ‘filename’"
    assert "product of experts" in why.remarks[0]
    assert "do not add" in why.remarks[0]


def test_parts_are_found_by_name_and_the_end_is_the_end(run):
    why = run.explain()
    assert why["L0H3"].facts["head"] == "L0H3"
    with pytest.raises(InputError, match="did you mean L0H3"):
        why["L0H33"]
    with pytest.raises(InputError, match="the end"):
        why["embed"].split()
    with pytest.raises(InputError, match="one of component"):
        why.split("neuron")
    with pytest.raises(InputError):
        why.split(most=-1)


def test_several_texts_at_once_are_not_explained():
    several = hw.load("one-layer").record(torch.tensor([[1, 2], [3, 4]]))
    with pytest.raises(InputError, match="a run of 2 texts"):
        several.explain()
    assert str(several).startswith("Run(2 × 2 tokens")


def test_lists_are_cut_with_one_exact_remainder(run):
    why = run.explain(token="filename").split(most=2)
    assert [part.kind for part in why.parts][-1] == "remainder"
    assert len(why.parts) == 3
    assert why.parts[-1].label == "7 smaller parts"
    assert why.certificate < 1e-5
    rest = why.parts[-1].split(most=None)
    assert len(rest.parts) == 7
    assert why.plain()["parts"][-1]["count"] == 7
    # A remainder of one would be no shorter than the part itself.
    assert len(run.explain().split(most=8).parts) == 9


@pytest.mark.parametrize("edit", ["head", "stream", "write", "embed", "pattern"])
def test_what_an_edit_put_there_is_a_part_of_its_own(edit):
    model = hw.load("two-layer")
    direction = torch.ones(model.config.d_model)
    taps = {
        "head": hw.Scale(model.place("L1H3"), 0.5),
        "stream": hw.Steer(model.place("L0.out"), direction),
        "write": hw.Steer(model.place("L1.attention"), direction),
        "embed": hw.Steer(model.place("embed"), direction),
        "pattern": hw.Zero(model.place("L1H3.pattern")),
    }
    whole, edited = model.record(TEXT), model.record(TEXT, tap=taps[edit])
    why = edited.explain(token="self")
    assert why.value == pytest.approx(float(edited.logits[0, -1, edited.find("self")]), abs=1e-4)
    assert why.value != pytest.approx(whole.explain(token="self").value)
    assert why.certificate < 1e-5
    # A head that was scaled, an embedding and a pattern are what they are now; only what no component wrote is an edit's.
    assert any(part.kind == "edit" for part in why.parts) == (edit in ("stream", "write"))
    assert why["L1H3"].split().certificate < 1e-5
    assert why.walk().certificate < 1e-5
    assert why.split("token").certificate < 1e-5
    if edit == "head":
        assert why["L1H3"].value == pytest.approx(whole.explain(token="self")["L1H3"].value / 2)
        assert why["L1H3"].split()["edits"].value == pytest.approx(-why["L1H3"].value, rel=1e-4)
    if edit == "stream":
        said = (direction @ model.weights.W_U)[edited.find("self")]
        assert why["edits"].value == pytest.approx(float(said), rel=1e-4)
        assert "edits being all that nobody" in str(why)


def test_totals_and_checks_print_and_draw_themselves(run):
    totals, checked = run.totals(None), hw.check(run)
    assert "‘ line’@1" in str(totals)
    assert totals.remark() in totals._repr_html_()
    assert str(checked).endswith("the parts add up")
    assert "5 positions" in checked._repr_html_()
    assert "L0H5" in run.explain()._repr_html_()


def test_totals_taken_in_pieces_are_those_taken_together(run, monkeypatch):
    together = run.totals(None, token="self")
    monkeypatch.setattr("headwater.trace.totals.AT_ONCE", 1)
    pieces = run.totals(None, token="self")
    assert torch.allclose(together.tokens, pieces.tokens, atol=1e-5)
    assert torch.allclose(together.orders, pieces.orders, atol=1e-5)
    assert pieces.values.tolist() == together.values.tolist()
    against = run.totals(-1, "self", "line")
    assert float(against.tokens.sum()) == pytest.approx(
        float(together.tokens[-1].sum() - run.totals(-1, "line").tokens.sum()), abs=1e-4
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("norm", [PreNorm(), PostNorm()])
def test_models_in_half_precision_are_explained_as_well_as_they_calculate(norm, dtype):
    attention, feeding = Attention(heads=2, d_head=2, input_bias=True), FeedForward(d_mlp=3)
    config = ModelConfig(vocab=9, context=6, d_model=4, layers=2, attention=attention, feed_forward=feeding, norm=norm)
    run = Run.of(record(random_weights(config, 0, dtype), torch.tensor([[1, 2, 3]])))
    near = 16 * torch.finfo(dtype).eps * (1 + float(run.logits.abs().max()))
    assert run.explain(token=2).certificate < near
    assert run.explain(token=2).split("token").certificate < near
    assert run.totals(None).certificate < near
    assert run.attend("L1H0").certificate < near


def test_weights_that_are_being_trained_leave_no_gradients_behind():
    config = ModelConfig(vocab=9, context=6, d_model=4, layers=1, attention=Attention(heads=2, d_head=2), norm=PreNorm())
    weights = random_weights(config, 0)
    learning = weights.changed({name: tensor.clone().requires_grad_() for name, tensor in weights.tensors().items()})
    run = Run.of(record(learning, torch.tensor([[1, 2, 3]])))
    assert not run.logits_at(1).requires_grad
    why = run.explain(token=2)
    assert not why.node.question.q.requires_grad
    assert why.walk().certificate < 1e-12
    assert run.totals(None).certificate < 1e-12
    assert run.attend("L0H1").certificate < 1e-12


def test_an_edit_of_a_place_that_is_not_there_is_refused(run):
    two, one = hw.load("two-layer"), hw.load("one-layer")
    with pytest.raises(InputError, match="the place L1H2"):
        run.effect(hw.Zero(two.place("L1H2")))
    with pytest.raises(InputError, match="the place L0H7"):
        two.record(TEXT, tap=hw.Zero(one.place("L0H7")))
    with pytest.raises(InputError, match="the place L1H2"):
        one.record(TEXT, tap=hw.Chain(hw.Tap(), hw.Zero(two.place("L1H2"))))


@pytest.mark.parametrize("token", [-1, True, 10**9])
def test_what_is_no_token_is_refused(run, token):
    with pytest.raises(InputError, match="token"):
        run.explain(token=token)


def test_values_are_one_line_where_they_are_looked_at(run):
    why = run.explain()
    for value in (why, why.parts[0], run.totals(), run.stream(), run.attend("L0H5", -1, 1)):
        assert len(repr(value)) < 160
        assert "\n" not in repr(value)


def test_the_likeliest_is_the_same_for_everyone():
    weights = hw.Weights.draw(hw.ModelConfig(vocab=7, context=4, d_model=3, layers=0), seed=0)
    flat = hw.Model(weights.changed({"unembed.W_U": torch.zeros(3, 7)})).record([1, 2])
    assert flat.top(-1, 3) == [(0, pytest.approx(1 / 7)), (1, pytest.approx(1 / 7)), (2, pytest.approx(1 / 7))]
    assert flat.explain().facts["id"] == 0


def test_paths_that_cancel_inside_a_head_are_walked_too():
    """One head whose two sources come to +2 and -2: its own part is exactly 0."""
    config = hw.ModelConfig(vocab=2, context=2, d_model=1, layers=1, attention=Attention(heads=1, d_head=1))
    one = torch.ones(1, 1, 1)
    tensors = {
        "embed.W_E": torch.tensor([[1.0], [-1.0]]),
        "blocks.0.attn.W_Q": 0 * one,
        "blocks.0.attn.W_V": one,
        "blocks.0.attn.W_O": 4 * one,
        "unembed.W_U": torch.ones(1, 2),
    }
    run = hw.Model(hw.Weights.draw(config, seed=0).changed(tensors)).record([0, 1])
    walked = run.explain(-1, 0).walk(share=1.0)
    assert {path.label: path.value for path in walked.parts} == {
        "#1@1 → logit": -1,
        "#0@0 → L0H0 → logit": 2,
        "#1@1 → L0H0 → logit": -2,
    }
    assert walked.facts["resolved"] == 1.0
    assert run.explain(-1, 0).walk(share=0.5).facts["resolved"] <= 1.0


def test_what_a_walk_said_is_not_said_of_other_ways(run):
    walked = run.explain().walk()
    assert "followed to their end" in str(walked)
    again = walked.split("head")
    assert "followed to their end" not in str(again)
    assert "resolved" not in again.facts
    assert "They do not add" in str(again).replace("\n", " ")
    every = hw.load("two-layer").record(TEXT).explain().split("path", most=None)
    assert len([path for path in every.parts if path.kind == "path"]) > 20


def test_the_documents_words_are_used_only_where_they_are_true():
    model = hw.load("one-layer")
    edited = model.record(TEXT, tap=hw.Zero(model.place("L0H0"))).explain()
    centred = model.record(TEXT).explain(centred=True)
    for why in (edited, centred):
        assert not any("trigram" in text or "bigram" in text for text in (*why.remarks, *(part.label for part in why.parts)))
    config = ModelConfig(
        vocab=9,
        context=6,
        d_model=4,
        layers=1,
        attention=Attention(heads=2, d_head=2),
        norm=PreNorm(),
        positions=LearnedPositions(),
    )
    placed = Run.of(record(random_weights(config, 0), torch.tensor([[1, 2, 3]]))).explain()
    assert not any("trigram" in part.label for part in placed.parts)
    assert placed.remarks[0].startswith("In the documents' terms, with positions and biases apart: ")
