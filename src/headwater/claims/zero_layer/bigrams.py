"""Document 001, introduction and first lemma: the model as one matrix, and the bigrams that are all it can learn."""

import math
from dataclasses import replace

import torch
from torch import Tensor

import headwater as hw
from headwater.claims.evidence import Finding, beside, defined, found, outside, stated
from headwater.claims.given import SMALL, Given
from headwater.claims.one_layer.as_printed import apart
from headwater.claims.registry import checks
from headwater.claims.zero_layer.direct_path import text_pairs
from headwater.claims.zero_layer.language import (
    NARROW,
    PLAN,
    WORDS,
    Language,
    centred,
    composite,
    language,
    train,
    trained,
)
from headwater.text.recall import RecallTask
from headwater.train.loop import train_steps
from headwater.train.loss import cross_entropy
from headwater.train.module import TransformerModule
from headwater.train.plan import Plan
from headwater.train.predictors import Transformer
from headwater.train.studies import bigram, recall
from headwater.train.studies.pairs import Pairs

ZERO = hw.ModelConfig(vocab=SMALL.vocab, context=SMALL.context, d_model=6, layers=0)
PLACED = replace(ZERO, positions=hw.LearnedPositions())
DEEPER = replace(SMALL, layers=2)
TASK = RecallTask(farthest=8)
RECALLING = Plan(steps=60, batch=32, learning_rate=2e-2, warmup=5)


@checks("001-N1")
def simplest_of_the_family(given: Given) -> Finding:
    """With no layers the forward pass is ``W_U W_E t``; and so it is with two, once neither writes anything."""
    ids, zero, deeper = given.ids()[0], given.drawn(ZERO), given.drawn(DEEPER)
    silent = hw.Chain(*(hw.Zero(deeper.place(f"L{layer}.attention")) for layer in range(DEEPER.layers)))
    left = deeper.record(ids, tap=silent).logits[0]
    return found(
        stated("none", apart(zero.logits(ids)[0], composite(zero.weights)[:, ids].T), within=1e-10),
        stated("silent", apart(left, composite(deeper.weights)[:, ids].T), within=1e-10),
        beside("layers", apart(deeper.logits(ids)[0], left)),
    )


@checks("001-N2")
def one_composite_matrix(given: Given) -> Finding:
    """The logits are the token's column of ``W_U W_E``: only where nothing but the two matrices is there."""
    ids = given.ids()[0]

    def off(config: hw.ModelConfig) -> float:
        model = given.drawn(config)
        return apart(model.logits(ids)[0], composite(model.weights)[:, ids].T)

    return found(
        stated("plain", off(ZERO), within=1e-10),
        outside("positions", off(PLACED), within=1e-10),
        outside("norm", off(replace(ZERO, norm=hw.PreNorm())), within=1e-10),
        outside("bias", off(replace(ZERO, unembedding=hw.Unembedding(bias=True))), within=1e-10),
    )


@checks("001-N3")
def two_matrices_and_their_product(given: Given) -> Finding:
    """What is stored are two matrices, ``2 |V| d`` numbers; the third component is their product."""
    model = given.drawn(ZERO)
    stored = model.weights.tensors().values()
    return found(
        defined("matrices", len(stored), equal=2),
        defined("numbers", sum(tensor.numel() for tensor in stored), equal=2 * ZERO.vocab * ZERO.d_model),
        defined("product", apart(model.direct.dense().T, composite(model.weights)), within=1e-10),
    )


@checks("001-E1")
def entry_by_entry(given: Given) -> Finding:
    """``T[out, in] = Σ_k W_U[out, k] W_E[k, in]``, and the softmax of a column is what the model expects after that token."""
    model = given.drawn(ZERO)
    W_U, W_E, size = model.weights.W_U.T, model.weights.W_E.T, ZERO.vocab
    T = torch.zeros(size, size, dtype=torch.float64)
    for out in range(size):
        for token in range(size):
            T[out, token] = sum(float(W_U[out, k]) * float(W_E[k, token]) for k in range(ZERO.d_model))
    expected = torch.stack([model.logits([token])[0, -1].softmax(dim=0) for token in range(size)], dim=1)
    return found(
        defined("entries", apart(T, model.direct.dense().T), within=1e-10),
        defined("columns", apart(T.softmax(dim=0), expected), within=1e-10),
    )


@checks("001-PC1")
def only_pairs(given: Given) -> Finding:
    """Other tokens change nothing, and the loss of a text can be told from its pairs alone; not so where positions are added."""
    model, windows = given.model("zero-layer"), given.windows("zero-layer", 2)
    text, other = windows[0, :-1], torch.cat([windows[1, :-2], windows[0, -2:-1]])
    zero, placed, ids = given.drawn(ZERO), given.drawn(PLACED), given.ids(length=16)[0]
    nats = -zero.logits(ids[:-1])[0].log_softmax(dim=1)[torch.arange(15), ids[1:]]
    twice = placed.logits([3, 3])[0]
    return found(
        stated("others", apart(model.logits(text)[0, -1], model.logits(other)[0, -1]), within=0.0),
        stated("pairs", bigram.fit(zero.weights, Pairs.of(ids.numpy(), ZERO.vocab)).loss - nats.mean(), within=1e-10),
        outside("positions", apart(twice[0], twice[1]), within=1e-10),
        on=given.name("zero-layer"),
    )


@checks("001-N6")
def for_want_of_movement(given: Given) -> Finding:
    """Heads that look at their own token alone leave the limit where it is; looking at others moves it, and a task shows how far."""
    model, ids = given.drawn(), given.ids()[0]
    other = torch.cat([(ids[:-1] + 1) % SMALL.vocab, ids[-1:]])
    own = torch.eye(len(ids), dtype=torch.float64).expand(1, SMALL.heads, -1, -1)
    still = hw.Patch(model.place("L0.pattern"), own, "each token looks at itself")
    held = [model.record(text, tap=still).logits[0, -1] for text in (ids, other)]
    asked = recall.ask(Transformer(recall.by_hand(TASK), "by hand"), TASK, gap=4, windows=256)
    return found(
        stated("still", apart(*held), within=0.0),
        stated("moving", apart(model.logits(ids)[0, -1], model.logits(other)[0, -1]), above=0.1),
        stated("recall", asked.nats, below=math.log(TASK.keys)),
    )


@checks("001-L1")
def training_finds_the_log_likelihood(given: Given) -> Finding:
    """Wide enough, training ends in ``ln P`` but for a constant for each input; too narrow, or where a pair never occurs, it does not."""
    words, full, narrow = language(), composite(trained(given, WORDS - 1)), composite(trained(given, NARROW))
    rarer = words.without(0.02)

    def still_moving(spoken: Language) -> float:
        half, whole = (composite(train(spoken, WORDS, replace(PLAN, steps=n))) for n in (400, 800))
        return apart(centred(half), centred(whole))

    return found(
        stated("probabilities", apart(full.softmax(dim=0), words.P), within=1e-10),
        stated("centred", apart(centred(full), centred(words.P.log())), within=1e-10),
        stated("settled", still_moving(words), within=1e-2),
        outside("constant", apart(full, words.P.log()), within=1e-2),
        outside("narrow", apart(centred(narrow), centred(words.P.log())), within=1e-2),
        outside("zeros", still_moving(rarer), within=1e-2),
        beside("never", int((rarer.P == 0).sum())),
        beside("excess", words.loss(narrow) - words.entropy),
    )


@checks("001-E2", "001-E4")
def loss_of_a_pair(given: Given) -> Finding:
    """The training loss of one pair is ``−ln softmax(W_U W_E t)``, and its gradient at the logits is ``p − y``."""
    model, first, second = given.drawn(ZERO), 3, 5
    p = (composite(model.weights)[:, first]).softmax(dim=0)
    y = torch.nn.functional.one_hot(torch.tensor(second), ZERO.vocab)
    logits = model.logits([first])[0].requires_grad_()
    cross_entropy(logits, torch.eye(ZERO.vocab, dtype=torch.float64), None, torch.tensor([second])).backward()
    assert logits.grad is not None, "the loss was differentiated"
    loss = TransformerModule(model.weights)(torch.tensor([[first, second]]))
    return found(
        defined("loss", loss.item() + p[second].log(), within=1e-10),
        defined("gradient", apart(logits.grad[0], p - y), within=1e-10),
    )


@checks("001-C1")
def bounded_by_the_pairs(given: Given) -> Finding:
    """No zero-layer model loses less than ``H(X2 | X1)`` on the text whose pairs these are; on another text it may."""
    words, pairs = language(), text_pairs(given, "zero-layer")
    drawn = min(words.loss(composite(given.drawn(replace(ZERO, vocab=WORDS), seed=seed).weights)) for seed in range(50))
    full = composite(trained(given, WORDS - 1))
    likeliest = -float((words.share * full.log_softmax(dim=0).amax(dim=0)).sum())
    return found(
        stated("drawn", drawn, above=words.entropy),
        stated("reached", words.loss(full) - words.entropy, within=1e-10),
        stated("trained", bigram.fit(given.model("zero-layer").weights, pairs).loss, above=pairs.entropy),
        outside("other", likeliest, above=words.entropy),
        on=given.name("zero-layer"),
    )


@checks("001-N4")
def what_is_far_back(given: Given) -> Finding:
    """Trained to repeat a key that stands five words back, a zero-layer model guesses; one layer of attention answers."""
    module = TransformerModule(hw.Weights.draw(recall.transformer(TASK, layers=0, d_model=16), seed=0))
    for _ in train_steps(recall.AnswerModule(module), _recall_windows, RECALLING):
        pass
    zero = recall.ask(Transformer(module.weights(), "no layers"), TASK, gap=4, windows=1024)
    one = recall.ask(Transformer(recall.by_hand(TASK), "one layer"), TASK, gap=4, windows=1024)
    return found(
        stated("chance", (zero.accuracy - 1 / TASK.keys) / zero.accuracy_error, within=3),
        stated("nats", zero.nats + 3 * zero.nats_error, above=math.log(TASK.keys)),
        stated("attention", one.accuracy, above=0.99),
        beside("accuracy", zero.accuracy),
    )


def _recall_windows(step: int) -> Tensor:
    return torch.from_numpy(recall.training_windows(TASK, RECALLING, step))
