import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from headwater.errors import ModelFileError
from headwater.model.foreign.state_dict import look, widened


def tensors(*names):
    return {name: torch.full((2, 3), float(number)) for number, name in enumerate(names)}


def write_shards(folder, ending=".safetensors", **shards):
    """Shards ``a``, ``b`` … with the tensors that are given, and an index that lists them truly."""
    stem = "model.safetensors" if ending == ".safetensors" else "pytorch_model.bin"
    for shard, names in shards.items():
        write = save_file if ending == ".safetensors" else torch.save
        write(tensors(*names), folder / f"{shard}{ending}")
    listed = {name: f"{shard}{ending}" for shard, names in shards.items() for name in names}
    return write_index(folder / f"{stem}.index.json", listed)


def write_index(path, listed):
    path.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": listed}))
    return path


@pytest.mark.parametrize("name", ["m.safetensors", "m.pt", "m.pth", "m.bin"])
def test_one_file_is_listed_and_read(tmp_path, name):
    (save_file if name.endswith("safetensors") else torch.save)(tensors("x", "y"), tmp_path / name)
    state = look(tmp_path / name)
    assert sorted((entry.name, entry.dtype, entry.shape) for entry in state.entries) == [
        ("x", "float32", (2, 3)),
        ("y", "float32", (2, 3)),
    ]
    assert {name: tensor[0, 0].item() for name, tensor in state.read().items()} == {"x": 0.0, "y": 1.0}


@pytest.mark.parametrize("ending", [".safetensors", ".bin"])
def test_shards_are_one_table(tmp_path, ending):
    state = look(write_shards(tmp_path, ending, a=["x", "y"], b=["z"]))
    assert sorted(entry.name for entry in state.entries) == ["x", "y", "z"]
    assert {name: tensor[0, 0].item() for name, tensor in state.read().items()} == {"x": 0.0, "y": 1.0, "z": 0.0}


PATH_LIKE = [
    "../a.safetensors", "/etc/a.safetensors", "sub/a.safetensors", "sub\\a.safetensors", "..\\a.safetensors",
    "C:a.safetensors", "C:\\a.safetensors", "\\\\server\\a.safetensors", ".a.safetensors", "..", ".", "", "a.bin", "a.txt",
    "a\0.safetensors", "./a.safetensors", "file:a.safetensors",
]  # fmt: skip


@pytest.mark.parametrize("name", PATH_LIKE)
def test_a_shard_name_that_could_lead_elsewhere_is_refused(tmp_path, name):
    inner = tmp_path / "inner"
    (inner / "sub").mkdir(parents=True)
    for folder in (tmp_path, inner, inner / "sub"):
        save_file(tensors("x"), folder / "a.safetensors")
    with pytest.raises(ModelFileError, match="names the shard"):
        look(write_index(inner / "model.safetensors.index.json", {"x": name}))


@given(st.text(max_size=20))
def test_no_shard_name_leaves_the_folder(tmp_path_factory, name):
    folder = tmp_path_factory.mktemp("m")
    with pytest.raises(ModelFileError):
        look(write_index(folder / "model.safetensors.index.json", {"x": name + ".safetensors"}))


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    folder = tmp_path / "m"
    folder.mkdir()
    save_file(tensors("x"), tmp_path / "elsewhere.safetensors")
    (folder / "a.safetensors").symlink_to(tmp_path / "elsewhere.safetensors")
    with pytest.raises(ModelFileError, match="link out of the folder"):
        look(write_index(folder / "model.safetensors.index.json", {"x": "a.safetensors"}))


def test_a_link_within_the_folder_is_followed(tmp_path):
    save_file(tensors("x"), tmp_path / "b.safetensors")
    (tmp_path / "a.safetensors").symlink_to("b.safetensors")
    assert len(look(write_index(tmp_path / "model.safetensors.index.json", {"x": "a.safetensors"})).entries) == 1


def test_the_links_of_a_hugging_face_cache_are_followed(tmp_path):
    snapshot, blobs = tmp_path / "models--x" / "snapshots" / "0a1b", tmp_path / "models--x" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    save_file(tensors("x"), blobs / "ffff")
    (snapshot / "a.safetensors").symlink_to("../../blobs/ffff")
    assert len(look(write_index(snapshot / "model.safetensors.index.json", {"x": "a.safetensors"})).entries) == 1


def test_a_missing_shard_is_named(tmp_path):
    index = write_shards(tmp_path, a=["x"], b=["y"])
    (tmp_path / "b.safetensors").unlink()
    with pytest.raises(ModelFileError, match=r"b\.safetensors"):
        look(index)


def test_a_tensor_in_two_shards_is_refused(tmp_path):
    index = write_shards(tmp_path, a=["x"], b=["y"])
    save_file(tensors("x", "y"), tmp_path / "b.safetensors")
    with pytest.raises(ModelFileError, match=r"b\.safetensors holds 'x', which .* lists in a\.safetensors"):
        look(index)


def test_a_tensor_in_another_shard_than_listed_is_refused(tmp_path):
    write_shards(tmp_path, a=["x"], b=["y"])
    with pytest.raises(ModelFileError, match="lists in"):
        look(write_index(tmp_path / "model.safetensors.index.json", {"x": "b.safetensors", "y": "a.safetensors"}))


def test_a_tensor_that_the_index_does_not_list_is_refused(tmp_path):
    index = write_shards(tmp_path, a=["x"], b=["y"])
    save_file(tensors("y", "z"), tmp_path / "b.safetensors")
    with pytest.raises(ModelFileError, match=r"holds 'z', which .* lists nowhere"):
        look(index)


def test_a_listed_tensor_that_is_not_there_is_named(tmp_path):
    write_shards(tmp_path, a=["x"], b=["y"])
    listed = {"x": "a.safetensors", "y": "b.safetensors", "z": "b.safetensors"}
    with pytest.raises(ModelFileError, match=r"b\.safetensors has no 'z'"):
        look(write_index(tmp_path / "model.safetensors.index.json", listed))


@pytest.mark.parametrize(
    "plain",
    [
        {},
        {"weight_map": {}},
        {"weight_map": []},
        {"weight_map": {"x": 1}},
        {"weight_map": {"x": ["a"]}},
        {"weight_map": {}, "more": 1},
    ],
)
def test_a_damaged_index_is_refused(tmp_path, plain):
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(plain))
    with pytest.raises(ModelFileError, match=r"index\.json"):
        look(tmp_path / "model.safetensors.index.json")


@pytest.mark.parametrize("tree", [[1], 3, {"a": 1}, {"state_dict": {"x": torch.zeros(1)}}, {1: torch.zeros(1)}, "text"])
def test_a_pickle_without_a_flat_table_is_refused(tmp_path, tree):
    torch.save(tree, tmp_path / "m.pt")
    with pytest.raises(ModelFileError, match=r"m\.pt"):
        look(tmp_path / "m.pt")


def test_another_kind_of_file_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match="unknown kind"):
        look(tmp_path / "m.npz")


HALVES = torch.arange(2**16, dtype=torch.int32).to(torch.uint16)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_widening_keeps_every_number_that_half_precision_has(dtype):
    every = HALVES.view(dtype)
    every = every[~every.isnan()]
    wide = widened({"x": every})["x"]
    assert wide.dtype == torch.float32
    assert wide.to(dtype).view(torch.int16).equal(every.view(torch.int16))
    assert wide.double().equal(every.double())


def test_mixed_formats_become_the_widest():
    kinds = {name: torch.ones(1, dtype=getattr(torch, name)) for name in ("float16", "bfloat16", "float32", "float64")}
    assert {tensor.dtype for tensor in widened(kinds).values()} == {torch.float64}
    kinds.pop("float64")
    assert {tensor.dtype for tensor in widened(kinds).values()} == {torch.float32}
