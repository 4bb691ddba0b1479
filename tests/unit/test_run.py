"""A run and all that may happen to it: taken up, stopped, crowded, out of room, off to infinity."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from headwater.api import load
from headwater.errors import ConfigError, InputError, ModelFileError
from headwater.train.folder import RunFolder
from headwater.train.loop import DivergedError
from headwater.train.recipe import Recipe, read_recipe
from headwater.train.run import Progress, Ways, run_recipe
from tiny import tiny_recipe

RESUME = Ways(resume=True)


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    return read_recipe(tiny_recipe(tmp_path))


def log(out: Path) -> list[dict[str, float]]:
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def test_a_run_leaves_everything_that_was_promised(recipe: Recipe, tmp_path: Path) -> None:
    out = tmp_path / "run"
    seen: list[int] = []
    outcome = run_recipe(recipe, out, Ways(report=lambda progress: seen.append(progress.step.number)))
    assert seen == list(range(1, 13))
    assert (outcome.step, outcome.signal) == (12, None)
    assert read_recipe(out / "recipe.toml") == recipe
    assert [step for step, _ in RunFolder(out).snapshots()] == [0, 1, 2, 4, 8, 12]
    assert load(out / "snapshots" / "00000012").weights == load(out / "model").weights
    assert load(out / "snapshots" / "00000000").weights != load(out / "model").weights
    assert load(out / "model").tokenizer is not None
    assert [line["step"] for line in log(out)] == list(range(1, 13))
    assert outcome.held_out == log(out)[-1]["held_out"]
    assert outcome.bits_per_byte == pytest.approx(outcome.held_out / 0.6931471805599453, abs=1e-5), "a byte is a token here"


def test_the_held_out_loss_is_that_of_the_model(recipe: Recipe, tmp_path: Path) -> None:
    import numpy as np

    from headwater.model.forward import forward
    from headwater.text.corpus import open_corpus
    from headwater.train.evaluate import window_starts

    outcome = run_recipe(recipe, tmp_path / "run")
    held_out = open_corpus(tmp_path / "run" / "corpus").held_out
    starts = window_starts(len(held_out) - 16, 16, 256)
    windows = torch.from_numpy(np.stack([held_out[start : start + 17] for start in starts]).astype(np.int64))
    logits = forward(load(tmp_path / "run" / "model").weights, windows[:, :-1])
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
    assert outcome.held_out == pytest.approx(float(loss), abs=2e-6)


@pytest.mark.parametrize("last", [4, 8])
def test_a_run_taken_up_ends_in_the_same_bits(recipe: Recipe, tmp_path: Path, last: int) -> None:
    run_recipe(recipe, tmp_path / "whole")

    class Killed(BaseException): ...

    def kill(progress: Progress) -> None:
        if progress.step.number == last + 2:
            raise Killed

    with pytest.raises(Killed):
        run_recipe(recipe, tmp_path / "broken", Ways(report=kill))
    with (tmp_path / "broken" / "log.jsonl").open("a") as file:
        file.write('{"step": 7, "lo')
    run_recipe(recipe, tmp_path / "broken", RESUME)
    assert load(tmp_path / "broken" / "model").weights == load(tmp_path / "whole" / "model").weights
    assert log(tmp_path / "broken") == log(tmp_path / "whole")


def test_a_run_that_is_complete_stays_as_it_is(recipe: Recipe, tmp_path: Path) -> None:
    run_recipe(recipe, tmp_path / "run")
    before = load(tmp_path / "run" / "model").weights
    outcome = run_recipe(recipe, tmp_path / "run", RESUME)
    assert outcome.step == 12
    assert load(tmp_path / "run" / "model").weights == before


def test_a_folder_with_a_run_is_not_written_over(recipe: Recipe, tmp_path: Path) -> None:
    run_recipe(recipe, tmp_path / "run")
    with pytest.raises(InputError, match="add --resume"):
        run_recipe(recipe, tmp_path / "run")
    with pytest.raises(InputError, match="begun with other settings"):
        run_recipe(read_recipe(tmp_path / "tiny.toml", ["training.learning_rate=0.5"]), tmp_path / "run", RESUME)


def test_a_second_process_is_kept_out(recipe: Recipe, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with folder.locked(), pytest.raises(InputError, match=f"in use by process {os.getpid()}"):
        run_recipe(recipe, folder.path)


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(recipe: Recipe, tmp_path: Path) -> None:
    run_recipe(recipe, tmp_path / "run")
    expected = load(tmp_path / "run" / "model").weights
    file = tmp_path / "run" / "checkpoints" / "00000012" / "training.safetensors"
    data = bytearray(file.read_bytes())
    data[-100] ^= 1
    file.write_bytes(data)
    run_recipe(recipe, tmp_path / "run", RESUME)
    assert load(tmp_path / "run" / "model").weights == expected
    assert RunFolder(tmp_path / "run").last_checkpoint().step == 12


def test_a_checkpoint_of_another_update_than_it_says_is_passed_over(recipe: Recipe, tmp_path: Path) -> None:
    run_recipe(recipe, tmp_path / "run")
    state = tmp_path / "run" / "checkpoints" / "00000012" / "state.json"
    state.write_text(state.read_text().replace('"step": 12', '"step": 13'))
    assert RunFolder(tmp_path / "run").last_checkpoint().step == 8


def test_without_a_sound_checkpoint_the_damage_is_told(recipe: Recipe, tmp_path: Path) -> None:
    run_recipe(recipe, tmp_path / "run")
    for step in (8, 12):
        (tmp_path / "run" / "checkpoints" / f"{step:08d}" / "training.safetensors").write_bytes(b"not this")
    with pytest.raises(ModelFileError, match="00000012"):
        run_recipe(recipe, tmp_path / "run", RESUME)


def test_a_loss_without_bounds_names_the_update_and_the_last_good_checkpoint(tmp_path: Path) -> None:
    wild = read_recipe(tiny_recipe(tmp_path), ["training.learning_rate=1e38", "training.warmup=11", "keeping.checkpoint_every=1", "model.norm=no-norm", "training.clip=1e30"])  # fmt: skip
    with pytest.raises(DivergedError, match=r"update \d+ has a loss of (nan|inf).*"):
        run_recipe(wild, tmp_path / "run")
    with pytest.raises(DivergedError, match=r"the last good checkpoint is that of update \d+"):
        run_recipe(wild, tmp_path / "run", RESUME)
    assert RunFolder(tmp_path / "run").last_checkpoint() is not None


def command(recipe: Path, out: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "headwater", "train", str(recipe), "--out", str(out), *options]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_stops_and_the_rest_follows_later(tmp_path: Path, number: signal.Signals) -> None:
    path, out = tiny_recipe(tmp_path), tmp_path / "run"
    options = ("--set", "training.steps=100000", "--set", "keeping.checkpoint_every=100000")
    with subprocess.Popen(command(path, out, *options), stderr=subprocess.PIPE, text=True) as process:
        while not (out / "log.jsonl").exists() or not (out / "log.jsonl").read_text():
            time.sleep(0.05)
        process.send_signal(number)
        _, told = process.communicate(timeout=60)
    (step,) = RunFolder(out).checkpoint_steps()
    assert process.returncode == 128 + number
    assert f"stopped after update {step:,}" in told
    assert RunFolder(out).last_checkpoint().step == step
    assert not (out / "model").exists()


def test_a_full_disk_is_told_and_the_last_checkpoint_is_whole(tmp_path: Path) -> None:
    """Files may not grow beyond what a checkpoint needs: what a full disk does to a write, in every file alike."""
    path, out = tiny_recipe(tmp_path), tmp_path / "run"
    assert subprocess.run(command(path, out), capture_output=True, check=False).returncode == 0
    longer = ("--set", "training.steps=13")
    recipe = out / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("steps = 12", "steps = 13"))
    (out / "model").rename(out / "model-then")

    def no_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))

    done = subprocess.run(
        command(path, out, "--resume", *longer), capture_output=True, text=True, check=False, preexec_fn=no_room
    )
    assert done.returncode == 2, done.stderr
    assert "cannot be written" in done.stderr
    assert "the last good checkpoint is that of update 12" in done.stderr.replace("\n", " ")
    assert subprocess.run(command(path, out, "--resume", *longer), capture_output=True, check=False).returncode == 0
    assert RunFolder(out).last_checkpoint().step == 13


def test_a_folder_that_cannot_be_made_is_told(recipe: Recipe, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match="cannot be written"):
        run_recipe(recipe, tmp_path / "file" / "run")


def test_a_device_that_is_not_here_is_refused(recipe: Recipe, tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has it")
    with pytest.raises(InputError, match="one that is here: cpu"):
        run_recipe(recipe, tmp_path / "run", Ways(device="cuda"))


def test_a_recurrent_network_is_trained_by_the_same_recipe(tmp_path: Path) -> None:
    from headwater.train import recurrent

    run_recipe(read_recipe(tiny_recipe(tmp_path), ["architecture=recurrent"]), tmp_path / "run")
    module, tokenizer = recurrent.load(tmp_path / "run" / "model")
    assert tokenizer is not None
    assert float(module(torch.tensor([[1, 2, 3]])).detach()) > 0


def test_a_start_that_failed_does_not_keep_the_folder(tmp_path: Path) -> None:
    path, out = tiny_recipe(tmp_path), tmp_path / "run"
    with pytest.raises(ModelFileError, match="is not there"):
        run_recipe(read_recipe(path, files=("nowhere.txt",)), out)
    with pytest.raises(ConfigError, match=r"model\.vocab is 100"):
        run_recipe(read_recipe(path, ["model.vocab=100"]), out)
    assert run_recipe(read_recipe(path), out).step == 12


def test_parts_of_a_run_without_its_recipe_are_left_alone(recipe: Recipe, tmp_path: Path) -> None:
    run_recipe(recipe, tmp_path / "run")
    (tmp_path / "run" / "recipe.toml").unlink()
    for resume in (False, True):
        with pytest.raises(InputError, match="parts of a run without its recipe"):
            run_recipe(recipe, tmp_path / "run", Ways(resume=resume))


def test_rubbish_in_the_log_is_passed_over(recipe: Recipe, tmp_path: Path) -> None:
    run_recipe(recipe, tmp_path / "run")
    before = log(tmp_path / "run")
    with (tmp_path / "run" / "log.jsonl").open("ab") as file:
        file.write(b'garbage\n[]\n\xff\xfe\n\x00\x00\n{"step": "x"}\n')
    run_recipe(recipe, tmp_path / "run", RESUME)
    assert log(tmp_path / "run") == before


def test_what_a_kill_left_half_written_is_swept_away(recipe: Recipe, tmp_path: Path) -> None:
    run_recipe(recipe, tmp_path / "run")
    left = tmp_path / "run" / "checkpoints" / ".00000004.abc.part"
    left.mkdir()
    (left / "training.safetensors").write_bytes(b"half")
    (tmp_path / "run" / ".log.jsonl.x.part").write_bytes(b"half")
    run_recipe(recipe, tmp_path / "run", RESUME)
    assert not list((tmp_path / "run").rglob(".*.part"))


def test_a_kill_after_the_last_checkpoint_leaves_no_more_of_them(recipe: Recipe, tmp_path: Path, monkeypatch) -> None:
    whole, out = (RunFolder(tmp_path / name) for name in ("whole", "out"))
    run_recipe(recipe, whole.path)
    let_go = RunFolder.let_go

    def killed(folder: RunFolder) -> None:
        if folder.checkpoint_steps()[-1:] == [recipe.training.steps]:
            raise KeyboardInterrupt
        let_go(folder)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "let_go", killed)
        with pytest.raises(KeyboardInterrupt):
            run_recipe(recipe, out.path)
    assert len(out.checkpoint_steps()) > len(whole.checkpoint_steps())
    run_recipe(recipe, out.path, Ways(resume=True))
    assert out.checkpoint_steps() == whole.checkpoint_steps()


@pytest.mark.parametrize("variables", [{"WORLD_SIZE": "x"}, {"WORLD_SIZE": "0"}, {"WORLD_SIZE": "2"}, {"WORLD_SIZE": "2", "RANK": "5"}])  # fmt: skip
def test_half_a_world_is_refused(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match="torchrun"):
        run_recipe(recipe, tmp_path / "run")


def test_a_context_of_one_token_can_be_evaluated(tmp_path: Path) -> None:
    bigram = read_recipe(tiny_recipe(tmp_path), ["model.context=1", "training.batch=512", "keeping.evaluation_tokens=1000000"])
    assert run_recipe(bigram, tmp_path / "run").held_out is not None
