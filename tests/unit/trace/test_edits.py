"""Places as people write them, edits as values, what does not fit, and what edits find out about a model that is known."""

import pytest
import torch

import headwater as hw
from headwater.errors import InputError
from headwater.model.config import Attention, FeedForward, ModelConfig, PostNorm
from headwater.model.record import record
from headwater.model.taps import Chain
from headwater.trace.edits import Freeze, Mean, Patch, Remove, Scale, Steer, Zero, ablate, every_ablation, resample
from headwater.trace.effects import effect, effects, loss_effects
from headwater.trace.places import every_write, find_place, read_positions
from strategies import random_weights

CONFIG = ModelConfig(
    vocab=11,
    context=8,
    d_model=6,
    layers=2,
    attention=Attention(heads=4, d_head=3, group_size=2),
    feed_forward=FeedForward(d_mlp=5),
)
PLAIN = ModelConfig(vocab=11, context=8, d_model=6, layers=1, attention=Attention(heads=4, d_head=3))
WEIGHTS = random_weights(CONFIG, 3)
TOKENS = torch.tensor([[1, 5, 2, 8, 5]])
RUN = record(WEIGHTS, TOKENS)


def place(name):
    return find_place(name, CONFIG)


@pytest.mark.parametrize(
    ("written", "site", "unit", "positions", "printed"),
    [
        ("L1H3", "L1.head_writes", 3, None, "L1H3"),
        ("l1h3", "L1.head_writes", 3, None, "L1H3"),
        ("L1H3.pattern", "L1.pattern", 3, None, "L1H3.pattern"),
        ("L1H3.queries@2", "L1.queries", 3, (2,), "L1H3.queries@2"),
        ("L0K1.values", "L0.values", 1, None, "L0K1.values"),
        ("L0K1", "L0.keys", 1, None, "L0K1.keys"),
        ("L0N4", "L0.neurons", 4, None, "L0N4"),
        ("L0N4.hidden", "L0.hidden", 4, None, "L0N4.hidden"),
        ("L0.feed_forward", "L0.feed_forward", None, None, "L0.feed_forward"),
        ("embed@0,2-3,-1", "embed", None, (0, 2, 3, -1), "embed@0,2,3,-1"),
        ("L0.t3", "L0.middle", None, None, "L0.middle"),
    ],
)
def test_a_place_is_found_by_name_and_prints_as_one(written, site, unit, positions, printed):
    found = place(written)
    assert (found.site, found.unit, found.positions, str(found)) == (site, unit, positions, printed)
    assert place(str(found)) == found
    assert find_place(found, CONFIG) is found


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("L1H9", "heads from L0H0 to L1H3"),
        ("L7H0", "heads from L0H0 to L1H3"),
        ("L7N0", "use L0 to L1"),
        ("L0N5", "numbers from 0 to 4"),
        ("L0K2.keys", "numbers from 0 to 1"),
        ("L0H1.keys", "L0H0 and L0H1 share them; write L0K0.keys"),
        ("L0H1.patern", "did you mean pattern?"),
        ("L0H1.feed_forward", "one entry for each head"),
        ("L0N1.out", "one entry for each d mlp"),
        ("L0.heads", "did you mean"),
        ("", "a site of this model"),
        ("L1H1@", "count tokens from 0"),
        ("L1H1@5-3", "count tokens from 0"),
    ],
)
def test_what_is_no_place_is_refused_with_advice(written, said):
    with pytest.raises(InputError) as refused:
        place(written)
    assert said in str(refused.value)


def test_a_head_with_a_key_of_its_own_is_asked_for_by_its_name():
    assert str(find_place("L0H3.keys", PLAIN)) == "L0H3.keys"
    assert find_place("L0H3.keys", PLAIN) == find_place("L0K3.keys", PLAIN)


def test_there_is_no_neuron_where_there_is_no_feed_forward_layer():
    with pytest.raises(InputError, match="none has a feed-forward layer"):
        find_place("L0N0", PLAIN)


def test_letters_mean_what_they_mean_in_each_kind_of_model():
    post = ModelConfig(vocab=5, context=4, d_model=4, layers=1, attention=Attention(heads=1, d_head=2), norm=PostNorm())
    assert find_place("L0.t2", post).site == "L0.middle"


def test_all_writes_come_layer_by_layer():
    names = [str(one) for one in every_write(CONFIG)]
    assert names == [
        *("L0H0", "L0H1", "L0H2", "L0H3", "L0.feed_forward"),
        *("L1H0", "L1H1", "L1H2", "L1H3", "L1.feed_forward"),
    ]


@pytest.mark.parametrize("text", ["", "a", "1,,2", "1-", "--1", "-3-2", "7-4", "1.5", "²"])
def test_positions_that_are_none_are_refused(text):
    with pytest.raises(InputError):
        read_positions(text)


def test_equal_edits_are_equal_and_others_are_not():
    direction = torch.ones(6)
    assert Zero(place("L0H1")) == Zero(place("L0H1"))
    assert Zero(place("L0H1")) != Zero(place("L0H2"))
    assert Zero(place("L0H1")) != Scale(place("L0H1"), 0.0)
    assert Scale(place("L0H1"), 2.0) != Scale(place("L0H1"), 3.0)
    assert Steer(place("L0.out"), direction) == Steer(place("L0.out"), direction.clone())
    assert Steer(place("L0.out"), direction) != Steer(place("L0.out"), 2 * direction)
    assert resample(place("embed"), RUN, seed=4) == resample(place("embed"), RUN, seed=4)
    assert resample(place("embed"), RUN, seed=4) != resample(place("embed"), RUN, seed=5)
    assert len({Zero(place("L0H1")), Zero(place("L0H1")), Zero(place("L0H2"))}) == 2
    assert Freeze(RUN) == Freeze(RUN)


def test_edits_say_what_they_are():
    edits = [Zero(place("L0H1@2")), Scale(place("embed"), 2.0), Mean.of(place("L0H1"), RUN), Freeze(RUN, ("pattern",))]
    assert [repr(edit) for edit in edits] == [
        "Zero(L0H1@2)",
        "Scale(embed, 2)",
        "Mean(L0H1, 1×1×1×6 numbers, the mean of 5)",
        "Freeze(pattern of 5 tokens)",
    ]
    assert repr(Chain(*edits[:2])) == "Chain(Zero(L0H1@2), Scale(embed, 2))"


def test_a_mean_is_that_of_all_positions_of_all_runs():
    other = record(WEIGHTS, torch.tensor([[3, 3, 7], [1, 2, 9]]))
    edited = record(WEIGHTS, TOKENS, tap=Mean.of(place("L0H1@1,3"), RUN, other))["L0.head_writes"]
    vectors = [*RUN["L0.head_writes"][0, 1], *other["L0.head_writes"][:, 1].flatten(0, 1)]
    mean = sum(vectors) / len(vectors)
    assert torch.allclose(edited[0, 1, [1, 3]], mean.expand(2, -1))
    assert torch.equal(edited[0, 1, [0, 2, 4]], RUN["L0.head_writes"][0, 1, [0, 2, 4]])


def test_a_mean_pattern_is_that_of_several_texts_of_one_length():
    texts = record(WEIGHTS, torch.tensor([[1, 5, 2, 8, 5], [4, 4, 1, 0, 2]]))
    edited = record(WEIGHTS, TOKENS, tap=Mean.of(place("L0H1.pattern"), texts))["L0.pattern"]
    assert torch.allclose(edited[0, 1], texts["L0.pattern"][:, 1].mean(dim=0))
    for runs in ([RUN], [RUN, record(WEIGHTS, TOKENS[:, :3])]):
        with pytest.raises(InputError, match="several texts of one length"):
            Mean.of(place("L0H1.pattern"), *runs)
    with pytest.raises(InputError, match="no runs"):
        Mean.of(place("L0H1"))


def test_resampled_values_are_those_of_other_positions():
    edited = record(WEIGHTS, TOKENS, tap=resample(place("L0.attention"), RUN, seed=1))["L0.attention"][0]
    before = RUN["L0.attention"][0]
    for position, value in enumerate(edited):
        found = [source for source, vector in enumerate(before) if torch.allclose(vector, value)]
        assert found, position
        assert found != [position]


def test_values_resampled_from_other_texts_are_theirs():
    texts = record(WEIGHTS, torch.tensor([[9, 9, 9], [0, 3, 6]]))
    edited = record(WEIGHTS, TOKENS, tap=resample(place("embed"), RUN, texts))["embed"][0]
    rows = WEIGHTS.W_E[[9, 0, 3, 6]]
    assert all(bool((rows == vector).all(dim=-1).any()) for vector in edited)
    with pytest.raises(InputError, match="other texts of 5 tokens"):
        resample(place("L0.pattern"), RUN, texts)
    with pytest.raises(InputError, match="one token"):
        resample(place("embed"), record(WEIGHTS, TOKENS[:, :1]))


def test_positions_may_be_mapped_from_a_text_of_another_length():
    other = record(WEIGHTS, torch.tensor([[7, 6]]))
    edited = record(WEIGHTS, TOKENS, tap=Patch.of(place("embed@0,-1"), other, source=[1, 0]))["embed"][0]
    assert torch.equal(edited, WEIGHTS.W_E[[6, 5, 2, 8, 7]])


def test_what_does_not_fit_is_refused():
    other = record(WEIGHTS, torch.tensor([[7]]))
    with pytest.raises(InputError, match="texts of the same length"):
        record(WEIGHTS, TOKENS, tap=Patch.of(place("embed"), other))
    with pytest.raises(InputError, match="texts of the same length"):
        record(WEIGHTS, TOKENS, tap=Freeze(other))
    with pytest.raises(InputError, match="one for each"):
        Patch.of(place("embed@0,1"), other, source=[0])
    with pytest.raises(InputError, match="one for each"):
        Patch.of(place("embed"), other, source=[0])
    with pytest.raises(InputError, match="from 0 to 4"):
        record(WEIGHTS, TOKENS, tap=Zero(place("embed@5")))
    with pytest.raises(InputError, match="did you mean pattern"):
        Freeze(RUN, ("patern",))
    with pytest.raises(InputError, match="no ablation is called 'mena'"):
        ablate(place("embed"), RUN, "mena")
    with pytest.raises(InputError, match="factor nan"):
        Scale(place("embed"), float("nan"))


@pytest.mark.parametrize("where", ["L0.pattern", "L0.scores", "L0N1"])
def test_directions_are_those_of_vectors(where):
    with pytest.raises(InputError, match="a place with vectors"):
        Steer(place(where), torch.ones(5))


def test_directions_that_are_none_are_refused():
    with pytest.raises(InputError, match="one of 6"):
        record(WEIGHTS, TOKENS, tap=Steer(place("embed"), torch.ones(5)))
    with pytest.raises(InputError, match="zeros"):
        Remove(place("embed"), torch.zeros(6))
    with pytest.raises(InputError, match="no numbers"):
        Steer(place("embed"), torch.full((6,), float("inf")))


def test_scores_that_the_mask_forbids_stay_forbidden():
    edited = record(WEIGHTS, TOKENS, tap=Zero(place("L0.scores")))["L0.pattern"]
    assert torch.allclose(edited[0, 0, 2], torch.tensor([1 / 3, 1 / 3, 1 / 3, 0, 0], dtype=torch.float64))


def test_an_edit_changes_no_record_that_is_there_already():
    before = {site: RUN[site].clone() for site in ("embed", "L0.in", "L0.attention", "final")}
    effects(RUN, -1, 2, edits=every_ablation(RUN, at=[1])[:2])
    assert all(torch.equal(RUN[site], value) for site, value in before.items())


def test_an_effect_counts_on_top_of_what_intervened_already():
    first, second = Zero(place("L0H1")), Zero(place("L1H2"))
    run = record(WEIGHTS, TOKENS, tap=first)
    found = effect(run, second, -1, 4)
    both = record(WEIGHTS, TOKENS, tap=Chain(first, second)).logits[0, -1, 4]
    assert found.unfrozen.answer == pytest.approx(float(both))
    assert found.frozen_change == pytest.approx(-found.part)
    assert found.before.answer == pytest.approx(float(run.logits[0, -1, 4]))


def test_effects_of_several_edits_together_have_names_and_no_part():
    found = effect(RUN, Chain(Zero(place("L0H1")), Zero(place("L1N2"))), -1, 4)
    assert found.name == "L0H1 L1N2"
    assert found.part is None
    assert found.certificate is None
    assert found.plain()["edit"] == "Chain(Zero(L0H1), Zero(L1N2))"


def test_progress_is_told():
    told = []
    effects(RUN, -1, 0, edits=every_ablation(RUN)[:4], progress=lambda what, share: told.append(share))
    assert told == [0.0, 0.25, 0.5, 0.75]


@pytest.fixture(scope="module")
def repeated():
    """Random tokens, twice, in the model that has an induction head."""
    half = torch.randint(300, 2048, (20,), generator=torch.Generator().manual_seed(1))
    return hw.load("two-layer").record(torch.cat([half, half])[None])


def test_without_its_induction_head_a_model_does_not_know_what_came_after_last_time(repeated):
    token = int(repeated.tokens[0, 31])
    found = {one.name: one for one in effects(repeated, 30, token)}
    assert max(found.values(), key=lambda one: one.part).name == "L1H1"
    assert min((one for one in found.values() if one.name.startswith("L1")), key=lambda one: one.change).name == "L1H1"
    assert found["L1H1"].before.probability > 0.9
    assert found["L1H1"].unfrozen.probability < 0.1


def test_what_the_induction_head_looks_for_shows_only_where_patterns_are_not_frozen(repeated):
    previous = find_place("L0H2", repeated.config)
    found = effect(repeated, Zero(previous), 30, int(repeated.tokens[0, 31]))
    assert found.change < 5 * found.frozen_change < 0


def test_the_loss_on_repeated_tokens_rises_most_without_the_head_before_the_induction_head(repeated):
    found = loss_effects(repeated)
    assert max(found, key=lambda one: one.change).name == "L0H2"


def test_a_position_that_is_named_twice_is_zeroed_once():
    for name in ("embed@4,-1", "L0H1@2,2"):
        found = effect(RUN, Zero(place(name)), -1, 3)
        assert found.certificate < 1e-12
        assert abs(found.part) > 1e-3


@pytest.mark.parametrize("name", ["L1H0", "L0.neurons", "logits"])
def test_no_part_is_told_of_what_meets_an_edit_on_its_way(name):
    """A sweep would pass through what the edit changed as if it had not."""
    found = effect(record(WEIGHTS, TOKENS, tap=Scale(place(name), 0.5)), Zero(place("L0H1")), -1, 3)
    assert found.part is None
    assert found.certificate is None
    assert abs(found.frozen_change) > 1e-6


@pytest.mark.parametrize("name", ["embed", "L0H1", "L0H2", "L1H0.pattern", "L1H0.queries"])
def test_edits_before_a_write_and_in_what_is_held_fixed_leave_its_part(name):
    found = effect(record(WEIGHTS, TOKENS, tap=Scale(place(name), 0.5)), Zero(place("L0H1")), -1, 3)
    assert found.certificate is not None
    assert found.certificate < 1e-12
