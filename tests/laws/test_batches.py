"""The order of the text is a pure function of the seed and the update's number."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InputError
from headwater.train.batches import Batches, Repeats


@st.composite
def some_batches(draw: st.DrawFn, repeats: Repeats | None = None) -> Batches:
    context = draw(st.integers(1, 12))
    length = draw(st.integers(2 * context, 400))
    return Batches(
        ids=np.arange(length, dtype=np.uint16),
        vocab=length,
        context=context,
        batch=draw(st.integers(1, 7)),
        seed=draw(st.integers(0, 2**63 - 1)),
        repeats=repeats,
    )


@given(some_batches(), st.lists(st.integers(0, 300), min_size=1, max_size=5))
def test_a_batch_depends_on_its_number_alone(batches: Batches, steps: list[int]) -> None:
    again = Batches(ids=batches.ids, vocab=batches.vocab, context=batches.context, batch=batches.batch, seed=batches.seed)
    for step in steps:
        batches(step + 1)
    assert [batches(step).tolist() for step in steps] == [again(step).tolist() for step in reversed(steps)][::-1]


@given(some_batches(), st.integers(0, 50))
def test_every_window_is_a_piece_of_the_text(batches: Batches, step: int) -> None:
    windows = batches(step)
    assert windows.shape == (batches.batch, batches.context + 1)
    assert torch.equal(windows, windows[:, :1] + torch.arange(batches.context + 1))
    assert int(windows.max()) < len(batches.ids)


@given(some_batches(), st.integers(0, 3))
def test_an_epoch_reads_no_target_twice_and_leaves_less_than_two_contexts_out(batches: Batches, epoch: int) -> None:
    numbers = range(epoch * batches.windows, (epoch + 1) * batches.windows)
    rows = [batches(number // batches.batch)[number % batches.batch] for number in numbers]
    targets = torch.cat([row[1:] for row in rows]).tolist()
    assert len(set(targets)) == len(targets) >= len(batches.ids) - 2 * batches.context


def test_two_epochs_differ_in_order_and_beginning() -> None:
    batches = Batches(ids=np.arange(5000), vocab=5000, context=10, batch=100, seed=3)
    first = [batches(step)[:, 0] for step in range(4)]
    later = [batches(step)[:, 0] for step in range(5, 9)]
    assert not torch.equal(torch.cat(first), torch.cat(later))
    assert set(torch.cat(first).remainder(10).tolist()) != set(torch.cat(later).remainder(10).tolist())


@given(some_batches(repeats=Repeats(share=1.0, shortest=2, longest=5)), st.integers(0, 20))
def test_planted_sequences_repeat_their_segment(batches: Batches, step: int) -> None:
    for row in batches(step):
        assert any(torch.equal(row[length:], row[:-length]) for length in range(2, 6))
    assert int(batches(step).max()) < batches.vocab


def test_the_share_of_repeats_is_right_on_average() -> None:
    repeats = Repeats(share=0.3, shortest=3, longest=3)
    batches = Batches(ids=np.arange(10_000), vocab=10_000, context=9, batch=8, seed=1, repeats=repeats)
    planted = [torch.equal(row[3:], row[:-3]) for step in range(200) for row in batches(step)]
    assert abs(np.mean(planted) - 0.3) < 4 * (0.3 * 0.7 / len(planted)) ** 0.5


def test_too_little_text_is_refused() -> None:
    with pytest.raises(InputError, match="two contexts"):
        Batches(ids=np.arange(19), vocab=19, context=10, batch=1, seed=0)
