"""The induction score, on heads written by hand."""

import pytest
import torch

from headwater.errors import InputError
from headwater.model.config import Attention, ModelConfig, NoPositions
from headwater.model.weights import Weights
from headwater.train.studies import induction


def even_model() -> Weights:
    """One layer whose queries are zero: each head looks everywhere alike."""
    config = ModelConfig(
        vocab=50, context=16, d_model=8, layers=1, attention=Attention(heads=2, d_head=4), positions=NoPositions()
    )
    weights = Weights.draw(config, seed=0, dtype=torch.float64)
    return weights.changed({"blocks.0.attn.W_Q": torch.zeros(2, 8, 4, dtype=torch.float64)})


def test_a_head_that_looks_everywhere_alike_scores_what_the_study_says() -> None:
    result = induction.run(even_model())
    assert all(abs(score - result.even) < 1e-6 for score in result.scores.values())
    assert abs(result.even - sum(1 / (position + 1) for position in range(8, 16)) / 8) < 1e-6


def test_the_score_equals_a_loop_over_the_patterns() -> None:
    config = ModelConfig(
        vocab=30, context=12, d_model=8, layers=2, attention=Attention(heads=2, d_head=4), positions=NoPositions()
    )
    weights = Weights.draw(config, seed=1, dtype=torch.float64)
    result = induction.run(weights, sequences=3, seed=5)
    from headwater.model.record import record

    tokens = torch.randint(30, (3, 6), generator=torch.Generator().manual_seed(5)).repeat(1, 2)
    run = record(weights, tokens)
    for layer in range(2):
        pattern = run[f"L{layer}.pattern"]
        for head in range(2):
            total = 0.0
            for row in range(3):
                for dest in range(6, 12):
                    earlier = next(place for place in range(dest) if place == dest - 6)
                    total += float(pattern[row, head, dest, earlier + 1])
            assert abs(result.scores[f"L{layer}H{head}"] - total / 18) < 1e-12
    assert len(result.nats) == 11
    assert result.best[1] == max(result.scores.values())


def test_a_model_that_sees_later_tokens_is_refused() -> None:
    attention = Attention(heads=2, d_head=4, mask="full")
    config = ModelConfig(vocab=50, context=16, d_model=8, layers=1, attention=attention)
    with pytest.raises(InputError, match="attends to later tokens"):
        induction.run(Weights.draw(config, seed=0))
