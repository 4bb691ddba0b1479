"""Document 002, far dependencies: who answers after a gap, what a gradient is left with on the way, and what attention is worth on text."""

import torch

import headwater as hw
from headwater.circuits.algebra import lengths
from headwater.claims.evidence import Finding, beside, found, reported, stated
from headwater.claims.given import Given
from headwater.claims.integration.on_text import Even, loss, run_of, unexplained, without
from headwater.claims.integration.recalling import (
    FAR,
    NEAR,
    TASK,
    accuracy,
    attention_slope,
    fresh,
    kept_state,
    one_layer,
    recurrent,
    recurrent_slope,
    trained,
    weight_on_key,
)
from headwater.claims.registry import checks
from headwater.train.evaluate import conditional_entropy

NGRAM = "5-gram, Kneser-Ney"


def ngram_sees(given: Given, gap: int) -> float:
    """How far the 5-gram's answer changes when the key before a gap is another one."""
    windows = torch.from_numpy(TASK.windows(8, gap=gap, seed=7))
    other = windows.clone()
    other[:, TASK.farthest - gap] = (other[:, TASK.farthest - gap] + 1) % TASK.keys
    predictor = trained(given, NGRAM)[0]
    return float((predictor.nats(windows) - predictor.nats(other))[:, -1].abs().max())


@checks("002-T2")
def overcoming(given: Given) -> Finding:
    """Answers over the longest gap after the same training; and how much of a gradient that reaches the key is left there, before it."""
    attention, network = fresh(given)
    left, left_recurrent = (
        attention_slope(attention, FAR) / attention_slope(attention, NEAR),
        recurrent_slope(network, FAR) / recurrent_slope(network, NEAR),
    )
    return found(
        stated("ngram-blind", ngram_sees(given, 3), equal=0),
        beside("ngram-sees", ngram_sees(given, 2)),
        reported("against-ngram", accuracy(given, "1 layer", FAR), above=accuracy(given, NGRAM, FAR)),
        reported("against-recurrent", accuracy(given, "1 layer", FAR), above=accuracy(given, "recurrent", FAR)),
        reported("gradient", left, above=left_recurrent),
        beside("state", kept_state(network, FAR)),
        beside("learned-gradient", recurrent_slope(recurrent(given), FAR) / recurrent_slope(recurrent(given), NEAR)),
        beside("weight", weight_on_key(one_layer(given), FAR)),
    )


@checks("002-N14")
def far_and_deep(given: Given) -> Finding:
    """Answers over the longest gap with one layer of attention and with two, beside a model without any and an n-gram."""
    return found(
        reported("one-layer", accuracy(given, "1 layer", FAR), above=accuracy(given, "0 layers", FAR)),
        reported("two-layers", accuracy(given, "2 layers", FAR), above=accuracy(given, "0 layers", FAR)),
        reported("ngram", accuracy(given, "1 layer", FAR), above=accuracy(given, NGRAM, FAR)),
        beside("recurrent-near", accuracy(given, "recurrent", NEAR)),
        beside("recurrent-far", accuracy(given, "recurrent", FAR)),
    )


@checks("002-N13")
def weighting(given: Given) -> Finding:
    """How much of the stream the token alone does not decide, before and after attention; and the loss where all tokens weigh the same."""
    run = run_of(given)
    return found(
        reported("context", unexplained(given, "L0.middle"), above=unexplained(given, "L0.in")),
        reported("weights", loss(given, Even()), above=loss(given)),
        beside("size", lengths(run["L0.attention"].flatten(0, 1)).mean() / lengths(run["L0.in"].flatten(0, 1)).mean()),
        on=given.name("block"),
    )


@checks("002-N15")
def keys_to_success(given: Given) -> Finding:
    """The loss on text with attention and without, and beside it the least that anyone loses who sees one token."""
    whole = loss(given)
    return found(
        reported("silenced", loss(given, hw.Chain(*without(given.model("block"), "attention"))), above=whole),
        reported("one-token", whole, below=conditional_entropy(given.corpus("block").held_out)),
        on=given.name("block"),
    )
