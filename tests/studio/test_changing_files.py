"""Files that change while they are served: an error, or the right numbers, and never a mixture."""

import json
import os
import shutil
import threading
from pathlib import Path

import pytest

import foreign_models
import headwater
from headwater.studio import shelf as shelves
from headwater.studio.errors import Refused
from headwater.studio.work import Stop
from hostile_values import places_told
from studio_app import Studio, filled
from studio_fuzz import check
from tiny_atlas import save_model

ASKED = "/api/tokens?model=first&text=line+7&count=3"


@pytest.fixture
def folder(tmp_path):
    save_model(tmp_path / "first")
    save_model(tmp_path / "other", seed=1)
    return tmp_path


@pytest.fixture
def studio(folder):
    there = Studio(filled(folder, "first", "other"))
    yield there
    there.close()


def numbers(folder):
    """What the library says of the model that lies there now."""
    run = headwater.load(folder / "first").record("line 7")
    return [run.top(position, 3) for position in range(run.tokens.shape[1])]


def told(answer):
    return [[(each["token"]["id"], each["probability"]) for each in token["next"]] for token in answer.json()["tokens"]]


def weights(folder):
    return next((folder / "first").glob("*.safetensors"))


def touch(folder):
    os.utime(weights(folder), ns=(1, 1))


def truncate(folder):
    os.truncate(weights(folder), weights(folder).stat().st_size // 2)


def empty(folder):
    os.truncate(weights(folder), 0)


def delete(folder):
    weights(folder).unlink()


def delete_all(folder):
    shutil.rmtree(folder / "first")


def overwrite_in_place(folder):
    """Other numbers of the same size, and the time of the last change put back: as ``rsync --inplace --times`` may."""
    path, state = weights(folder), weights(folder).stat()
    data = bytearray(path.read_bytes())
    data[-40:] = bytes(40)
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def replace_by_another(folder):
    shutil.rmtree(folder / "first", ignore_errors=True)
    shutil.copytree(folder / "other", folder / "first")


def replace_by_a_link(folder):
    shutil.rmtree(folder / "first")
    (folder / "first").symlink_to(folder / "other")


def make_unreadable(folder):
    weights(folder).chmod(0)


def make_a_folder_of_it(folder):
    weights(folder).unlink()
    weights_path = folder / "first" / "model.safetensors"
    weights_path.mkdir(exist_ok=True)


def make_a_pipe_of_it(folder):
    path = weights(folder)
    path.unlink()
    os.mkfifo(path)


def break_the_words(folder):
    (folder / "first" / "tokenizer.json").write_text("{")


def break_the_configuration(folder):
    (folder / "first" / "config.json").write_text("{")


DAMAGES = [
    *(touch, truncate, empty, delete, delete_all, overwrite_in_place, replace_by_another, replace_by_a_link, make_unreadable),
    *(make_a_folder_of_it, make_a_pipe_of_it, break_the_words, break_the_configuration),
]
RECOVER = {touch, replace_by_another, replace_by_a_link, *([make_unreadable] if os.geteuid() == 0 else [])}
"""After which the files are a model again, or still."""


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_model_whose_files_change_is_refused_until_it_is_opened_again(studio, folder, damage):
    first = studio.ask(ASKED)
    assert told(first) == numbers(folder)
    damage(folder)
    for _ in range(2):
        answer = studio.ask(ASKED)
        assert answer.status in (409, 503)
        assert set(answer.json()) == {"given", "needed", "do"}
        assert places_told(answer.body) == []
        assert "probability" not in answer.body.decode()
    shelf = studio.ask("/api/shelf").json()
    assert [model["d_model"] for model in shelf["models"]] == [8, 8], "one that is gone takes no other with it"
    assert studio.ask(ASKED.replace("model=first", "model=other")).status == 200
    assert studio.ask("/api/model/first/reopen", "POST").status == 200
    answer = studio.ask(ASKED)
    if damage in RECOVER:
        assert told(answer) == numbers(folder)
    else:
        check(answer, damage.__name__)
        assert answer.status == 409
    if not (folder / "first").is_symlink():
        replace_by_another(folder)
    studio.ask("/api/model/first/reopen", "POST")
    assert told(studio.ask(ASKED)) == numbers(folder)


def test_a_model_that_changes_before_anybody_asked_is_the_one_that_is_told_of(studio, folder):
    replace_by_another(folder)
    assert told(studio.ask(ASKED)) == numbers(folder)


@pytest.mark.parametrize("damage", [overwrite_in_place, replace_by_another, truncate, delete])
def test_files_that_change_while_an_answer_is_made_spoil_it(studio, folder, damage, monkeypatch):
    from headwater.studio import opened

    before, real = numbers(folder), opened.record_until

    def meanwhile(*asked):
        run = real(*asked)
        damage(folder)
        return run

    monkeypatch.setattr(opened, "record_until", meanwhile)
    answer = studio.ask(ASKED)
    assert answer.status == 409 or told(answer) == before
    assert studio.ask(ASKED).status == 409


def test_files_that_change_while_they_are_read_are_not_taken(studio, folder, monkeypatch):
    import headwater.api

    real = headwater.api.load

    def meanwhile(path):
        model = real(path)
        overwrite_in_place(folder)
        return model

    monkeypatch.setattr(headwater.api, "load", meanwhile)
    assert studio.ask(ASKED).status == 503
    monkeypatch.setattr(headwater.api, "load", lambda path: 1 / 0)
    assert studio.ask(ASKED).status == 500
    monkeypatch.setattr(headwater.api, "load", real)
    shutil.rmtree(folder / "first")
    shutil.copytree(folder / "other", folder / "first")
    assert told(studio.ask(ASKED)) == numbers(folder), "an error stays with whom it was told"


def test_a_run_of_the_model_before_is_not_kept_for_the_model_after(studio, folder, monkeypatch):
    from headwater.studio import opened

    real, has_begun, may_end = opened.record_until, threading.Event(), threading.Event()

    def slowly(*asked):
        run = real(*asked)
        has_begun.set()
        assert may_end.wait(20)
        return run

    monkeypatch.setattr(opened, "record_until", slowly)
    answer = studio.begin(ASKED)
    assert has_begun.wait(20)
    monkeypatch.setattr(opened, "record_until", real)
    replace_by_another(folder)
    assert studio.ask("/api/model/first/reopen", "POST").status == 200
    may_end.set()
    assert answer.result(20).status == 409
    assert told(studio.ask(ASKED)) == numbers(folder)


def test_a_model_that_made_room_is_still_the_one_that_was_opened(studio, folder, monkeypatch):
    monkeypatch.setattr(shelves, "MODELS_BYTES", 1)
    other = ASKED.replace("model=first", "model=other")
    before = told(studio.ask(ASKED))
    assert studio.ask(other).status == 200
    assert len(studio.shelf._open) == 1
    assert not any(key[0] == "first" for key in studio.shelf._runs), "its runs hold its weights"
    assert told(studio.ask(ASKED)) == before
    assert studio.ask(other).status == 200
    replace_by_another(folder)
    assert studio.ask(ASKED).status == 409
    studio.ask("/api/model/first/reopen", "POST")
    assert told(studio.ask(ASKED)) == numbers(folder)


def test_runs_are_counted_with_all_that_they_hold(studio, monkeypatch):
    run = studio.shelf.run("first", "line 7", Stop())
    before = shelves._run_size(run)
    made, logits = run["L0.pattern"], run.logits
    assert shelves._run_size(run) == before + made.nbytes + logits.nbytes
    monkeypatch.setattr(shelves, "RUNS_BYTES", 2 * before)
    for number in range(10):
        studio.shelf.run("first", f"line {number}", Stop())
    assert len(studio.shelf._runs) <= 2


def gpt2_words(folder):
    """With a vocabulary as GPT-2's own folder has it."""
    foreign_models.hugging_face(folder, "gpt2")
    (folder / "vocab.json").write_text(json.dumps({letter: number for number, letter in enumerate("abcdefghijk")}))
    (folder / "merges.txt").write_text("#version: 0.2\n")


FORMATS = {
    "Headwater": save_model,
    "Hugging Face": lambda folder: foreign_models.hugging_face(folder, "llama"),
    "Hugging Face, words in two files": gpt2_words,
    "Hugging Face, pickled": foreign_models.with_pickles,
    "Hugging Face, pickled in shards": lambda folder: foreign_models.with_pickles(folder, 2),
    "TransformerLens": foreign_models.transformer_lens,
    "nanoGPT": foreign_models.nanogpt,
}


@pytest.mark.parametrize("form", FORMATS)
def test_every_file_of_every_format_is_looked_at(tmp_path, form):
    FORMATS[form](tmp_path / "first")
    shelf = filled(tmp_path, "first")
    files = sorted((tmp_path / "first").iterdir())
    assert files
    for file in files:
        shelf.model("first")
        os.utime(file, ns=(1, 1))
        with pytest.raises(Refused) as refused:
            shelf.model("first")
        assert refused.value.status == 409
        shelf.reopen("model", "first")


def test_files_beside_a_model_in_one_file_are_looked_at(tmp_path):
    foreign_models.llama2c(tmp_path / "first.bin")
    shelf = filled(tmp_path, "first.bin")
    shelf.model("first-bin")
    (tmp_path / "unrelated.bin").write_text("")
    shelf.model("first-bin")
    os.utime(tmp_path / "first.bin", ns=(1, 1))
    with pytest.raises(Refused):
        shelf.model("first-bin")


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "recipe.toml"])
def test_a_file_that_would_be_read_instead_is_looked_for(tmp_path, name):
    foreign_models.with_pickles(tmp_path / "first")
    shelf = filled(tmp_path, "first")
    shelf.model("first")
    (tmp_path / "first" / name).write_text("")
    with pytest.raises(Refused):
        shelf.model("first")


def test_a_name_of_ours_means_the_model_that_it_meant_when_the_studio_was_started(tmp_path, monkeypatch):
    shelf = filled(tmp_path, "one-layer")
    config = shelf.model("one-layer").config
    save_model(tmp_path / "one-layer")
    monkeypatch.chdir(tmp_path)
    studio = Studio(shelf)
    try:
        told = studio.ask("/api/shelf").json()["models"][0]
        assert (told["name"], told["d_model"]) == ("one-layer", config.d_model)
        shelf.reopen("model", "one-layer")
        assert shelf.model("one-layer").config == config
        measured = studio.ask("/api/documents/claim?id=000-T1&model=one-layer")
        assert measured.status == 200, measured.body
        given = studio.app.app.state.memory.givens
        assert [each.model("one-layer").config.d_model for each in given.values()] == [config.d_model]
        assert "--model one-layer " in measured.json()["lines"]["shell"]
    finally:
        studio.close()


def test_one_that_is_read_slowly_keeps_nobody_from_another(studio, monkeypatch):
    import headwater.api

    real, has_begun, may_end = headwater.api.load, threading.Event(), threading.Event()

    def slowly(path):
        if Path(path).name == "first":
            has_begun.set()
            assert may_end.wait(20)
        return real(path)

    monkeypatch.setattr(headwater.api, "load", slowly)
    reading = threading.Thread(target=studio.shelf.model, args=("first",))
    reading.start()
    assert has_begun.wait(20)
    assert studio.shelf.model("other").config.d_model == 8
    assert studio.ask("/api/shelf").status == 200
    assert studio.ask("/api/model/other/reopen", "POST").status == 200
    may_end.set()
    reading.join()


def test_runs_are_for_one_thread(studio):
    refused = []

    def elsewhere():
        try:
            studio.shelf.run("first", "line 7", Stop())
        except AssertionError as error:
            refused.append(error)

    for name in ("search-0", "files-1"):
        thread = threading.Thread(target=elsewhere, name=name)
        thread.start()
        thread.join()
    assert len(refused) == 2


@pytest.fixture(scope="module")
def atlas_folder(tmp_path_factory):
    from tiny_atlas import build_here

    folder = tmp_path_factory.mktemp("atlas")
    save_model(folder / "model")
    build_here(folder, folder / "atlas", with_text=False)
    return folder


@pytest.mark.parametrize("what", ["touched", "cut", "deleted", "in place", "replaced", "damaged"])
def test_an_atlas_whose_files_change_is_refused_also_while_it_is_searched(atlas_folder, tmp_path, what):
    shutil.copytree(atlas_folder, tmp_path / "tiny")
    shelf = filled(tmp_path, "tiny/model")
    table = next((tmp_path / "tiny" / "atlas" / "trigrams").rglob("*.parquet"))

    def change():
        data = table.read_bytes()
        if what == "touched":
            os.utime(table, ns=(1, 1))
        elif what == "cut":
            os.truncate(table, len(data) // 2)
        elif what == "deleted":
            table.unlink()
        elif what == "replaced":
            table.unlink()
            table.write_bytes(data)
        else:
            state = table.stat()
            with table.open("r+b") as file:
                file.write(data[::-1] if what == "damaged" else data)
            os.utime(table, ns=(state.st_atime_ns, state.st_mtime_ns))

    atlas = shelf.atlas("tiny")
    whole = atlas.search(limit=20).columns["lift"].tolist()
    assert len(whole) == 20

    def search():
        with shelf.unchanged():
            shelf.atlas("tiny")
            change()

    with pytest.raises(Refused) as refused:
        search()
    assert refused.value.status == 409
    with pytest.raises(Refused):
        shelf.atlas("tiny")
    shelf.reopen("atlas", "tiny")
    if what in ("touched", "replaced", "in place"):
        assert shelf.atlas("tiny").search(limit=20).columns["lift"].tolist() == whole
    else:
        with pytest.raises(headwater.errors.ModelFileError) as damaged:
            shelf.atlas("tiny")
        from headwater.studio.errors import nowhere

        assert str(tmp_path) not in nowhere(damaged.value.given, shelf.places)


@pytest.mark.parametrize("target", ["/api/atlas/heads?atlas=tiny", "/api/atlas/compare?atlas=tiny&other=other"])
def test_no_route_answers_from_an_atlas_that_changed_meanwhile(atlas_folder, tmp_path, monkeypatch, target):
    from headwater.studio import atlas_compare, atlas_heads

    for name in ("tiny", "other"):
        shutil.copytree(atlas_folder, tmp_path / name)
    table = next((tmp_path / "tiny" / "atlas").rglob("*.parquet"))
    studio = Studio(filled(tmp_path, "tiny/model", "other/model"))
    assert studio.ask(target).status == 200

    def meanwhile(real):
        def changed(*asked, **more):
            found = real(*asked, **more)
            os.utime(table, ns=(1, 1))
            return found

        return changed

    monkeypatch.setattr(atlas_heads, "agreements", meanwhile(atlas_heads.agreements))
    monkeypatch.setattr(atlas_compare, "diff", meanwhile(atlas_compare.diff))
    try:
        assert studio.ask(target).status == 409
    finally:
        studio.close()
