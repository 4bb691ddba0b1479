import io
import pickle
import re
import struct
import subprocess
import sys
import zipfile
from collections import OrderedDict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import ModelFileError
from headwater.files import pickles
from headwater.files.entries import TensorEntry

DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.pt"


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def archive(program, storages=(), **options):
    """A torch file around a pickle that torch would not write."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **options) as target:
        target.writestr("model/data.pkl", program)
        for key, data in dict(storages).items():
            target.writestr(f"model/data/{key}", data)
    return file.getvalue()


def refusal(path, data):
    path.write_bytes(data)
    with pytest.raises(ModelFileError) as caught:
        pickles.look(path)
    with pytest.raises(ModelFileError):
        pickles.read(path)
    return str(caught.value)


def shapes_of(tree):
    """The tree with each tensor, read or only seen, as its format and shape."""
    match tree:
        case TensorEntry():
            return tree.dtype, tree.shape
        case torch.Tensor():
            return str(tree.dtype)[6:], tuple(tree.shape)
        case dict():
            return {key: shapes_of(value) for key, value in tree.items()}
        case list() | tuple():
            return [shapes_of(value) for value in tree]
        case _:
            return tree


def trees():
    tensors = st.builds(
        lambda dtype, shape: torch.zeros(shape, dtype=getattr(torch, dtype)),
        st.sampled_from(DTYPES),
        st.lists(st.integers(0, 3), max_size=3),
    )
    leaves = st.none() | st.booleans() | st.integers(-(2**64), 2**64) | st.floats(allow_nan=False) | st.text() | tensors
    keys = st.text() | st.integers()
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=10
    )


@given(tree=trees())
def test_what_is_seen_is_what_is_read(tmp_path_factory, tree):
    path = tmp_path_factory.mktemp("tree") / "model.pt"
    torch.save(tree, path)
    assert shapes_of(pickles.look(path)) == shapes_of(pickles.read(path)) == shapes_of(tree)


def test_a_checkpoint_with_an_optimiser_is_read(path):
    layer = torch.nn.Linear(3, 4)
    optimiser = torch.optim.AdamW(layer.parameters())
    layer(torch.ones(3)).sum().backward()
    optimiser.step()
    state = {"model": layer.state_dict(), "optimizer": optimiser.state_dict(), "parameter": layer.weight, "step": 3}
    torch.save(state, path)
    tree = pickles.look(path)
    assert tree["model"]["weight"].name == "weight"
    assert tree["model"]["weight"].start == tree["parameter"].start
    assert tree["optimizer"]["state"][0]["exp_avg"].shape == (4, 3)
    assert torch.equal(pickles.read(path)["model"]["bias"], layer.bias.detach())


def test_an_entry_says_where_the_bytes_of_a_tensor_stand(path):
    tensor = torch.arange(12, dtype=torch.float32)
    torch.save({"all": tensor, "part": tensor[5:9]}, path)
    for name, expected in {"all": tensor, "part": tensor[5:9]}.items():
        entry = pickles.look(path)[name]
        stored = path.read_bytes()[entry.start : entry.start + entry.size]
        assert stored == expected.numpy().tobytes()


def test_transposed_and_cut_out_tensors_are_read(path):
    tensor = torch.arange(24.0).reshape(2, 3, 4)
    views = {"turned": tensor.permute(2, 0, 1), "cut": tensor[:, 1:, ::2], "column": tensor[:, :, 1]}
    torch.save(views, path)
    assert {name: entry.shape for name, entry in pickles.look(path).items()} == {n: tuple(v.shape) for n, v in views.items()}
    assert all(torch.equal(pickles.read(path)[name], view) for name, view in views.items())


def test_values_that_are_no_tensors_keep_their_meaning(path):
    torch.save(
        {"size": torch.Size([2, 3]), "dtype": torch.float32, "device": torch.device("cuda", 1), "many": (1, [2.5, None])}, path
    )
    assert pickles.look(path) == {"size": (2, 3), "dtype": "torch.float32", "device": "cuda:1", "many": (1, [2.5, None])}


def test_a_pickle_with_code_is_refused_and_does_not_run(path, tmp_path):
    touched = tmp_path / "touched"

    class Attack:
        def __reduce__(self):
            return exec, (f"open({str(touched)!r}, 'w')",)

    assert "would run code" in refusal(path, saved({"weight": torch.ones(2), "x": Attack()}))
    for protocol in (2, 3, 4, 5):
        refusal(path, archive(pickle.dumps(Attack(), protocol=protocol)))
    refusal(path, pickle.dumps(Attack()))
    assert not touched.exists()


@pytest.mark.parametrize(
    ("program", "reason"),
    {
        "an allowed name called with a function": (b"\x80\x02ctorch._utils\n_rebuild_parameter\nctorch\nSize\n\x85R.", "parameter"),
        "a class called as a function": (b"\x80\x02ctorch\nFloatStorage\n)R.", "would run code"),
        "a dtype called as a function": (b"\x80\x02ctorch\nfloat32\n)R.", "would run code"),
        "an unknown name": (b"\x80\x02cos\nsystem\n.", "os.system"),
        "a name of a torch function": (b"\x80\x02ctorch\nload\n.", "torch.load"),
        "a name left over": (b"\x80\x02ctorch\nFloatStorage\n.", "on its own"),
        "attributes on a dictionary": (b"\x80\x02}}b.", "would run code"),
        "attributes on a number": (b"\x80\x02K\x01}b.", "would run code"),
        "an object made without a call": (b"\x80\x02ccollections\nOrderedDict\n)\x81.", "NEWOBJ"),
        "an extension": (b"\x80\x02\x82\x01.", "EXT1"),
        "a textual storage": (b"\x80\x02P0\n.", "PERSID"),
        "a stacked name": (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "SHORT_BINUNICODE"),
        "a textual number": (b"\x80\x02I01\n.", "INT"),
        "a list within itself": (b"\x80\x02]q\x00h\x00a.", "nested"),
        "a dictionary within itself": (b"\x80\x02}q\x00K\x01h\x00s.", "nested"),
        "ten thousand levels": (b"\x80\x02" + b"]" * 10_000 + b"a" * 9_999 + b".", "nested"),
        "a tuple of ten thousand levels as a key": (b"\x80\x02})" + b"\x85" * 10_000 + b"Ns.", "as key"),
        "two to the sixtieth": (b"\x80\x02]q\x00" + b"".join(b"](h%ch%ceq%c" % (i, i, i + 1) for i in range(25)) + b".", "repeated"),
        "a memo of gigabytes": (b"\x80\x02Nr\xff\xff\xff\x7f.", "remembers"),
        "a value never remembered": (b"\x80\x02h\x07.", "damaged"),
        "an empty stack": (b"\x80\x02a.", "damaged"),
        "a mark that is not there": (b"\x80\x02t.", "damaged"),
        "no end": (b"\x80\x02N", "damaged"),
        "an unknown instruction": (b"\x80\x02\xff.", "damaged"),
        "a text longer than the file": (b"\x80\x02X\xff\xff\xff\x7fa.", "damaged"),
        "half a surrogate pair": (b"\x80\x02X\x03\x00\x00\x00\xed\xa0\x80.", "damaged"),
        "a text of two million letters": (b"\x80\x02X" + struct.pack("<I", 2**21) + b"a" * 2**21 + b".", "characters"),
        "endless steps": (b"\x80\x02" + b"]" * 50_000 + b".", "steps"),
        "a key that stands twice": (b"\x80\x02}(K\x01NK\x01Nu.", "twice"),
    }.values(),
)  # fmt: skip
def test_a_program_that_torch_does_not_write_is_refused(path, program, reason, monkeypatch):
    monkeypatch.setattr(pickles, "MOST_STEPS", 40_000)
    assert reason in refusal(path, archive(program))


def rebuilt(*, kind="FloatStorage", key="0", count=4, offset=0, size="(K\x02K\x02t", stride="(K\x02K\x01t", hooks=""):
    """The pickle of one tensor, with any of its numbers wrong."""
    storage = f"(X\x07\0\0\0storagectorch\n{kind}\nX{chr(len(key))}\0\0\0{key}X\x03\0\0\0cpuK{chr(count)}tQ"
    hooks = hooks or "ccollections\nOrderedDict\n)R"
    arguments = f"({storage}K{chr(offset)}{size}{stride}\x89{hooks}t"
    return ("\x80\x02ctorch._utils\n_rebuild_tensor_v2\n" + arguments + "R.").encode("latin-1")


def test_the_tensor_pickled_by_hand_is_read(path):
    path.write_bytes(archive(rebuilt(), {"0": torch.arange(4.0).numpy().tobytes()}))
    assert pickles.look(path).shape == (2, 2)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kind": "ComplexFloatStorage"}, "would run code"),
        ({"key": "7"}, "as many bytes"),
        ({"count": 5}, "as many bytes"),
        ({"kind": "DoubleStorage"}, "as many bytes"),
        ({"offset": 1}, "room for 3"),
        ({"offset": 200}, "offset"),
        ({"size": "(K\x02K\x03t"}, "each number used once"),
        ({"size": "(K\x03K\x02t"}, "room for 4"),
        ({"stride": "(K\0K\0t"}, "each number used once"),
        ({"size": "(J\xff\xff\xff\x7fK\x02t", "stride": "(K\0K\x01t"}, "each number used once"),
        ({"stride": "(K\x02t"}, "a stride for each size"),
        ({"stride": "(J\xff\xff\xff\xffK\x01t"}, "strides"),
        ({"size": "(J\xff\xff\xff\xffK\x01t"}, "sizes that a file could hold"),
        ({"size": "(\x88\x88t"}, "sizes that a file could hold"),
        ({"hooks": "ccollections\nOrderedDict\n)RK\x01Ns"}, "hooks"),
        ({"hooks": "N"}, "hooks"),
    ],
)
def test_a_tensor_that_does_not_fit_its_storage_is_refused(path, change, reason):
    storage = torch.arange(4.0).numpy().tobytes()
    assert reason in refusal(path, archive(rebuilt(**change), {"0": storage}))


def test_a_tensor_of_a_thousand_million_copies_of_one_number_is_refused(path):
    assert "each number used once" in refusal(path, saved(torch.zeros(1).expand(10**9)))


def test_a_compressed_bomb_is_refused(path):
    bomb = archive(b"\x80\x02" + b"N0" * 10_000_000 + b"N.", compression=zipfile.ZIP_DEFLATED)
    assert len(bomb) < 100_000
    assert "compressed" in refusal(path, bomb)


def test_entries_that_overlap_or_exceed_the_file_are_refused(path):
    good = bytearray(saved({"w": torch.ones(1000)}))
    place = good.rindex(b"PK\1\2", 0, good.rindex(b"/data/0"))
    for at in (20, 24):
        good[place + at : place + at + 4] = struct.pack("<I", 2**31)
    assert "in a file of" in refusal(path, bytes(good))


def test_duplicate_and_unknown_entries_are_refused(path):
    def two(first, second):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as target:
            target.writestr(first, b"\x80\x02N.")
            target.writestr(second, b"\x80\x02N.")
        return file.getvalue()

    assert "twice" in refusal(path, two("model/data.pkl", "other/data.pkl"))
    for name in ("model/../../x", "/etc/passwd", "model/code/x.py", "model/constants.pkl", "model/data/x", "data.pkl"):
        assert "not torch's" in refusal(path, two("model/data.pkl", name))


def test_what_follows_the_table_of_contents_is_refused(path):
    good = saved({"w": torch.ones(2)})
    assert "does not end it" in refusal(path, good + b"\0" * 30)
    assert "does not end it" in refusal(path, good[:-2] + b"\x05\0hello")


def test_legacy_files_are_refused_with_advice(path):
    file = io.BytesIO()
    torch.save({"w": torch.ones(2)}, file, _use_new_zipfile_serialization=False)
    assert "save it again with a current torch" in refusal(path, file.getvalue())


def test_other_byte_orders_are_refused(path):
    data = saved({"w": torch.ones(2)})
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            new.writestr(name, b"big" if name.endswith("byteorder") else old.read(name))
    assert "little-endian" in refusal(path, file.getvalue())


def test_a_flipped_bit_in_a_tensor_is_found_before_torch_sees_it(path):
    data = bytearray(saved(OrderedDict(weight=torch.ones(100))))
    data[data.index(struct.pack("<2f", 1, 1)) + 41] ^= 4
    path.write_bytes(data)
    assert pickles.look(path)["weight"].shape == (100,)
    with pytest.raises(ModelFileError, match="checksum"):
        pickles.read(path)


def test_looking_imports_no_tensor_library(path):
    torch.save({"w": torch.ones(2)}, path)
    code = "import sys, pathlib; from headwater.files import pickles; pickles.look(pathlib.Path(sys.argv[1])); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 0


def test_an_error_names_the_file_and_says_what_to_do(path):
    message = refusal(path, b"nonsense")
    assert re.fullmatch(r"model\.pt: no zip file\na torch file .*; save it again .*", message)
