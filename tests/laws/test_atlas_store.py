"""Searching equals looking at every row."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.atlas.atlas import open_atlas
from headwater.atlas.patterns import Contains, Matches, Prefix
from small_atlas import HEADS, TEXTS, small_atlas


@pytest.fixture(scope="module", params=[1, 3])
def small(request, tmp_path_factory):
    return small_atlas(tmp_path_factory.mktemp("law") / "atlas", seed=request.param, parts=request.param)


@pytest.fixture(scope="module")
def atlas(small):
    with open_atlas(small.folder) as opened:
        yield opened


def means(pattern, token):
    """Whether a pattern means a token, by Python's own words; RE2's letters are those of ASCII."""
    text = TEXTS[token]
    if isinstance(pattern, int):
        return token == pattern
    if text is None:
        return False
    match pattern:
        case Prefix(part):
            return text.startswith(part)
        case Contains(part):
            return part in text
        case Matches(expression):
            return re.search(expression, text, re.ASCII) is not None
        case _:
            return text == pattern


words = [text for text in TEXTS if text is not None]
patterns = st.one_of(
    st.none(),
    st.integers(0, len(TEXTS) - 1),
    st.sampled_from(words),
    st.sampled_from(words).map(lambda text: Prefix(text[:1])),
    st.sampled_from(words).map(lambda text: Contains(text[-1])),
    st.sampled_from(["^ ", "e+f$", "[a-k]", "^(def|self)$", r"\w\W*$"]).map(Matches),
)
heads = st.none() | st.sampled_from([*HEADS, "L0", "L1"]) | st.lists(st.sampled_from([*HEADS, "L0"]), min_size=1).map(tuple)
SORTS = ("lift", "score", "output", "attention", "nats", "chances")


@given(
    slots=st.tuples(patterns, patterns, patterns),
    head=heads,
    sort=st.sampled_from([*SORTS, *(f"-{name}" for name in SORTS)]),
    page=st.tuples(st.sampled_from(["both", "raising", "lowering"]), st.integers(0, 40), st.integers(0, 20)),
)
def test_a_search_is_a_filter_a_sort_and_a_cut(small, atlas, slots, head, sort, page):
    sign, limit, offset = page
    named = None if head is None else (head,) if isinstance(head, str) else head

    def value(row):
        name = sort.removeprefix("-")
        number, source, dest, out = row
        plain = {
            "lift": small.lift(*row),
            "score": small.score[number, dest, source],
            "output": small.output[number, source, out],
        }
        plain["attention"] = small.attention[number, dest, source]
        if name in plain:
            return np.float32(plain[name])
        return small.evidence[row][name] if row in small.evidence else None

    kept = [
        row
        for row in small.rows
        if all(pattern is None or means(pattern, token) for pattern, token in zip(slots, row[1:], strict=True))
        and (named is None or any(HEADS[row[0]] == name or HEADS[row[0]].startswith(f"{name}H") for name in named))
        and (sign == "both" or (small.lift(*row) > 0) == (sign == "raising"))
    ]
    turn = 1 if sort.startswith("-") else -1
    kept.sort(key=lambda row: (value(row) is None, turn * (value(row) or 0), row))
    source, dest, out = slots
    found = atlas.search(source=source, dest=dest, out=out, head=head, sort=sort, sign=sign, limit=limit, offset=offset)
    told = [(HEADS.index(row["head"]), row["source_id"], row["dest_id"], row["out_id"]) for row in found]
    assert found.total == len(kept)
    assert told == kept[offset : offset + limit]
