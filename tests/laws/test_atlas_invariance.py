"""What an atlas does not depend on: how the work is divided, and what the tokens are called."""

from unittest.mock import patch

import numpy as np
import pytest
import torch

from atlas_twin import SLOTS, Head, OnDisk, check_direct, check_head, check_joined, check_strongest
from headwater.atlas import order
from headwater.atlas.build import AtlasChoices, build_atlas
from headwater.atlas.engines import Local
from headwater.atlas.order import weights_at
from headwater.atlas.settings import Settings
from headwater.atlas.subject import Subject
from headwater.circuits.streamed import fused
from headwater.circuits.streamed.machine import available
from headwater.model.checkpoint import save
from headwater.model.config import Attention, FeedForward, LayerNorm, ModelConfig, NoNorm, PreNorm, RotaryPositions, Unembedding
from headwater.settings import from_plain
from headwater.text.corpus import build_corpus
from headwater.text.planted import Copying, PlantedLanguage, Skips
from headwater.text.sources import Planted
from strategies import random_weights

SMALL = AtlasChoices(k=4, each=2, triples=20)


def shape(**changed):
    sizes = {"vocab": 13, "context": 6, "d_model": 6, "layers": 1, "attention": Attention(heads=2, d_head=3, input_bias=True)}
    return ModelConfig(**(sizes | changed))


def built(place, weights, chosen=SMALL, **ways):
    save(weights, place / "model")
    build_atlas(place / "model", place / "atlas", chosen, **ways)
    return OnDisk(place / "atlas").everything()


def assert_same(ours, theirs, but=()):
    """Every column of every table, to the last bit."""
    assert ours.keys() == theirs.keys()
    for name, column in ours.items():
        if name not in but:
            np.testing.assert_array_equal(column, theirs[name], strict=True, err_msg=name)


NORMED = shape(layers=2, norm=PreNorm(norm=LayerNorm()), feed_forward=FeedForward(d_mlp=5), positions=RotaryPositions(dims=2))


@pytest.mark.parametrize(
    ("config", "dtype"),
    [(shape(), torch.float32), pytest.param(NORMED, torch.float64, marks=pytest.mark.slow)],
    ids=["float32", "normed"],
)
def test_the_division_into_tasks_parts_and_threads_changes_no_table(config, dtype, tmp_path):
    weights = random_weights(config, 3, dtype)
    whole = built(tmp_path / "whole", weights)
    # The direct path's sum of exponentials is told to the weights' precision, which in float32 is that of a few last digits.
    but = ("bigrams: log_share", "lines/direct: log_normaliser") if dtype == torch.float32 else ()
    for rows in (5, 12):
        assert_same(built(tmp_path / str(rows), weights, AtlasChoices(k=4, each=2, triples=20, rows=rows)), whole, but)
    with patch.object(order, "PART", 40):
        folder = tmp_path / "parts"
        assert_same(built(folder, weights, engine=Local(workers=2)), whole)
        assert len(list((folder / "atlas" / "trigrams" / "by_out").iterdir())) > 2
    try:
        torch.set_num_threads(2)
        assert_same(built(tmp_path / "threads", weights), whole)
    finally:
        torch.set_num_threads(1)


def test_lines_one_by_one_give_the_same_tables(tmp_path):
    weights = random_weights(shape(vocab=5, attention=Attention(heads=1, d_head=3)), 3, torch.float32)
    whole, single = (
        built(tmp_path / "whole", weights),
        built(tmp_path / "1", weights, AtlasChoices(k=4, each=2, triples=20, rows=1)),
    )
    assert_same(single, whole, ("bigrams: log_share", "lines/direct: log_normaliser"))


@pytest.mark.parametrize("kernel", ["torch", "fused"])
def test_a_mass_is_the_same_number_whatever_lines_are_asked(kernel):
    """In float32, where a product's last digits depend on its shape: they would change the order of close destinations."""
    if kernel == "fused" and not available():
        pytest.skip("needs numba and a processor with AVX2")
    weights = random_weights(
        shape(vocab=300, d_model=40, attention=Attention(heads=1, d_head=33), norm=NoNorm()), 0, torch.float32
    )
    shares = torch.rand(300, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    subject = Subject(weights, shares / shares.sum(), Settings(others=5))
    scores = subject.scores("L0H0")
    with patch.object(fused, "LEAST", 1 if kernel == "fused" else 2**62):
        everything = subject.mass(scores)
        truth = (scores.left.double() @ scores.right.double() + subject.shares.log()).logsumexp(dim=1)
        torch.testing.assert_close(everything, truth, rtol=0, atol=1e-5 if kernel == "fused" else 2.0**-20)
        for step in (1, 7, 64, 299):
            parts = [subject.mass(scores, slice(start, start + step)) for start in range(0, 300, step)]
            assert torch.equal(torch.cat(parts), everything)


def renamed(weights, name_of):
    """Token ``t`` is called ``name_of[t]``."""
    old = torch.argsort(name_of)
    changed = {"embed.W_E": weights.W_E[old], "unembed.W_U": weights.W_U[:, old]}
    return weights.changed(changed | ({} if weights.b_U is None else {"unembed.b_U": weights.b_U[old]}))


IDS = ("token", *SLOTS)


def by_line(columns, name_of):
    """A table's rows under other names, in an order that does not depend on names' order: all ids, then all numbers."""
    ids = {
        key: name_of[values] if key in IDS else values.astype(np.int64)
        for key, values in columns.items()
        if values.dtype.kind in "iu"
    }
    rows = np.lexsort(tuple(reversed(list(ids.values()))))
    numbers = {key: values[rows] for key, values in columns.items() if values.dtype.kind == "f"}
    return {key: values[rows] for key, values in ids.items()}, numbers


@pytest.mark.parametrize("config", [shape(unembedding=Unembedding(bias=True)), NORMED], ids=["plain", "normed"])
def test_renaming_the_vocabulary_renames_the_atlas_and_nothing_else(config, tmp_path):
    weights, same = random_weights(config, 4), np.arange(config.vocab)
    name_of = torch.randperm(config.vocab, generator=torch.Generator().manual_seed(0))
    ours, theirs = built(tmp_path / "ours", weights), built(tmp_path / "theirs", renamed(weights, name_of))
    assert ours.keys() == theirs.keys()
    for table in sorted({name.partition(": ")[0] for name in ours if not name.startswith("vocab")}):
        (here, there) = (
            {name.partition(": ")[2]: column for name, column in all_of.items() if name.startswith(f"{table}: ")}
            for all_of in (ours, theirs)
        )
        if table.startswith("lines/"):
            for key, values in here.items():
                np.testing.assert_allclose(there[key][name_of], values, rtol=1e-12, atol=1e-12, err_msg=f"{table} {key}")
            continue
        (ids, numbers), (their_ids, their_numbers) = by_line(here, name_of.numpy()), by_line(there, same)
        for key, values in ids.items():
            np.testing.assert_array_equal(their_ids[key], values, err_msg=f"{table} {key}")
        precision = 1e-6 if table.startswith("by_") else 1e-12
        for key, values in numbers.items():
            np.testing.assert_allclose(their_numbers[key], values, rtol=precision, atol=precision, err_msg=f"{table} {key}")


def language():
    nothing = {"skips": Skips(count=0, sources=0, destinations=0), "copying": Copying(words=0, after=0)}
    return PlantedLanguage(words=8, length=16, **nothing)


@pytest.mark.parametrize("layers", [0, 1])
def test_shares_are_those_of_the_text_and_tokens_that_it_never_has_weigh_nothing(layers, tmp_path):
    """A model with more tokens than its tokenizer has words."""
    corpus = build_corpus(Planted(language=language(), tokens=3000), language().tokenizer(), tmp_path / "corpus", held_out=0.3)
    config = shape(vocab=10, layers=layers, attention=Attention(heads=2, d_head=3) if layers else None)
    save(random_weights(config, 1), tmp_path / "model")
    weights, manifest = (
        weights_at(str(tmp_path / "model")),
        build_atlas(tmp_path / "model", tmp_path / "atlas", SMALL, corpus=corpus),
    )
    atlas = OnDisk(tmp_path / "atlas")
    vocab, text = atlas.table("vocab"), np.asarray(corpus.train).tolist()
    assert vocab["count"].tolist() == [text.count(token) for token in range(10)]
    np.testing.assert_allclose(vocab["share"], vocab["count"] / len(text), rtol=1e-15)
    assert vocab["share"][8:].tolist() == [0, 0]
    subject = Subject(weights, torch.from_numpy(vocab["share"]), from_plain(Settings, manifest.settings))
    check_direct(atlas, subject, precision=2.0**-20)
    heads = [Head(subject, name, atlas.lines(name)["mass"]) for name in manifest.heads]
    assert len(heads) == 2 * layers
    for head in heads:
        check_head(atlas, subject, head)
    if heads:
        check_strongest(atlas, subject, heads)
        check_joined(atlas, subject, heads)
    occurs = {pair[:2]: pair[2] for pair in zip(*(column.tolist() for column in vars_of(corpus.bigrams)), strict=True)}
    bigrams = atlas.table("bigrams")
    counted = [occurs.get(pair, 0) for pair in zip(bigrams["token"].tolist(), bigrams["out"].tolist(), strict=True)]
    assert bigrams["count"].tolist() == counted
    assert 0 < min(filter(None, counted)) < max(counted)


def vars_of(pairs):
    return pairs.first, pairs.second, pairs.count
