import numpy as np
import pytest

from headwater.errors import ConfigError, InputError
from headwater.settings import from_plain, to_plain
from headwater.text.recall import RecallTask

TASK = RecallTask(keys=3, fillers=4, farthest=9)


@pytest.mark.parametrize("gap", [0, 1, 5, 9])
def test_a_window_has_its_key_once_before_the_question_and_once_after_it(gap):
    for window in TASK.windows(50, gap=gap, seed=gap).tolist():
        assert len(window) == TASK.context + 1
        *before, ask, answer = window
        assert ask == TASK.ask
        assert before[-1 - gap] == answer < TASK.keys
        del before[-1 - gap]
        assert all(TASK.keys <= word < TASK.ask for word in before)


def test_gaps_are_drawn_evenly_where_none_is_given():
    windows = TASK.windows(4000, seed=0)
    gaps = TASK.farthest - np.argmax(windows[:, :-2] < TASK.keys, axis=1)
    found, counts = np.unique(gaps, return_counts=True)
    assert tuple(found) == TASK.gaps == (1, 2, 3, 4, 8, 9)
    share = 1 / len(TASK.gaps)
    assert np.abs(counts - 4000 * share).max() < 6 * np.sqrt(4000 * share * (1 - share))


def test_every_key_is_asked_for_as_often():
    counts = np.bincount(TASK.windows(3000, gap=2, seed=1)[:, -1])
    assert np.abs(counts - 1000).max() < 6 * np.sqrt(3000 * 2 / 9)


def test_windows_follow_from_their_seed():
    np.testing.assert_array_equal(TASK.windows(7, seed=(0, 3)), TASK.windows(7, seed=(0, 3)))
    assert (TASK.windows(7, seed=(0, 3)) != TASK.windows(7, seed=(0, 4))).any()


def test_a_task_comes_back_from_its_plain_settings():
    assert from_plain(RecallTask, to_plain(TASK)) == TASK


def test_what_is_no_task_is_refused():
    with pytest.raises(ConfigError, match="keys is 1"):
        RecallTask(keys=1)
    with pytest.raises(ConfigError, match="farthest is 0"):
        RecallTask(farthest=0)
    with pytest.raises(InputError, match="a gap of 10"):
        TASK.windows(1, gap=10, seed=0)
