import json
import math

import numpy as np
import pytest
import torch

from headwater.model.record import record
from headwater.model.weights import Weights
from headwater.text.recall import RecallTask
from headwater.train.module import TransformerModule
from headwater.train.ngrams import KneserNey, count_ngrams
from headwater.train.plan import Plan
from headwater.train.predictors import Transformer
from headwater.train.recurrent import RecurrentModule, equal_in_size
from headwater.train.studies.recall import AnswerModule, ask, by_hand, run, transformer

TASK = RecallTask(keys=4, fillers=3, farthest=6)
PLAN = Plan(steps=40, batch=16, learning_rate=2e-2, warmup=5)


@pytest.fixture(scope="module")
def study():
    return run(TASK, PLAN, d_model=16, windows=100)


def test_attention_answers_at_every_gap_and_who_sees_one_word_guesses(study):
    rows = {row.name: row for row in study.rows}
    assert list(rows) == [
        "bigram, Kneser-Ney", "trigram, Kneser-Ney", "5-gram, Kneser-Ney", "recurrent", "0 layers", "1 layer", "2 layers", "1 layer, by hand",
    ]  # fmt: skip
    for name in ("1 layer", "2 layers", "1 layer, by hand"):
        assert all(score.accuracy == 1.0 for score in rows[name].scores)
    for name in ("bigram, Kneser-Ney", "trigram, Kneser-Ney", "0 layers"):
        assert all(abs(score.accuracy - study.chance) < 4 * math.sqrt(3 / 16 / 100) for score in rows[name].scores)
    near, far = rows["5-gram, Kneser-Ney"].scores[0], rows["5-gram, Kneser-Ney"].scores[-1]
    assert near.accuracy == 1.0
    assert abs(far.accuracy - study.chance) < 4 * math.sqrt(3 / 16 / 100)


def test_a_study_says_the_same_twice():
    short = Plan(steps=3, batch=4, learning_rate=1e-2, warmup=0)
    assert run(TASK, short, d_model=8, windows=10) == run(TASK, short, d_model=8, windows=10)


def test_a_study_is_told_to_people_programs_and_plots(study):
    accuracy, nats, learning = study.tables()
    assert accuracy.columns == ("", *(f"gap {gap}#" for gap in TASK.gaps))
    assert [row[0] for row in accuracy.rows][-1] == [row[0] for row in nats.rows][-1] == "chance"
    assert accuracy.rows[-1][1] == "0.250"
    assert nats.rows[-1][1] == f"{math.log(4):.3f}"
    by_name = {row[0]: row[2] for row in learning.rows}
    assert by_name["0 layers"] == "not yet"
    assert int(by_name["1 layer"]) < PLAN.steps
    assert by_name["1 layer, by hand"] == "–"
    plain = json.loads(json.dumps(study.plain(), allow_nan=False))
    assert plain["study"] == "recall"
    assert plain["rows"][0]["scores"][0]["gap"] == 1
    assert plain["updates"]["0 layers"] is None
    for panel in study.curves():
        assert all(len(line.x) == len(line.y) for line in panel.lines)


@pytest.mark.parametrize("order", [2, 3, 5])
def test_an_n_gram_sees_the_key_just_when_its_order_is_the_gap_and_three(order):
    seen = np.concatenate([TASK.windows(400, gap=gap, seed=0) for gap in range(4)])
    predictor = KneserNey(count_ngrams(seen.ravel(), vocab=TASK.vocab, order=order), order=order)
    for gap in range(TASK.farthest + 1):
        window = torch.from_numpy(TASK.windows(1, gap=gap, seed=1))
        said = []
        for key in range(TASK.keys):
            window[0, TASK.farthest - gap] = key
            said.append(float(predictor.nats(window)[0, -1]))
        assert (len(set(said)) > 1) == (order >= gap + 3)


def test_a_model_without_layers_says_the_same_whatever_the_key_was():
    predictor = Transformer(Weights.draw(transformer(TASK, 0, 8), seed=0))
    window = torch.from_numpy(TASK.windows(1, gap=1, seed=1))
    other = window.clone()
    other[0, TASK.farthest - 1] = (window[0, TASK.farthest - 1] + 1) % TASK.keys
    assert predictor.nats(window)[0, -1] == predictor.nats(other)[0, -1]


def test_the_head_written_by_hand_attends_as_its_score_says():
    window = torch.from_numpy(TASK.windows(1, gap=3, seed=0))
    pattern = record(by_hand(TASK, score=3.0), window[:, :-1])["L0.pattern"]
    others = TASK.context - 1
    assert float(pattern[0, 0, -1, TASK.farthest - 3]) == pytest.approx(math.exp(3) / (math.exp(3) + others), rel=1e-5)


class Knows:
    """Sees the key wherever it stands, and gives it this probability."""

    name, parameters = "knows", 0

    def __init__(self, probability):
        self.probability = probability

    def nats(self, windows):
        keys = [next(word for word in window if word < TASK.keys) for window in windows[:, :-1].tolist()]
        right = windows[:, -1] == torch.tensor(keys)
        p = torch.where(right, self.probability, (1 - self.probability) / (TASK.keys - 1))
        return -p.log()[:, None].expand(-1, windows.shape[1] - 1)


def test_questions_are_scored_by_the_likeliest_key_and_the_nats_of_the_right_one():
    knows, deceives = ask(Knows(0.7), TASK, 2, 50), ask(Knows(0.1), TASK, 2, 50)
    assert (knows.accuracy, knows.accuracy_error) == (1.0, 0.0)
    assert deceives.accuracy == 0.0
    assert knows.nats == pytest.approx(-math.log(0.7))
    assert deceives.nats == pytest.approx(-math.log(0.1))


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_what_is_trained_is_the_loss_of_the_answer(kind):
    config = transformer(TASK, 1, 8)
    module = RecurrentModule(equal_in_size(config)) if kind == "recurrent" else TransformerModule(Weights.draw(config, seed=0))
    windows = torch.from_numpy(TASK.windows(6, seed=0))
    each = module.nats(windows) if kind == "recurrent" else Transformer(module.weights()).nats(windows)
    np.testing.assert_allclose(AnswerModule(module)(windows).item(), float(each[:, -1].mean()), rtol=1e-6)
