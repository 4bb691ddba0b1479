"""One function for each parser that meets untrusted bytes: it returns, or raises a ``ModelFileError``."""

import atexit
import contextlib
import io
import json
import shutil
import tempfile
import zipfile
from pathlib import Path

from headwater.atlas.manifest import read_manifest, written
from headwater.errors import HeadwaterError, InputError, ModelFileError
from headwater.files import pickles
from headwater.files.safetensors import read_header
from headwater.model import sources
from headwater.text.corpus import open_corpus
from headwater.text.tokenizer import Tokenizer, read_tokenizer
from headwater.trace.run import load_run
from headwater.train.recipe import read_recipe, write_recipe

TEXT = "Hello  wörld, 12345\n ☃ <s> {}"
LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4, "num_attention_heads": 2,
    "num_hidden_layers": 1, "intermediate_size": 4, "vocab_size": 3, "max_position_embeddings": 4, "tie_word_embeddings": True,
}  # fmt: skip
FOLDER = Path(tempfile.mkdtemp(prefix="headwater-fuzz-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


def _write(name: str, data: bytes) -> Path:
    path = FOLDER / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def safetensors(data: bytes) -> None:
    read_header(_write("model.safetensors", data))


def config(data: bytes) -> None:
    """``config.json`` of a native, Hugging Face or TransformerLens folder, whichever it says it is."""
    header = b'{"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}'
    _write("config/model.safetensors", len(header).to_bytes(8, "little") + header + bytes(4))
    sources.look(_write("config/config.json", data).parent)


def index(data: bytes) -> None:
    """The list of shards in a Hugging Face folder."""
    _write("index/config.json", json.dumps(LLAMA).encode())
    header = b'{"model.norm.weight": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}'
    _write("index/a.safetensors", len(header).to_bytes(8, "little") + header + bytes(16))
    sources.look(_write("index/model.safetensors.index.json", data).parent)


def tokenizer(data: bytes) -> None:
    """``tokenizer.json``, and the use of what it describes."""
    _use(Tokenizer.parse(data))


def words(data: bytes) -> None:
    """llama2.c's ``tokenizer.bin``."""
    _use(read_tokenizer(_write("tokenizer.bin", data)))


def _use(tokenizer: Tokenizer) -> None:
    ids = [token for token in tokenizer.encode(TEXT) if token < tokenizer.size]
    tokenizer.decode(ids)
    for token in range(min(tokenizer.size, 300)):
        tokenizer.display(token)
    tokenizer.decode(range(min(tokenizer.size, 300)))
    with contextlib.suppress(InputError):
        tokenizer.encode_bytes(b"\xff" + TEXT.encode())


def pickle(data: bytes) -> None:
    """A pickle in an honest archive, since a changed one would already fail its checksum."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("model/data.pkl", data)
        file.writestr("model/byteorder", "little")
        for name, size in {"0": 48, "1": 16, "2": 4}.items():
            file.writestr(f"model/data/{name}", bytes(size))
    pickles.look(_write("model.pt", archive.getvalue()))


def archive(data: bytes) -> None:
    """A torch file as it is."""
    pickles.look(_write("model.pt", data))


def gguf(data: bytes) -> None:
    """A GGUF model, and the vocabulary inside it."""
    path = _write("model.gguf", data)
    for reader in (sources.look, lambda path: _use(read_tokenizer(path))):
        with contextlib.suppress(ModelFileError):
            reader(path)


def llama2c(data: bytes) -> None:
    sources.look(_write("stories.bin", data))


def manifest(data: bytes) -> None:
    """Of an atlas, with an honest hash, since a changed one would already fail by it."""
    with contextlib.suppress(ValueError, RecursionError):
        plain = json.loads(data)
        data = written(plain) if isinstance(plain, dict) else data
    read_manifest(_write("atlas/manifest.json", data).parent)


def corpus(data: bytes) -> None:
    """The manifest of a corpus."""
    open_corpus(_write("corpus/manifest.json", data).parent)


def recipe(data: bytes) -> None:
    """A training's settings; what is read can be written."""
    write_recipe(read_recipe(_write("recipe.toml", data)))


def run(data: bytes) -> None:
    """What a run was saved as."""
    load_run(_write("run.safetensors", data))


FILES = (safetensors, config, index, tokenizer, words, pickle, archive, gguf, llama2c, manifest, corpus, recipe, run)
TARGETS = {each.__name__: each for each in FILES}
WRITTEN_BY_HAND = ("recipe", "corpus")
"""What is wrong with these is told as with other settings."""


def survives(target: str, data: bytes) -> bool:
    """Feed one input to a parser: whether it was accepted. Anything but a ``ModelFileError`` escapes."""
    try:
        TARGETS[target](data)
    except HeadwaterError as error:
        if not (isinstance(error, ModelFileError) or target in WRITTEN_BY_HAND):
            raise
        str(error).encode()
        return False
    return True
