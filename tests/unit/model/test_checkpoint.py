import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from headwater.errors import InputError, ModelFileError
from headwater.model import checkpoint
from headwater.model.config import ModelConfig, Unembedding
from headwater.model.sources import load_weights, look
from headwater.model.weights import Weights
from headwater.settings import to_plain
from strategies import random_weights

CONFIG = ModelConfig(vocab=6, context=4, d_model=4, layers=0)


@pytest.fixture
def saved(tmp_path):
    checkpoint.save(random_weights(CONFIG, 0, torch.float32), tmp_path / "model")
    return tmp_path / "model"


def rewrite(folder, change):
    plain = json.loads((folder / "config.json").read_text())
    plain.pop("sha256")
    plain.pop("files")
    change(plain)
    (folder / "config.json").write_text(json.dumps(plain))


def refusal(path):
    with pytest.raises(ModelFileError) as caught:
        load_weights(look(path))
    return str(caught.value)


def test_a_folder_made_by_hand_without_hashes_loads(saved):
    rewrite(saved, lambda plain: None)
    assert load_weights(look(saved)).config == CONFIG


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda plain: plain.update(format="headwater-model/9"), "headwater-model/9"),
        (lambda plain: plain.update(extra=1), "unknown keys: extra"),
        (lambda plain: plain.pop("model"), "model is None"),
        (lambda plain: plain["model"].update(vocab=7), "embed.W_E is [6, 4], not [7, 4]"),
        (lambda plain: plain["model"].update(vocab=10**12), "vocab=1000000000000"),
        (lambda plain: plain["model"].update(norm="pre-norm"), "no ln_final.w"),
        (lambda plain: plain["model"]["unembedding"].update(tied=True), "unknown 'unembed.W_U'"),
        (lambda plain: plain.update(files={"../../etc": {}}), "lists the files"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(saved, change, told):
    rewrite(saved, change)
    assert told in refusal(saved)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_not_finite_are_refused_with_the_tensor_s_name(saved, bad):
    tensors = random_weights(CONFIG, 0, torch.float32).tensors()
    tensors["unembed.W_U"][1, 2] = bad
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, saved / "model.safetensors")
    rewrite(saved, lambda plain: None)
    assert "unembed.W_U holds NaN or infinity" in refusal(saved)


def test_whole_numbers_in_place_of_weights_are_refused(saved):
    tensors = {name: tensor.contiguous().to(torch.int32) for name, tensor in random_weights(CONFIG, 0).tensors().items()}
    save_file(tensors, saved / "model.safetensors")
    rewrite(saved, lambda plain: None)
    assert "int32" in refusal(saved)


def test_what_is_not_a_model_is_refused_in_words(tmp_path):
    assert "nothing is there" in refusal(tmp_path / "missing")
    assert "without config.json" in refusal(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert "unknown kind" in refusal(tmp_path)
    (tmp_path / "x.txt").write_text("hello")
    assert "ends in '.txt'" in refusal(tmp_path / "x.txt")


def test_an_existing_folder_is_not_overwritten_unless_asked(saved):
    other = random_weights(CONFIG, 1, torch.float32)
    with pytest.raises(InputError, match="already there"):
        checkpoint.save(other, saved)
    checkpoint.save(other, saved, overwrite=True)
    assert torch.equal(load_weights(look(saved)).W_E, other.W_E)
    assert [path.name for path in saved.parent.iterdir()] == ["model"]


def test_a_save_that_fails_leaves_nothing_behind(tmp_path):
    code = f"""
import resource, signal
from pathlib import Path
from headwater.errors import InputError
from headwater.model import checkpoint
from headwater.model.presets import named
from headwater.model.weights import Weights
from headwater.settings import to_plain
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # as on a full disk, writing on fails
try:
    checkpoint.save(Weights.draw(named("zero-layer"), seed=0), Path({str(tmp_path / "model")!r}))
except InputError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "cannot be written" in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_overwriting_takes_nothing_along_that_is_not_a_model_s(saved, tmp_path):
    weights = random_weights(CONFIG, 1, torch.float32)
    (saved / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds 'notes\.txt' too"):
        checkpoint.save(weights, saved, overwrite=True)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "link"):
        with pytest.raises(InputError, match="a file or a link"):
            checkpoint.save(weights, tmp_path / name, overwrite=True)
    with pytest.raises(InputError, match="cannot be written"):
        checkpoint.save(weights, tmp_path / "file" / "model")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link", "model"]


def test_a_file_that_claims_more_than_the_machine_has_is_refused_before_it_is_read(tmp_path):
    config = ModelConfig(vocab=2**22, context=4, d_model=2**18, layers=0, unembedding=Unembedding(tied=True))
    header = json.dumps({"embed.W_E": {"dtype": "F32", "shape": [2**22, 2**18], "data_offsets": [0, 2**42]}}).encode()
    (tmp_path / "config.json").write_text(json.dumps({"format": checkpoint.FORMAT, "model": to_plain(config)}))
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 2**42)  # sparse: a few bytes on disk
    assert "4,398 GB of numbers" in refusal(tmp_path)


SAVER = """
import sys, torch
from pathlib import Path
from headwater.model import checkpoint
from headwater.model.config import ModelConfig, Unembedding
from headwater.model.weights import Weights
from headwater.settings import to_plain
weights = [Weights.draw(ModelConfig(vocab=2000, context=4, d_model=64, layers=0), seed=seed) for seed in (0, 1)]
print("ready", flush=True)
turn = 0
while True:
    checkpoint.save(weights[turn % 2], Path(sys.argv[1]), overwrite=True)
    turn += 1
"""


@pytest.mark.parametrize("kill", range(4))
def test_a_process_killed_while_it_saves_leaves_a_whole_model(tmp_path, kill):
    target = tmp_path / "model"
    process = subprocess.Popen(
        [sys.executable, "-c", SAVER, str(target)], stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert process.stdout is not None
    process.stdout.readline()
    while not target.exists():
        time.sleep(0.01)
    time.sleep(0.013 * (1 + kill))
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    # Killed between the two renames of an overwrite, the old model lies whole beside, under a name that says so.
    kept = target if target.exists() else next(iter(tmp_path.glob(".model.old-*")))
    assert load_weights(look(kept)).config.vocab == 2000


def test_looking_at_a_model_does_not_import_torch(saved):
    code = f"import sys; from headwater.model.sources import look; look({str(saved)!r}); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_weights_file_that_shrinks_while_it_is_read_is_an_error_and_not_a_crash(saved):
    source = look(saved)
    os.truncate(saved / "model.safetensors", Path(saved / "model.safetensors").stat().st_size - 8)
    with pytest.raises(ModelFileError):
        load_weights(source)


def test_weights_that_share_memory_or_are_trained_are_saved_as_they_are(tmp_path):
    buffer = torch.randn(2, 6, 4)
    weights = Weights.assemble(CONFIG, {"embed.W_E": buffer[0], "unembed.W_U": buffer[1].T.requires_grad_()})
    checkpoint.save(weights, tmp_path / "model")
    assert load_weights(look(tmp_path / "model")) == weights


def test_the_least_bit_of_one_weight_is_found(saved):
    path = saved / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-4] ^= 1
    path.write_bytes(content)
    assert "bits have changed" in refusal(saved)
