import numpy as np

from headwater.text import sources
from headwater.text.sources import Files
from headwater.train.studies.small_text import read_bytes


def test_no_more_is_read_than_is_wanted(tmp_path, monkeypatch):
    read, seen = sources._read, []

    def counted(file):
        for chunk in read(file):
            seen.append(len(chunk))
            yield chunk

    monkeypatch.setattr(sources, "CHUNK", 4)
    monkeypatch.setattr(sources, "_read", counted)
    (tmp_path / "long.txt").write_bytes(b"abcabc" * 100)
    ids, vocab = read_bytes(Files(paths=(str(tmp_path),)), most=10)
    assert vocab == 3
    assert np.array_equal(ids, [0, 1, 2] * 3 + [0])
    assert seen == [4, 4, 4]
