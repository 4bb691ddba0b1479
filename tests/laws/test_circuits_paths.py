"""Paths of random attention-only models without norms: what they carry adds up to what the forward pass says, in float64."""

from dataclasses import replace

import torch
from hypothesis import given
from hypothesis import strategies as st

from headwater.circuits.capacity import adjustments, bigram_ranks
from headwater.circuits.head import every_head
from headwater.circuits.paths import by_order, circuit, contribution, count, find_path, origins, paths
from headwater.model.config import ModelConfig, NoNorm
from headwater.model.forward import forward
from headwater.model.record import record
from headwater.model.taps import Tap
from strategies import configs, models, random_tokens, random_weights, seeds


def heads_alone(config: ModelConfig) -> ModelConfig:
    """Without feed-forward layers, and with few enough heads for all paths to be listed."""
    attention = config.attention
    if attention and config.layers == 3 and attention.heads > 3:
        attention = replace(attention, heads=attention.group_size)
    return replace(config, feed_forward=None, attention=attention)


linear_configs = configs(norm=st.just(NoNorm())).map(heads_alone)
linear_models = st.tuples(linear_configs, seeds)


def run_of(config, seed):
    weights, tokens = random_weights(config, seed), random_tokens(config, seed)
    run = record(weights, tokens)
    return weights, tokens, run.logits, [run[f"L{layer}.pattern"] for layer in range(config.layers)]


def every_path(config, **choices):
    return [path for origin in origins(config) for path in paths(config, origin=origin, **choices)]


def near(a, b):
    return a.shape == b.shape and float((a - b).abs().max()) <= 1e-10 * max(1.0, float(b.abs().max()))


@given(linear_models)
def test_all_paths_add_up_to_the_logits_and_those_of_one_order_to_its_part(model):
    weights, tokens, logits, patterns = run_of(*model)
    parts = torch.zeros(weights.config.layers + 1, *logits.shape, dtype=torch.float64)
    for path in every_path(weights.config):
        parts[path.order] += contribution(weights, path, patterns, tokens)
    assert near(parts.sum(dim=0), logits)
    assert near(parts, by_order(weights, patterns, tokens))


@given(models(norm=st.just(NoNorm())))
def test_orders_add_up_to_the_forward_pass(model):
    model = replace(model, config=replace(model.config, feed_forward=None))
    weights, tokens = model
    run = record(weights, tokens)
    patterns = [run[f"L{layer}.pattern"] for layer in range(weights.config.layers)]
    assert near(by_order(weights, patterns, tokens).sum(dim=0), forward(weights, tokens))


@given(linear_models, st.data())
def test_a_contribution_is_the_rows_of_its_circuit_moved_from_source_to_dest(model, data):
    weights, tokens, _, patterns = run_of(*model)
    path = data.draw(st.sampled_from(every_path(weights.config)))
    table = circuit(weights, path).dense()
    measured = contribution(weights, path, patterns, tokens)
    for text in range(len(tokens)):
        # By hand: from each dest back to each source, one head after the other, the last head first.
        moved = torch.eye(tokens.shape[1], dtype=torch.float64)
        for head in reversed(path.heads):
            moved = moved @ patterns[head.layer][text, head.head]
        ids = {"embed": tokens[text], "positions": range(tokens.shape[1])}.get(path.origin, [0] * tokens.shape[1])
        expected = sum(moved[:, source, None] * table[int(row)] for source, row in enumerate(ids))
        assert near(measured[text], expected)


@given(linear_models, st.data())
def test_the_circuit_of_a_path_is_the_product_of_its_heads_in_order(model, data):
    weights = random_weights(*model)
    path = data.draw(st.sampled_from(list(paths(weights.config))))
    expected = weights.W_E
    for head in path.heads:
        block = weights.blocks[head.layer].attention
        group = weights.config.attention.group_size
        expected = expected @ block.W_V[head.head // group] @ block.W_O[head.head]
    found = circuit(weights, path)
    assert near(found.dense(), expected @ weights.W_U)
    assert found.inner <= (weights.config.d_head if path.heads else weights.config.d_model)


class Without(Tap):
    """Patterns as they were, and one head that writes nothing."""

    def __init__(self, patterns, head):
        self.patterns, self.head = patterns, head

    def wants(self, site):
        return site.endswith(".pattern") or site == f"L{self.head.layer}.head_writes"

    def __call__(self, site, value):
        if site.endswith(".pattern"):
            return self.patterns[int(site[1:].split(".")[0])]
        kept = torch.ones(value.shape[1], dtype=value.dtype)
        kept[self.head.head] = 0
        return value * kept[:, None, None]


@given(linear_models.filter(lambda model: model[0].layers), st.data())
def test_the_paths_through_a_head_are_what_is_missing_when_it_writes_nothing(model, data):
    weights, tokens, logits, patterns = run_of(*model)
    head = data.draw(st.sampled_from(every_head(weights.config)))
    through = [contribution(weights, path, patterns, tokens) for path in every_path(weights.config, through=[head])]
    assert near(sum(through), logits - forward(weights, tokens, Without(patterns, head)))


@given(configs().map(heads_alone), st.data())
def test_counts_are_those_of_the_list(config, data):
    origin = data.draw(st.sampled_from(origins(config)))
    through = data.draw(st.lists(st.sampled_from(every_head(config)), max_size=2)) if config.layers else []
    listed, counted = list(paths(config, origin=origin, through=through)), count(config, origin=origin, through=through)
    assert len(set(listed)) == len(listed) == counted.total
    assert [path.order for path in listed] == sorted(path.order for path in listed)
    assert set(listed) == {path for path in paths(config, origin=origin) if all(head in path.heads for head in through)}
    for order, number in enumerate(counted.by_order):
        assert len(list(paths(config, origin=origin, order=order, through=through))) == number
        assert sum(path.order == order for path in listed) == number
    for layer, number in enumerate(counted.by_layer):
        assert sum(any(head.layer == layer for head in path.heads) for path in listed) == number
    assert counted.by_head == {head: sum(head in path.heads for path in listed) for head in every_head(config)}


@given(linear_configs, st.data())
def test_a_path_is_found_again_by_what_it_prints(config, data):
    path = data.draw(st.sampled_from(every_path(config)))
    assert find_path(str(path), config) == path
    assert find_path(str(path).replace("→", "->"), config) == path
    if path.origin == "embed" and path.heads:
        assert find_path(" ".join(map(str, path.heads)), config) == path


@given(linear_configs.filter(lambda config: config.layers), seeds)
def test_no_text_adjusts_logits_in_more_directions_than_the_weights_allow(config, seed):
    config = replace(config, unembedding=replace(config.unembedding, bias=False))
    weights = random_weights(config, seed)
    # Texts enough for every dimension that there is.
    tokens = random_tokens(config, seed, batch=3 * config.d_model, length=2)
    run = record(weights, tokens)
    found = adjustments(weights)
    writes = sum(run[f"L{layer}.head_writes"].sum(dim=1) for layer in range(config.layers)) @ weights.W_U
    writes = writes.flatten(0, 1)
    for moved, rank in ((writes, found.logits), (writes - writes.mean(dim=1, keepdim=True), found.probabilities)):
        assert int(torch.linalg.matrix_rank(moved, rtol=1e-9)) <= rank.measured <= rank.bound


@given(configs(layers=st.just(0), norm=st.just(NoNorm())), seeds)
def test_the_ranks_of_a_zero_layer_model_are_those_of_its_dense_tables(config, seed):
    weights = random_weights(config, seed)
    found = bigram_ranks(weights)
    logits = weights.W_E @ weights.W_U + (0 if weights.b_U is None else weights.b_U)
    log_p = logits.log_softmax(dim=1)
    tables = {
        "embedding": weights.W_E,
        "unembedding": weights.W_U,
        "logits": logits,
        "centred": log_p - log_p.mean(dim=1, keepdim=True),
        "log_probabilities": log_p,
    }
    for name, table in tables.items():
        rank = getattr(found, name)
        assert int(torch.linalg.matrix_rank(table, rtol=1e-11)) == rank.measured <= rank.bound, name
    assert found.probabilities.measured <= found.probabilities.bound == config.vocab
