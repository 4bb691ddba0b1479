"""Document 003, cost of the soft lookup: what attention takes, counted, and the three roles of a token."""

import torch

from headwater.claims.evidence import Finding, answered, defined, found, outside, stated
from headwater.claims.given import Given
from headwater.claims.registry import checks
from headwater.claims.self_attention.counted import RULE, attention_cost, cost, layer_cost
from headwater.claims.self_attention.one_head import steps_of
from headwater.claims.self_attention.pieces import HEADS, apart, drawn
from headwater.model.attention import blockwise, matrix


@checks("003-QT1")
def soft_and_hard_lookup(given: Given) -> Finding:
    """N questions to N keys, counted, then twice as many: comparisons of a hash table, multiply-adds of a scan and of attention."""
    del given
    N, d = 64, 16
    (few, scan, soft), (few_2, scan_2, soft_2) = (
        (comparisons(n), cost(lambda n=n: drawn(n, d) @ drawn(n, d).T).multiply_adds, attention_cost(n, d).multiply_adds)
        for n in (N, 2 * N)
    )
    return found(
        answered("hash", few / N, equal=1),
        answered("scan", scan / (N * N * d), equal=1),
        answered("attention", soft / (2 * N * N * d), equal=1),
        answered("hash_twice", few_2 / few, equal=2),
        answered("scan_twice", scan_2 / scan, equal=4),
        answered("attention_twice", soft_2 / soft, equal=4),
    )


def comparisons(keys: int) -> int:
    """How many keys a hash table compares to answer one question for each of its keys."""
    compared: list[int] = []

    class Key:
        def __init__(self, number: int) -> None:
            self.number = number

        def __hash__(self) -> int:
            return hash(self.number)

        def __eq__(self, other: object) -> bool:
            compared.append(self.number)
            return isinstance(other, Key) and self.number == other.number

    table = {Key(number): number for number in range(keys)}
    assert all(table[Key(number)] == number for number in range(keys))
    return len(compared)


@checks("003-L3")
def quadratic_cost(given: Given) -> Finding:
    """Counted for N and 2N, d and 2d; with projections where N is far below d; and with a few keys at a time."""
    del given
    N, d, few = 128, 16, 8
    at, longer, wider = attention_cost(N, d), attention_cost(2 * N, d), attention_cost(N, 2 * d)
    q, k, v = drawn(3, 1, 1, N, d)
    blocks = [attention_cost(n, few, blocks=few).largest for n in (N, 2 * N)]
    return found(
        stated("operations", at.multiply_adds / (2 * N * N * d), equal=1),
        stated("longer", longer.multiply_adds / at.multiply_adds, equal=4),
        stated("wider", wider.multiply_adds / at.multiply_adds, equal=2),
        stated("memory", longer.largest / at.largest, equal=4),
        stated("same", apart(blockwise(q, k, v, RULE, size=few), matrix(q, k, v, RULE)), within=1e-10),
        outside("blocks", blocks[1] / blocks[0], equal=4),
        outside("projections", layer_cost(N // 8, N).multiply_adds / (2 * (N // 8) ** 2 * N), below=2),
    )


@checks("003-LC1")
def bottleneck(given: Given) -> Finding:
    """The share of scores and mixing in all multiply-adds of a layer, N/(N + 2d), counted for a long text and for a short one."""
    del given
    d = 32
    long, short = (attention_cost(n, d).multiply_adds / layer_cost(n, d).multiply_adds for n in (16 * d, d))
    return found(
        stated("long", long, above=0.5),
        stated("formula", long - 16 / (16 + 2), within=1e-10),
        outside("short", short, above=0.5),
    )


@checks("003-N14")
def three_roles(given: Given) -> Finding:
    """Another token at one position: its row of scores changes (query), its column (key) and its value, and nothing else does."""
    model, ids, at = given.drawn(HEADS), given.ids(HEADS), 4
    other = ids.clone()
    other[0, at] = (ids[0, at] + 1) % HEADS.vocab
    before, after = steps_of(model, ids), steps_of(model, other)
    changed = (before.scores - after.scores).abs()
    away = torch.arange(len(changed)) != at
    return found(
        defined("query", changed[at, away].min(), above=1e-6),
        defined("key", changed[away, at].min(), above=1e-6),
        defined("value", apart(before.v[at], after.v[at]), above=1e-6),
        defined("scores", changed[away][:, away].max(), within=1e-12),
        defined("values", apart(before.v[away], after.v[away]), within=1e-12),
    )
