"""Laws of lift: the strongest skip-trigrams are those that looking at all vocab³ of them would find, to the last bit, ties included."""

import math
from dataclasses import dataclass
from itertools import chain
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.atlas import lift
from headwater.atlas.lift import Looking, Speaking, best_of_each, strongest
from headwater.atlas.subject import Subject
from headwater.circuits.factored import Factored

KINDS = ["drawn", "rounded", "two rows", "zero", "large", "tiny", "one row large"]


def factors(kind, lines, inner, draw, dtype):
    """One side of a matrix; most kinds are there for their ties."""
    drawn = torch.randn(lines, inner, generator=draw, dtype=torch.float64)
    match kind:
        case "rounded":
            drawn = drawn.round()
        case "two rows":
            drawn = drawn[:2][torch.randint(min(lines, 2), (lines,), generator=draw)]
        case "zero":
            drawn = torch.zeros_like(drawn)
        case "large":
            drawn = 500 * drawn.sign()
        case "tiny":
            # Products of two are still normal numbers: below those, where digits end, a listed value may be half a digit off.
            drawn = drawn * 1e-145
        case "one row large":
            drawn[0] *= 40
    return drawn.to(dtype)


@dataclass(frozen=True)
class Case:
    """A head of a small vocabulary; made here and not while drawing, so that a failure prints what it was drawn from."""

    vocab: int
    inner: int
    kinds: tuple[str, str, str, str]
    seed: int
    others: int = 7
    is_narrow: bool = False

    def head(self, k, sign=1):
        draw, dtype = torch.Generator().manual_seed(self.seed), torch.float32 if self.is_narrow else torch.float64
        dest, source, ours, outs = (factors(kind, self.vocab, self.inner, draw, dtype) for kind in self.kinds)
        scores, outputs = Factored(dest, source.T), Factored(sign * ours, outs.T).centred_rows()
        # Only a source that the text never has can have all attention: others weigh in the mass what they weigh themselves.
        shares = torch.rand(self.vocab, generator=draw, dtype=torch.float64).sub(0.3).clamp(min=0)
        shares[0] = 0.5
        looking = Looking(scores, Subject.rounded(scores.logsumexp(shares / shares.sum())), self.others)
        k = min(k, self.vocab)
        return Speaking(looking, outputs, looking.leads.top_rows(k), outputs.top_rows(k))


@st.composite
def cases(draw):
    kinds = tuple(draw(st.sampled_from(KINDS)) for _ in range(4))
    others = draw(st.sampled_from([1, 7, 1023]))
    seed = draw(st.integers(0, 2**32 - 1))
    return Case(draw(st.integers(1, 9)), draw(st.integers(1, 4)), kinds, seed, others, draw(st.booleans()))


def entries(left, right):
    """The definition: in float64, one product after the other."""
    rows, columns = left.double().tolist(), right.T.double().tolist()
    total = np.zeros((len(rows), len(columns)))
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            for x, y in zip(row, column, strict=True):
                total[i, j] += x * y
    return total


def every_triple(head):
    """All that raise, in their order: ``(source, dest, out, lead, output, attention, lift)``."""
    looking = head.looking
    leads = (entries(looking.scores.left, looking.scores.right) - looking.mass.numpy()[:, None]).T
    with np.errstate(over="ignore"):
        attentions = 1 / (1 + np.exp(math.log(looking.others) - leads))
    rows = [
        (a, b, c, lead, output, attention, attention * output)
        for a, outputs in enumerate(entries(head.outputs.left, head.outputs.right).tolist())
        for b, (lead, attention) in enumerate(zip(leads[a].tolist(), attentions[a].tolist(), strict=True))
        for c, output in enumerate(outputs)
        if attention * output > 0
    ]
    return sorted(rows, key=lambda row: (-row[6], row[0], -row[3], -row[4], row[1], row[2]))


def told(found):
    columns = (found.source, found.dest, found.out, found.lead, found.output, found.attention, found.lift)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@given(cases(), st.integers(1, 9), st.integers(1, 800), st.sampled_from([1, 2, 64]))
@example(Case(1, 1, ("drawn",) * 4, 0), 1, 1, 64)
@example(Case(6, 2, ("zero", "drawn", "drawn", "drawn"), 0), 2, 30, 1)
@example(Case(6, 2, ("zero",) * 4, 0), 2, 30, 1)
@example(Case(8, 1, ("large",) * 4, 1, 1), 1, 60, 1)
@example(Case(8, 2, ("rounded",) * 4, 1), 1, 8**3, 2)
# Triples that the lists do not hold and that are just as strong as the last one: told apart by their source.
@example(Case(6, 2, ("two rows", "zero", "two rows", "two rows"), 940), 2, 23, 1)
@example(Case(3, 1, ("zero", "two rows", "two rows", "rounded"), 487), 1, 2, 1)
# All attention from several dests: told apart by their lead.
@example(Case(3, 2, ("one row large", "large", "rounded", "rounded"), 635, 1), 2, 5, 1)
def test_the_strongest_are_those_of_all_triples_in_their_order_to_the_last_bit(case, k, count, at_once):
    """Rounded numbers, equal rows, saturated attention, lists as short as one entry, more asked for than there are."""
    for sign in (1, -1):
        head = case.head(k, sign)
        with patch.object(lift, "SOURCES", at_once), patch.object(lift, "AT_ONCE", 2 * at_once):
            assert told(strongest(head, count)) == every_triple(head)[:count]


@given(cases(), st.integers(1, 9), st.data())
def test_the_best_of_every_source_are_those_of_all_its_triples(case, k, data):
    head, each = case.head(k), data.draw(st.integers(1, k))
    expected = [[row for row in every_triple(head) if row[0] == source][:each] for source in range(case.vocab)]
    assert told(head.listed().best_of_each(each)) == [*chain(*expected)]


@given(cases(), st.integers(1, 9), st.sampled_from(["source", "dest", "out"]), st.randoms(use_true_random=False))
def test_the_best_of_every_line_are_the_first_of_it_whatever_order_they_come_in(case, count, line, lots):
    head = case.head(case.vocab)
    everything, place = every_triple(head), ("source", "dest", "out").index(line)
    triples = strongest(head, case.vocab**3)
    order = list(range(len(triples)))
    lots.shuffle(order)
    shuffled = triples.some(torch.tensor(order, dtype=torch.long))
    expected = [[row for row in everything if row[place] == each][:count] for each in range(case.vocab)]
    assert told(best_of_each(shuffled, getattr(shuffled, line), count)) == [*chain(*expected)]


@given(cases(), st.integers(1, 9))
def test_nothing_that_the_lists_leave_out_is_above_what_they_say(case, k):
    head = case.head(k)
    dests, outs, beyond = head.dests.ids.tolist(), head.outs.ids.tolist(), head.beyond.tolist()
    for source, dest, out, *_, size in every_triple(head):
        if not (dest in dests[source] and out in outs[source]):
            assert size <= beyond[source]


@given(cases(), st.integers(1, 4), st.integers(1, 50))
def test_what_raises_one_output_lowers_the_same_of_the_negated_circuit(case, k, count):
    raising, lowering = case.head(k), case.head(k, -1)
    turned = Speaking(
        raising.looking,
        -raising.outputs,
        raising.dests,
        (-raising.outputs).top_rows(k),
    )
    assert told(strongest(lowering, count)) == told(strongest(turned, count))


@given(cases(), st.lists(st.floats(-800, 800), min_size=1, max_size=40), st.integers(1, 5))
def test_attention_has_the_same_bits_wherever_a_lead_stands_and_never_falls_as_leads_rise(case, leads, start):
    looking, leads = case.head(1).looking, torch.tensor(sorted(leads), dtype=torch.float64)
    found = looking.attention(leads)
    assert bool((found.diff() >= 0).all())
    assert bool(((found >= 0) & (found <= 1)).all())
    for place, lead in enumerate(leads):
        assert float(looking.attention(lead[None])) == float(found[place])
    assert torch.equal(looking.attention(leads[start:]), found[start:])
    assert torch.equal(looking.attention(leads.repeat(2, 1).T)[:, 1], found)


def test_attention_is_a_softmax_against_that_many_tokens_of_average_weight():
    """n copies of a token that weighs what the mass says, and the source."""
    looking = Case(3, 2, ("drawn",) * 4, 0, others=5).head(3).looking
    for source in range(3):
        for dest in range(3):
            score = torch.tensor([looking.scores[dest, source]] + 5 * [float(looking.mass[dest])], dtype=torch.float64)
            lead = looking.leads[source, dest]
            assert float(looking.attention(torch.tensor([lead], dtype=torch.float64))) == pytest.approx(
                float(score.softmax(0)[0])
            )
