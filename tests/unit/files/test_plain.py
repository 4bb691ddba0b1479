import contextlib
import json
import os
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import ModelFileError
from headwater.files import plain as reading
from headwater.files.plain import MOST_DEPTH, file_size, open_file, parse_json, read_bytes, read_json

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64), 2**64) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(plain=st.dictionaries(st.text(), values, max_size=5), escaped=st.booleans())
def test_every_json_object_is_read_as_it_was_written(plain, escaped):
    assert parse_json(json.dumps(plain, ensure_ascii=escaped).encode(), "x") == plain


@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_json_object_or_refused(data):
    with contextlib.suppress(ModelFileError):
        assert isinstance(parse_json(data, "x"), dict)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": NaN}', "the number NaN"),
        ('{"a": -Infinity}', "the number -Infinity"),
        ('{"a": 1e999}', "the number 1e999"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "'c' stands twice"),
        ('{"a": ' + "9" * 5000 + "}", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"a":' * 40 + "1" + "}" * 40, "nested"),
        ('{"a": "\\ud800"}', "not JSON"),
        ('{"\\udfff": 1}', "not JSON"),
        ("[1]", "no JSON object"),
        ('"a"', "no JSON object"),
        ("{", "not JSON"),
        ("\ufeff{}", "not JSON"),
        ("", "not JSON"),
    ],
)
def test_what_other_parsers_let_through_is_refused(text, reason):
    with pytest.raises(ModelFileError, match="x") as caught:
        parse_json(text.encode(), "x")
    assert reason in str(caught.value)


def test_bytes_that_are_no_utf_8_are_refused():
    with pytest.raises(ModelFileError, match="not JSON"):
        parse_json(b'{"a": "\xff"}', "x")


def test_nesting_is_bounded_exactly():
    def nested(levels):
        return b'{"a":' * levels + b"1" + b"}" * levels

    parse_json(nested(MOST_DEPTH), "x")
    with pytest.raises(ModelFileError, match="nested"):
        parse_json(nested(MOST_DEPTH + 1), "x")


def test_a_double_key_among_a_million_is_found_at_once():
    keys = ",".join(f'"{i}":1' for i in range(300_000))
    with pytest.raises(ModelFileError, match="'299999' stands twice"):
        parse_json(("{" + keys + ',"299999":1}').encode(), "x")


@pytest.mark.parametrize("inner", [b"[],", b"1,"])
def test_a_text_that_would_fill_the_memory_is_not_parsed(inner):
    data = b'{"a": [' + inner * 5_000_000 + b"1]}"
    tracemalloc.start()
    with pytest.raises(ModelFileError, match="holds more than"):
        parse_json(data, "x")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(ModelFileError, match=r"1,099,511,627,776 bytes"):
        read_json(path)
    with pytest.raises(ModelFileError, match=r"at most 10"):
        read_bytes(path, 10)


def test_only_regular_files_are_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ModelFileError, match="no regular file"):
            read_json(path)
    with pytest.raises(ModelFileError, match="is not there"):
        file_size(tmp_path / "absent")
    with pytest.raises(ModelFileError, match="cannot be read"):
        file_size(tmp_path / "a\0b")


def test_a_pipe_that_takes_a_files_place_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    # It was a file when it was looked at.
    monkeypatch.setattr(reading, "file_size", lambda _: 7)
    with pytest.raises(ModelFileError, match="no regular file"):
        open_file(path)
