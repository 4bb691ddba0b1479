"""Laws of circuits: they add up to what the forward pass computes, and what happens inside a head does not show."""

from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from headwater.circuits.bases import Reader
from headwater.circuits.head import every_head
from headwater.circuits.norms import mean_scales, norms_between, passage
from headwater.circuits.tables import direct, ov, qk
from headwater.errors import InputError
from headwater.model.config import (
    LayerNorm,
    LearnedPositions,
    NoNorm,
    NoPositions,
    PostNorm,
    PreNorm,
    RotaryPositions,
    SinusoidalPositions,
)
from headwater.model.record import record
from strategies import configs, models, norms, random_tokens, random_weights, seeds

NO_NORM = st.just(NoNorm())
ANY_NORM = st.one_of(NO_NORM, st.builds(PreNorm, norm=norms), st.builds(PostNorm, norm=norms))
ONE, MANY = st.just(1), st.integers(1, 3)


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def has_vectors(config, into=("stream", "queries-and-keys")):
    return isinstance(config.positions, LearnedPositions | SinusoidalPositions) and config.positions.into in into


def lines_of(matrix, kind, text):
    """The row of each position of a text: its token's, its own, or all biases together."""
    match kind:
        case "tokens":
            return matrix[text]
        case "positions":
            return matrix[: len(text)]
        case "biases":
            return matrix.sum(dim=0, keepdim=True).expand(len(text), -1)


def there(circuit, *arguments, **options):
    """The circuit, multiplied out, or nothing where the model has no such biases."""
    try:
        return circuit(*arguments, **options).dense()
    except InputError as refusal:
        if refusal.given.startswith("biases that"):
            return None
        raise


def score_table(weights, head, text, **options):
    """Every score circuit of a head at every pair of a text's positions, added up."""
    config = weights.config
    kinds = ["tokens", *(["positions"] if has_vectors(config) else []), "biases"]
    total = torch.zeros(len(text), len(text), dtype=torch.float64)
    for dest in kinds:
        for source in kinds:
            if (matrix := there(qk, weights, head, dest=dest, source=source, **options)) is not None:
                total += lines_of(lines_of(matrix, dest, text).T, source, text).T
    return total


def score_sums(weights, head, text, **options):
    """The same, with every pair at its own offset where positions are rotary."""
    if not isinstance(weights.config.positions, RotaryPositions):
        return score_table(weights, head, text, **options)
    place = torch.arange(len(text))
    apart, full = place[:, None] - place, weights.config.attention.mask == "full"
    total = torch.zeros(len(text), len(text), dtype=torch.float64)
    for offset in range(-len(text) + 1 if full else 0, len(text)):
        total += torch.where(apart == offset, score_table(weights, head, text, offset=offset, **options), 0)
    return total


def logit_sums(weights, run, index, **options):
    """Direct path, heads under the run's patterns, and biases, of the first layer."""
    config, text = weights.config, run.tokens[index]
    total = lines_of(direct(weights, **options).dense(), "tokens", text)
    in_stream = has_vectors(config, ["stream"])
    if in_stream:
        total = total + lines_of(direct(weights, source="positions", **options).dense(), "positions", text)
    if (biases := there(direct, weights, source="biases", **options)) is not None:
        total = total + lines_of(biases, "biases", text)
    for head in every_head(config):
        pattern = run["L0.pattern"][index, head.head]
        total = total + pattern @ lines_of(ov(weights, head, **options).dense(), "tokens", text)
        if in_stream:
            total = total + pattern @ lines_of(ov(weights, head, source="positions", **options).dense(), "positions", text)
    return total


def assert_scores(weights, run, layer=0, **options):
    for index, text in enumerate(run.tokens):
        for head in every_head(weights.config):
            if head.layer == layer:
                scores = run[f"L{layer}.scores"][index, head.head]
                close(score_sums(weights, head, text, **options).masked_fill(scores.isinf(), float("-inf")), scores)


@given(models(layers=MANY, norm=ANY_NORM))
def test_scores_of_layer_0_are_exactly_the_sum_of_its_circuits(member):
    """Only positions in the stream of a pre-norm model spoil it: there the scale belongs to token and position together."""
    weights, tokens = member
    assume(not (isinstance(weights.config.norm, PreNorm) and has_vectors(weights.config, ["stream"])))
    assert_scores(weights, record(weights, tokens[:1, :4], ["L0.scores"]), scales="exact")


@given(models(layers=ONE, norm=NO_NORM))
def test_logits_of_one_layer_are_direct_path_heads_and_biases(member):
    weights, tokens = member
    weights = without_feed_forward(weights.config, member.seed)
    run = record(weights, tokens, ["L0.pattern"])
    for index in range(len(tokens)):
        close(logit_sums(weights, run, index, scales="exact"), run.logits[index])


@given(configs(layers=ONE, norm=ANY_NORM), seeds)
def test_with_the_scales_of_a_run_circuits_through_norms_add_up_too(config, seed):
    """A text of one token has one scale at each norm, so the mean is the run's own."""
    weights = without_feed_forward(config, seed)
    tokens = random_tokens(config, seed, batch=1, length=1)
    run, scales = record(weights, tokens), mean_scales(weights, tokens)
    close(logit_sums(weights, run, 0, scales=scales), run.logits[0])
    assert_scores(weights, run, scales=scales)


@given(models(layers=st.just(0)))
def test_the_direct_path_of_a_model_without_layers_is_the_model(member):
    weights, tokens = member
    is_exact = not (isinstance(weights.config.norm, PreNorm) and has_vectors(weights.config))
    options = {"scales": "exact"} if is_exact else {"scales": mean_scales(weights, tokens[:1, :1])}
    tokens = tokens if is_exact else tokens[:1, :1]
    logits = record(weights, tokens).logits
    for index, text in enumerate(tokens):
        total = lines_of(direct(weights, **options).dense(), "tokens", text)
        if has_vectors(weights.config):
            total = total + lines_of(direct(weights, source="positions", **options).dense(), "positions", text)
        if (biases := there(direct, weights, source="biases", **options)) is not None:
            total = total + lines_of(biases, "biases", text)
        close(total, logits[index])


@given(configs(layers=MANY, norm=ANY_NORM), seeds)
def test_all_that_is_written_arrives_by_the_skip_route(config, seed):
    """At every reader of every model: writes and biases through their passages are what it reads."""
    weights, tokens = random_weights(config, seed), random_tokens(config, seed, batch=1, length=1)
    run, scales = record(weights, tokens), mean_scales(weights, tokens)
    written = {"embed": run["embed"][0] + (run["positions"] if has_vectors(config, ["stream"]) else 0)}
    for depth in range(config.layers + 1):
        reader = "unembed" if depth == config.layers else f"L{depth}.attention"
        biases = Reader(weights, reader, scales).basis("biases")
        total = sum(passage(weights, writer, reader, scales).push(write) for writer, write in written.items())
        for name, vector in zip(biases.side.names, biases.vectors, strict=True):
            # Those of heads are in what attention wrote.
            total = total if "H" in name else total + vector
        close(total, run["final" if reader == "unembed" else f"L{depth}.attention_input"][0])
        if depth < config.layers:
            b_O, layer = weights.blocks[depth].attention.b_O, weights.blocks[depth].feed_forward
            written[f"L{depth}.attention"] = run[f"L{depth}.attention"][0] - (0 if b_O is None else b_O)
            if layer is not None:
                b_out = 0 if layer.b_out is None else layer.b_out
                written[f"L{depth}.feed_forward"] = run[f"L{depth}.feed_forward"][0] - b_out


@given(configs(layers=MANY, norm=ANY_NORM), seeds)
def test_in_the_stream_basis_a_circuit_is_what_its_head_does_at_any_layer(config, seed):
    config = replace(config, attention=replace(config.attention, input_bias=False), norm=unbiased(config.norm))
    config = replace(config, positions=NoPositions()) if has_vectors(config, ["queries-and-keys"]) else config
    weights, tokens = random_weights(config, seed), random_tokens(config, seed, batch=1, length=1)
    run, scales = record(weights, tokens, ["L*.scores", "L*.head_writes"]), mean_scales(weights, tokens)
    for head in every_head(config):
        x = run[f"L{head.layer}.in"][0, 0]
        score = x @ qk(weights, head, dest="stream", source="stream", scales=scales).dense() @ x
        close(score, run[f"L{head.layer}.scores"][0, head.head, 0, 0])
        write = x @ ov(weights, head, source="stream", out="stream", scales=scales)
        close(write, run[f"L{head.layer}.head_writes"][0, head.head, 0])


@given(configs(layers=MANY, norm=st.builds(PostNorm, norm=norms)), seeds)
def test_pushing_rows_and_pulling_columns_is_one_map(config, seed):
    weights = random_weights(config, seed)
    way = passage(weights, "embed", "unembed")
    eye = torch.eye(config.d_model, dtype=torch.float64)
    close(way.push(eye), way.pull(eye))


@given(configs(layers=st.integers(1, 3), norm=ANY_NORM), seeds)
def test_effective_tokens_are_what_block_0_leaves_when_its_attention_is_silent(config, seed):
    assume(config.feed_forward is not None)
    quiet = replace(config.attention, output_bias=False, input_bias=False)
    positions = NoPositions() if has_vectors(config, ["stream"]) else config.positions
    config = replace(config, attention=quiet, positions=positions, norm=unbiased(config.norm))
    weights = random_weights(config, seed)
    weights = weights.changed({"blocks.0.attn.W_O": torch.zeros_like(weights.blocks[0].attention.W_O)})
    tokens = random_tokens(config, seed)
    run = record(weights, tokens)
    if config.layers == 1:
        biases = 0 if weights.b_U is None else weights.b_U
        close(direct(weights, source="effective-tokens", scales="exact").rows(tokens[0].tolist()) + biases, run.logits[0])
        return
    vectors = Reader(weights, "L1.attention").basis("effective-tokens").vectors
    close(vectors[tokens], run["L1.in"])
    if isinstance(config.positions, NoPositions):
        for head in every_head(config)[config.heads : 2 * config.heads]:
            circuit = qk(weights, head, dest="effective-tokens", source="effective-tokens", scales="exact")
            scores = run["L1.scores"][0, head.head]
            ours = circuit.dense()[tokens[0]][:, tokens[0]]
            close(ours.masked_fill(scores.isinf(), float("-inf")), scores)


@given(configs(layers=MANY, norm=ANY_NORM), seeds)
def test_an_invertible_change_inside_a_head_changes_no_circuit(config, seed):
    rotary = isinstance(config.positions, RotaryPositions)
    weights, generator = random_weights(config, seed), torch.Generator().manual_seed(seed)
    changed = dict(weights.tensors())
    for layer in range(config.layers):
        change_of_basis(changed, f"blocks.{layer}.attn.", config, generator, queries=not rotary)
    other = weights.changed(changed)
    for head in every_head(config):
        for circuit in (ov, qk):
            ours, theirs = circuit(weights, head), circuit(other, head)
            assert ours.left.shape == theirs.left.shape
            torch.testing.assert_close(ours.dense(), theirs.dense(), rtol=1e-8, atol=1e-8)
            # Eigenvalues: by their power sums, which do not depend on an order.
            for power in (1, 2, 3):
                sums = [(each.eigenvalues() ** power).sum() for each in (ours, theirs)]
                torch.testing.assert_close(*sums, rtol=1e-7, atol=1e-7)


def change_of_basis(tensors, prefix, config, generator, *, queries):
    """Queries and keys by ``R`` and ``R⁻ᵀ``, values and outputs by ``S`` and ``S⁻¹``; one of each for a group of heads."""
    d_head, group = config.d_head, config.attention.group_size

    def drawn():
        # Well conditioned: what is tested is algebra, not rounding.
        noise = torch.randn(config.attention.key_heads, d_head, d_head, generator=generator, dtype=torch.float64)
        return torch.linalg.qr(noise).Q * torch.linspace(0.5, 2, d_head, dtype=torch.float64)

    def apply(symbol, change):
        for name in (f"W_{symbol}", f"b_{symbol}"):
            if prefix + name in tensors:
                kept = tensors[prefix + name]
                times = change.repeat_interleave(len(kept) // len(change), dim=0)
                tensors[prefix + name] = kept @ times if kept.ndim == 3 else (kept[:, None] @ times)[:, 0]

    S = drawn()
    apply("V", S)
    W_O = tensors[prefix + "W_O"]
    tensors[prefix + "W_O"] = torch.linalg.inv(S).repeat_interleave(group, dim=0) @ W_O
    if queries:
        R = drawn()
        apply("Q", R)
        apply("K", torch.linalg.inv(R).mT)


@given(configs(layers=MANY, norm=ANY_NORM), seeds)
def test_a_circuit_that_is_not_exact_says_what_it_is_given(config, seed):
    weights = random_weights(config, seed)
    for head in every_head(config)[:: config.heads]:
        in_stream = has_vectors(config, ["stream"])
        reads, leaves = f"L{head.layer}.attention", f"L{head.layer}.attention"
        needed = [] if head.layer == 0 and not in_stream else norms_between(config, "embed", reads)
        labels = [f"a scale of 1 at {site.removesuffix('.scale')}" for site in needed]
        offset = ["offset 0"] if isinstance(config.positions, RotaryPositions) else []
        assert qk(weights, head).given == (*labels, *offset)
        needed += norms_between(config, leaves, "unembed")
        labels = [f"a scale of 1 at {site.removesuffix('.scale')}" for site in needed]
        assert ov(weights, head).given == tuple(dict.fromkeys(labels))
        if needed:
            with pytest.raises(InputError, match="whose scale depends on the rest of the stream"):
                ov(weights, head, scales="exact")
        else:
            close(ov(weights, head, scales="exact").dense(), ov(weights, head).dense())


def without_feed_forward(config, seed):
    return random_weights(replace(config, feed_forward=None), seed)


def unbiased(norm):
    if isinstance(norm, NoNorm):
        return norm
    return replace(norm, norm=replace(norm.norm, bias=False) if isinstance(norm.norm, LayerNorm) else norm.norm)
