import gzip
import io
import os
import sys

import pytest

from headwater.errors import ConfigError, HeadwaterError, InputError, ModelFileError
from headwater.settings import from_plain, setting, to_plain
from headwater.text.planted import PlantedLanguage
from headwater.text.sources import (
    Built,
    Document,
    Files,
    Planted,
    StandardInput,
    StandardLibrary,
    documents,
)


def read(source):
    return {document.name: b"".join(document.chunks()) for document in documents(source)}


@pytest.fixture
def folder(tmp_path):
    for name in ("b.txt", "a/d.txt", "a/c.md", "a/.hidden/e.txt", ".secret"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        (["."], ["a/c.md", "a/d.txt", "b.txt"]),
        (["b.txt"], ["b.txt"]),
        (["b.txt", "a", "*.txt", "./b.txt"], ["a/c.md", "a/d.txt", "b.txt"]),
        (["**/*.txt"], ["a/d.txt", "b.txt"]),
        (["a/?.md"], ["a/c.md"]),
        ([".secret"], [".secret"]),
    ],
)
def test_files_folders_and_patterns_give_each_file_once_and_sorted(folder, monkeypatch, paths, found):
    monkeypatch.chdir(folder)
    names = [document.name for document in documents(Files(paths=tuple(paths)))]
    assert names == found
    assert read(Files(paths=tuple(paths))) == {name: name.encode() for name in found}
    absolute = [document.name for document in documents(Files(paths=tuple(str(folder / path) for path in paths)))]
    assert absolute == [str(folder / name) for name in found]


def test_a_link_to_a_file_that_is_there_already_adds_nothing(folder):
    (folder / "a" / "link.txt").symlink_to(folder / "b.txt")
    (folder / "a" / "loop").symlink_to(folder)
    (folder / "a" / "broken").symlink_to(folder / "nowhere")
    names = [document.name for document in documents(Files(paths=(str(folder / "b.txt"), str(folder))))]
    assert len(names) == 3


@pytest.mark.parametrize("paths", [[], ["nothing.txt"], ["*.nothing"], ["empty"], ["pipe"]])
def test_a_path_that_leads_to_no_text_is_refused(tmp_path, monkeypatch, paths):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(HeadwaterError):
        list(documents(Files(paths=tuple(paths))))


def test_a_name_with_the_signs_of_a_pattern_is_a_name_first(tmp_path):
    (tmp_path / "a[1].txt").write_text("here")
    assert list(read(Files(paths=(str(tmp_path / "a[1].txt"),))).values()) == [b"here"]


def test_a_packed_file_is_read_unpacked(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"one ") + gzip.compress(b"two"))
    (document,) = documents(Files(paths=(str(path),)))
    assert b"".join(document.chunks()) == b"one two"
    assert document.size is None


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: b"no gzip", lambda data: data[:20] + b"x" + data[21:]])
def test_a_damaged_packed_file_is_refused_by_name(tmp_path, damage):
    path = tmp_path / "a.gz"
    path.write_bytes(damage(gzip.compress(bytes(range(256)) * 9)))
    with pytest.raises(ModelFileError, match=r"a\.gz is damaged"):
        read(Files(paths=(str(path),)))


def test_a_document_knows_its_size_and_can_be_read_again(tmp_path):
    (tmp_path / "a").write_bytes(b"\r\n\0\xff")
    (document,) = documents(Files(paths=(str(tmp_path),)))
    assert isinstance(document, Document)
    assert document.size == 4
    assert b"".join(document.chunks()) == b"".join(document.chunks()) == b"\r\n\0\xff"


def test_standard_input_can_be_read_twice(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"some \xff text")))
    assert read(StandardInput()) == read(StandardInput()) == {"standard input": b"some \xff text"}


def test_the_standard_library_is_there_without_tests_and_other_packages():
    names = [document.name for document in documents(StandardLibrary())]
    assert {"abc.py", "json/decoder.py", "typing.py"} <= set(names)
    assert names == sorted(set(names))
    foreign = {"test", "tests", "idle_test", "site-packages", "dist-packages"}
    assert not [name for name in names if foreign & set(name.split("/")) or name.startswith("_sysconfigdata")]
    assert all(name.endswith(".py") for name in names)
    assert len(names) > 400


def test_what_has_no_documents_says_so():
    for source in (Planted(language=PlantedLanguage(), tokens=3), Built(folder="x")):
        with pytest.raises(InputError):
            documents(source)


@setting
class Holder:
    source: Files | StandardInput | StandardLibrary | Planted | Built


@pytest.mark.parametrize(
    "source",
    [
        Files(paths=("a", "b*")),
        StandardInput(),
        StandardLibrary(),
        Planted(language=PlantedLanguage(seed=3), tokens=5),
        Built(folder="x"),
    ],
)
def test_a_source_survives_plain_data(source):
    assert from_plain(Holder, to_plain(Holder(source=source))) == Holder(source=source)


def test_a_planted_text_has_a_length():
    with pytest.raises(ConfigError):
        Planted(language=PlantedLanguage(), tokens=0)
