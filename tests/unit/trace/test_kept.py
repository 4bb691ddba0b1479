"""Files of runs whose hash is right and whose content fits no run."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from hypothesis import given, settings

from headwater.errors import ModelFileError
from headwater.files.safetensors import hash_tensors, read_header, read_tensors, write_tensors
from headwater.model.config import Attention, FeedForward, LearnedPositions, ModelConfig, PreNorm
from headwater.model.record import record
from headwater.trace.run import Run, load_run
from strategies import models, random_weights

CONFIG = ModelConfig(
    vocab=9,
    context=6,
    d_model=4,
    layers=2,
    attention=Attention(heads=2, d_head=2),
    feed_forward=FeedForward(d_mlp=3),
    norm=PreNorm(),
    positions=LearnedPositions(),
)


@settings(max_examples=25)
@given(models())
def test_runs_of_the_whole_family_survive_their_files(member):
    run = Run.of(record(*member))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        run.save(path)
        again = load_run(path)
    assert again.kept.keys() == run.kept.keys()
    assert all(torch.equal(tensor, again.kept[name]) for name, tensor in run.kept.items())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tokens", None),
        ("tokens", torch.tensor([[1, 2, 3, 4]])),
        ("tokens", torch.ones(1, 7, dtype=torch.int64)),
        ("site/embed", None),
        ("site/positions", None),
        ("site/L0.out", None),
        ("site/L1.mixed", None),
        ("site/final", None),
        ("site/final", torch.zeros(1, 2, 4)),
        ("site/final", torch.zeros(1, 3, 5)),
        ("site/L0.out", torch.zeros(2, 3, 4)),
        ("site/positions", torch.zeros(4)),
        ("site/embed", torch.zeros(1, 3, 4, dtype=torch.float16)),
        ("site/L0.norm_1.scale", torch.zeros(1, 3, dtype=torch.int64)),
        ("words", torch.zeros(8, dtype=torch.bfloat16)),
    ],
)
def test_content_that_fits_no_run_is_refused_though_its_hash_is_right(name, value, tmp_path):
    path = tmp_path / "run"
    Run.of(record(random_weights(CONFIG, 0), torch.tensor([[1, 2, 3]]))).save(path)
    about, tensors = read_header(path).metadata["headwater"], read_tensors(path)
    if value is None:
        del tensors[name]
    else:
        if value.dtype == torch.float32:
            value = value.to(tensors["site/embed"])
        tensors[name] = value
    write_tensors(path, tensors, {"headwater": about, "sha256": hash_tensors(tensors, about)})
    with pytest.raises(ModelFileError, match="run"):
        load_run(path)
