"""The leading skip-trigrams of a head are those that looking at every source, dest and out would find."""

from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwater.atlas import leading as module
from headwater.atlas.leading import leading
from headwater.atlas.lift import Looking
from headwater.atlas.settings import Settings
from headwater.atlas.subject import Subject
from headwater.circuits.head import every_head
from headwater.circuits.streamed.exact import dots
from headwater.model.presets import named
from headwater.model.weights import Weights
from strategies import models, random_weights, seeds


def subject_of(member, seed, dtype):
    weights = random_weights(member.config, member.seed, dtype)
    drawn = torch.rand(member.config.vocab, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.01
    return Subject(weights, drawn / drawn.sum(), Settings(others=5))


def every(table):
    """All entries, each by its definition."""
    rows, columns = table.shape
    places = [torch.arange(rows).repeat_interleave(columns), torch.arange(columns).repeat(rows)]
    return dots(table.left, table.right.T, *places).view(rows, columns).tolist()


def slow(subject, head, count):
    """The best of each source, then the best sources: loops."""
    scores, outputs = subject.scores(head), subject.outputs(head)
    looking = Looking(scores, subject.mass(scores), subject.settings.others)
    leads, said, found = every(looking.leads), every(outputs), []
    for source, (to, says) in enumerate(zip(leads, said, strict=True)):
        dest, out = (min(range(len(line)), key=lambda token, line=line: (-line[token], token)) for line in (to, says))
        attention = float(looking.attention(torch.tensor([to[dest]], dtype=torch.float64)))
        if attention * says[out] > 0:
            found.append((-attention * says[out], source, dest, out))
    return [(source, dest, out, -less) for less, source, dest, out in sorted(found)[:count]]


@given(models(layers=st.integers(1, 2)), seeds, st.integers(1, 4), st.sampled_from([torch.float32, torch.float64]))
def test_leading_skip_trigrams_are_the_best_of_the_best_sources(member, seed, count, dtype):
    subject = subject_of(member, seed, dtype)
    head = every_head(member.config)[seed % len(every_head(member.config))]
    with patch.object(module, "SOURCES", 1 + seed % 3):
        found = leading(subject, head, count)
    rows = zip(*(getattr(found, name).tolist() for name in ("source", "dest", "out", "lift")), strict=True)
    assert list(rows) == slow(subject, head, count)


@pytest.mark.parametrize("sources", [1, 3, 64])
def test_how_many_sources_are_looked_at_together_changes_nothing(monkeypatch, sources):
    weights = Weights.draw(named("one-layer"), seed=1)
    subject = Subject(weights, torch.full((4096,), 1 / 4096, dtype=torch.float64), Settings(others=255))
    whole = leading(subject, "L0H0", 5)
    monkeypatch.setattr(module, "SOURCES", sources)
    monkeypatch.setattr(module, "ENTRIES", 4096 * 100 + 7)
    again = leading(subject, "L0H0", 5)
    assert (again.source.tolist(), again.dest.tolist(), again.out.tolist()) == (
        whole.source.tolist(),
        whole.dest.tolist(),
        whole.out.tolist(),
    )
    assert again.lift.tolist() == whole.lift.tolist()
