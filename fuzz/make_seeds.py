"""The seeds that are made rather than found: valid samples and attacks by hand. Run again after a format grows."""

import io
import json
import pickle
import struct
import tempfile
import zipfile
from pathlib import Path

import gguf
import numpy
import torch

from headwater import Model
from headwater.atlas.manifest import FORMAT
from headwater.model.config import Attention, ModelConfig
from headwater.model.presets import NAMED
from headwater.model.weights import Weights
from headwater.settings import to_plain
from headwater.text.corpus import build_corpus
from headwater.text.sources import Files
from headwater.text.tokenizer import byte_tokenizer
from headwater.train.recipe import read_recipe, recipe_names, write_recipe
from targets import LLAMA, TARGETS

HERE = Path(__file__).parent / "seeds"


def header(entries: dict, size: int) -> bytes:
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + bytes(size)


def safetensors() -> dict[str, bytes]:
    entry = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    good = header({"a": entry, "__metadata__": {"format": "pt"}}, 16)
    return {
        "good": good,
        "short": good[:-3],
        "giant-header": struct.pack("<Q", 2**62) + b"{}",
        "giant-shape": header({"a": entry | {"shape": [2**40, 2**40]}}, 16),
        "overlap": header({"a": entry, "b": entry}, 16),
        "double": struct.pack("<Q", 22) + b'{"a": null, "a": null}',
        "nan": struct.pack("<Q", 10) + b'{"a": NaN}',
        "deep": struct.pack("<Q", 2005) + b'{"a":' + b"[" * 1000 + b"]" * 1000,
    }


def config() -> dict[str, bytes]:
    native = {"format": "headwater-model/1", "model": to_plain(NAMED["original"])}
    lens = {"n_layers": 1, "d_model": 4, "n_ctx": 4, "d_head": 2, "n_heads": 2, "d_vocab": 3, "act_fn": "relu", "d_mlp": 8}
    gpt2 = {"architectures": ["GPT2LMHeadModel"], "n_embd": 4, "n_head": 2, "n_layer": 1, "n_positions": 4, "vocab_size": 3}
    neox = {
        "architectures": ["GPTNeoXForCausalLM"],
        "hidden_size": 4,
        "num_attention_heads": 2,
        "num_hidden_layers": 1,
        "rotary_pct": 0.5,
    }
    scaled = LLAMA | {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}}
    qwen2 = LLAMA | {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "use_sliding_window": False}
    plain = {"native": native, "lens": lens, "gpt2": gpt2, "neox": neox, "llama": LLAMA, "scaled": scaled, "qwen2": qwen2}
    attacks = {"zero-heads": LLAMA | {"num_attention_heads": 0}, "code": LLAMA | {"auto_map": {"AutoModel": "evil--x"}}}
    return {name: json.dumps(value).encode() for name, value in (plain | attacks).items()} | {
        "nan": b'{"model_type": "llama", "rms_norm_eps": NaN}',
        "endless-number": b'{"model_type": "llama", "vocab_size": ' + b"9" * 5000 + b"}",
        "surrogate": b'{"model_type": "\\ud800"}',
    }


def index() -> dict[str, bytes]:
    maps = {
        "good": {"model.norm.weight": "a.safetensors"},
        "path": {"model.norm.weight": "../../etc/passwd"},
        "absent": {"model.norm.weight": "b.safetensors"},
        "itself": {"model.norm.weight": "model.safetensors.index.json"},
        "number": {"model.norm.weight": 3},
    }
    return {name: json.dumps({"metadata": {}, "weight_map": value}).encode() for name, value in maps.items()}


def tokenizer() -> dict[str, bytes]:
    good = json.loads(byte_tokenizer().to_json())
    bpe = {"type": "BPE", "vocab": {"<s>": 0, "a": 1, "b": 2, "ab": 3}, "merges": [["a", "b"]], "unk_token": "<s>"}
    flags = dict.fromkeys(["single_word", "lstrip", "rstrip", "normalized"], False)
    added = [{"id": 0, "content": "<s>", "special": True, **flags}]
    small = {"version": "1.0", "model": bpe, "added_tokens": added}
    template = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    specials = {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}
    process = {"type": "TemplateProcessing", "single": template, "pair": template, "special_tokens": specials}
    fallback = {
        "type": "Sequence",
        "decoders": [{"type": "ByteFallback"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}],
    }
    parts = {
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
    }
    plain = {
        "bytes": good,
        "small": small,
        "parts": small | parts | {"post_processor": process, "decoder": fallback},
        "words": {
            "model": {"type": "WordLevel", "vocab": {"a": 0, "?": 1}, "unk_token": "?"},
            "pre_tokenizer": {"type": "Whitespace"},
        },
        "template-without-token": small | {"post_processor": process | {"special_tokens": {}}},
        "long-merge": small | {"model": bpe | {"merges": [["ab", "ab"]]}},
        "padding": small | {"padding": {"strategy": {"Fixed": 10**12}, "direction": "Left"}},
        "truncation": small | {"truncation": {"max_length": 2, "stride": 9, "strategy": "LongestFirst", "direction": "Left"}},
        "regex": small | {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated"}},
        "growing": small | {"normalizer": {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}},
        "charsmap": small | {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
        "giant-id": small | {"added_tokens": [added[0] | {"id": 2**31}]},
        "gap": small | {"model": bpe | {"vocab": {"<s>": 0, "b": 7}, "merges": []}},
    }
    return {name: json.dumps(value, ensure_ascii=False).encode() for name, value in plain.items()}


def words() -> dict[str, bytes]:
    pieces = ["<unk>", "\n<s>\n", "\n</s>\n", *(f"<0x{byte:02X}>" for byte in range(256)), " ", "a", "b", " a", "ab", " ab"]
    scores = [0.0] * 259 + [-1e9, -4.0, -5.0, -1.0, -2.0, -3.0]
    tokens = [struct.pack("<fI", score, len(text)) + text for score, text in zip(scores, map(str.encode, pieces), strict=True)]
    good = struct.pack("<I", 6) + b"".join(tokens)
    return {
        "good": good,
        "short": good[:-2],
        "endless": good[:-6] + struct.pack("<I", 2**31) + b"ab",
        "double": good + tokens[-1],
    }


def saved(value: object) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def pickled(value: object) -> bytes:
    with zipfile.ZipFile(io.BytesIO(saved(value))) as file:
        return file.read(next(name for name in file.namelist() if name.endswith("data.pkl")))


class Attack:
    def __reduce__(self) -> tuple:
        return print, ("this must never be printed",)


def state() -> dict:
    layer = torch.nn.Linear(3, 4)
    return {"model": layer.state_dict(), "args": {"bias": True, "lr": 1e-3, "name": "x"}, "tied": layer.weight.detach().T}


def pickle_() -> dict[str, bytes]:
    nest = b"\x80\x02" + b"]" * 200 + b"a" * 199 + b"."
    return {
        "good": pickled(state()),
        "zero-stride": pickled(torch.zeros(12)[:1].expand(10**9)),
        "code": pickle.dumps({"x": Attack()}, protocol=2),
        "modern": pickle.dumps({"a": [1, 2]}, protocol=4),
        "itself": b"\x80\x02]q\x00h\x00a.",
        "deep": nest,
        "laughs": b"\x80\x02]q\x00" + b"".join(b"](h%ch%ceq%c" % (i, i, i + 1) for i in range(60)) + b".",
        "sparse-memo": b"\x80\x02]r\xff\xff\xff\x7f.",
        "build": b"\x80\x02}}b.",
        "extension": b"\x80\x02\x82\x01.",
        "person": b"\x80\x02P0\n.",
        "empty": b"",
    }


def archive() -> dict[str, bytes]:
    good = saved({"w": torch.ones(2, 2)})
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("model/data.pkl", b"\x80\x02" + b"N0" * 100_000 + b"N.")
    double = io.BytesIO()
    with zipfile.ZipFile(double, "w") as file:
        file.writestr("model/data.pkl", b"\x80\x02N.")
        file.writestr("other/data.pkl", b"\x80\x02N.")
    return {
        "good": good,
        "short": good[:-10],
        "bomb": bomb.getvalue(),
        "double": double.getvalue(),
        "legacy": pickle.dumps([1]),
    }


def gguf_() -> dict[str, bytes]:
    path = HERE / "made.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(4)
    writer.add_embedding_length(4)
    writer.add_block_count(1)
    writer.add_feed_forward_length(4)
    writer.add_head_count(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("llama")
    pieces = ["<unk>", "<s>", "</s>", "▁", "a", "▁a"]
    writer.add_token_list(pieces)
    writer.add_token_scores([0.0, 0.0, 0.0, -3.0, -2.0, -1.0])
    writer.add_token_types([2, 3, 3, 1, 1, 1])
    writer.add_bos_token_id(1)
    square = numpy.ones((4, 4), dtype=numpy.float32)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{name}.weight", square.astype(numpy.float16))
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        writer.add_tensor(f"{name}.weight", square[0])
    writer.add_tensor("token_embd.weight", numpy.ones((6, 4), dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    good = path.read_bytes()
    path.unlink()
    start = b"GGUF" + struct.pack("<I", 3)
    nested = struct.pack("<Q", 1) + b"k" + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 50
    return {
        "good": good,
        "short": good[:-9],
        "giant-counts": start + struct.pack("<QQ", 2**60, 2**60),
        "giant-text": start + struct.pack("<QQQ", 0, 1, 2**63) + bytes(64),
        "giant-array": start + struct.pack("<QQQ", 0, 1, 1) + b"k" + struct.pack("<IIQ", 9, 0, 2**62) + bytes(64),
        "nested": start + struct.pack("<QQ", 0, 1) + nested,
        "big-endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
        "other": good.replace(b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0gemma", 1),
    }


def llama2c() -> dict[str, bytes]:
    shape = (4, 4, 1, 2, 1, 3, 2)
    good = struct.pack("<7i", *shape) + bytes(4 * (12 + 4 + 16 + 8 + 8 + 16 + 4 + 48 + 4 + 2 + 2))
    head = struct.pack("<Ii7iB", 0x616B3432, 1, *shape, 1)
    return {
        "good": good,
        "version-1": head.ljust(256, b"\0") + bytes(4 * (4 + 4 + 4 + 12 + 16 + 8 + 8 + 16 + 48)),
        "version-2": head.replace(b"\x01\0\0\0", b"\x02\0\0\0", 1).ljust(256, b"\0"),
        "short": good[:-4],
        "giant": struct.pack("<7i", *[2**31 - 1] * 7),
        "zero": bytes(28),
        "negative": struct.pack("<7i", *[-1] * 7),
    }


def manifest() -> dict[str, bytes]:
    hashed = {"bytes": 10, "sha256": "0" * 64}
    files = [{"path": "says/L0H0/000.parquet", "rows": 3, **hashed}, {"path": "tokenizer.json", **hashed}]
    good = {
        "format": FORMAT, "model": {"sha256": "0" * 64}, "settings": {"k": 4}, "plan": {}, "heads": ["L0H0"],
        "vocab": 3, "libraries": {"duckdb": "1"}, "files": files,
    }  # fmt: skip
    attacks = {
        "outside": good | {"files": [{"path": "../../x", **hashed}]},
        "twice": good | {"files": files[1:] * 2},
        "giant": good | {"vocab": 10**30},
        "list": good | {"heads": {"a": 1}},
    }
    return {name: json.dumps(value).encode() for name, value in ({"good": good} | attacks).items()}


def corpus() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as place:
        text, folder = Path(place) / "text.txt", Path(place) / "corpus"
        text.write_text("a small text, and a small one more\n" * 50)
        build_corpus(Files(paths=(str(text),)), byte_tokenizer(), folder, held_out=0.0)
        good = json.loads((folder / "manifest.json").read_text().replace(place, "."))
    return {"whole": json.dumps(good).encode(), "other": json.dumps(good | {"format": "x"}).encode(), "empty": b"{}"}


def recipe() -> dict[str, bytes]:
    good = {name: write_recipe(read_recipe(name)) for name in recipe_names()}
    return good | {
        "deep": b"a = " + b"[" * 2000 + b"]" * 2000,
        "endless": b"[training]\nsteps = " + b"9" * 5000,
        "not-text": b"\xff\xfe",
        "other": good["one-layer"].replace(b"[model]", b"[models]"),
    }


def run() -> dict[str, bytes]:
    config = ModelConfig(vocab=5, context=4, d_model=4, layers=1, attention=Attention(heads=2, d_head=2))
    with tempfile.TemporaryDirectory() as place:
        Model(Weights.draw(config, seed=0)).record([1, 2, 3]).save(Path(place) / "run")
        good = (Path(place) / "run").read_bytes()
    return {"good": good, "short": good[:-5], "other": good.replace(b"d_model", b"d_modem", 1), "nothing": header({}, 0)}


MAKERS = {
    "safetensors": safetensors, "config": config, "index": index, "tokenizer": tokenizer, "words": words,
    "pickle": pickle_, "archive": archive, "gguf": gguf_, "llama2c": llama2c,
    "manifest": manifest, "corpus": corpus, "recipe": recipe, "run": run,
}  # fmt: skip


def main() -> None:
    assert MAKERS.keys() == TARGETS.keys(), "every target has seeds"
    for target, maker in MAKERS.items():
        folder = HERE / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in maker().items():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
