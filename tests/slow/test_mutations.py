"""The checks of claims can fail: a sign, a transposed matrix or a dropped term in a scratch copy of the library turns the concerned claims."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import headwater
from mutations import MUTATIONS, Mutation

SOURCE = Path(headwater.__file__).parent
ASK = """
import json, os, sys, traceback
from pathlib import Path
import einops, jaxtyping, matplotlib.figure, numpy, tokenizers, torch
torch.set_num_threads(1)

def answers(package, corpora, ids):
    sys.path.insert(0, package)
    from headwater.claims import given as things
    from headwater.claims.registry import chosen
    from headwater.claims.verdicts import ask
    from headwater.text.corpus import open_corpus
    build, told = things.build_corpus, {}

    def corpus(source, words, folder, **more):
        place = Path(corpora) / words.sha256
        return open_corpus(place) if place.exists() else build(source, words, place, **more)

    things.build_corpus = corpus
    with things.Given() as given:
        for claim in chosen(ids):
            try:
                told[claim.id] = next(ask([claim], given)).ok
            except Exception as error:  # what breaks a check does not pass it
                told[claim.id] = type(error).__name__
    return told

for line in sys.stdin:
    if not os.fork():
        try:
            print(json.dumps(answers(*json.loads(line))), flush=True)
        except BaseException:
            print(json.dumps(traceback.format_exc()), flush=True)
        os._exit(0)
    os.wait()
"""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def process():
    """One that has imported what never changes, and forks for each copy of the library."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", ASK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as asked:
        yield asked
        asked.stdin.close()


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """A folder for corpora, which are built once: they are the same whatever is changed in the library, but for its texts."""
    return tmp_path_factory.mktemp("corpora")


def ask(process, package, corpora, ids):
    """What becomes of some claims when the library lies in a folder."""
    process.stdin.write(json.dumps([str(package.parent), str(corpora), ids]) + "\n")
    process.stdin.flush()
    told = json.loads(process.stdout.readline())
    assert isinstance(told, dict), told
    return told


def copy(folder):
    """The library without its models, which are linked: they are large, and nothing writes to them."""
    package = folder / "headwater"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("reference"))
    (package / "reference").symlink_to(SOURCE / "reference")
    return package


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_turns_the_claims_that_it_concerns(mutation: Mutation, process, corpora, tmp_path):
    package = copy(tmp_path)
    file = package / mutation.file
    text = file.read_text()
    assert text.count(mutation.old) == 1, "the text to change stands there once"
    file.write_text(text.replace(mutation.old, mutation.new))
    told = ask(process, package, tmp_path / "corpora" if mutation.file.startswith("text/") else corpora, mutation.ids)
    assert set(told) == set(mutation.ids)
    assert all(answer is not True for answer in told.values()), told


def test_without_a_mutation_all_of_them_pass(process, corpora, tmp_path):
    ids = sorted({id_ for mutation in MUTATIONS for id_ in mutation.ids})
    told = ask(process, copy(tmp_path), corpora, ids)
    assert [id_ for id_, answer in told.items() if answer is not True] == []
