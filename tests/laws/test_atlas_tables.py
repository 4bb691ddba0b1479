"""Laws of an atlas' tables: scores and outputs are those of the model itself, and every number on disk is what loops over everything give."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from atlas_twin import Head, OnDisk, check_direct, check_head, check_joined, check_strongest
from headwater.atlas.build import AtlasChoices, build_atlas
from headwater.atlas.order import weights_at
from headwater.atlas.settings import NormScale, Settings
from headwater.atlas.subject import DIRECT, Subject
from headwater.circuits.bases import Reader
from headwater.circuits.head import every_head
from headwater.circuits.norms import mean_scales
from headwater.circuits.tables import direct
from headwater.model.checkpoint import save
from headwater.model.config import (
    Attention,
    FeedForward,
    GatedFeedForward,
    LayerNorm,
    LearnedPositions,
    ModelConfig,
    NoNorm,
    NoPositions,
    PostNorm,
    PreNorm,
    RMSNorm,
    RotaryPositions,
    SinusoidalPositions,
    Unembedding,
)
from headwater.model.record import record
from headwater.settings import from_plain
from strategies import configs, norms, random_weights, seeds

ANY_NORM = st.one_of(st.just(NoNorm()), st.builds(PreNorm, norm=norms), st.builds(PostNorm, norm=norms))
MARKS = LearnedPositions | SinusoidalPositions


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def subject_of(weights, **chosen):
    vocab = weights.config.vocab
    return Subject(weights, torch.full((vocab,), 1 / vocab, dtype=torch.float64), Settings(**({"others": 3} | chosen)))


def without_marks(config):
    """The same without positions that are vectors: what they add to scores is no part of the tables."""
    return replace(config, positions=NoPositions()) if isinstance(config.positions, MARKS) else config


def measured(weights, tokens):
    """The scales of a text of one token: the run's own."""
    if isinstance(weights.config.norm, NoNorm):
        return {}
    values = mean_scales(weights, tokens).values
    return {"norms": "this text's", "scales": tuple(NormScale(site=site, value=value) for site, value in values.items())}


@given(configs(layers=st.just(1), norm=ANY_NORM, mask="causal"), seeds, st.data())
def test_scores_of_the_first_layer_are_those_of_the_model(config, seed, data):
    """Biases, norms (their scale is the token's own), grouped heads, rotary positions at any distance."""
    weights = random_weights(without_marks(config), seed)
    offset = data.draw(st.integers(0, config.context - 1)) if isinstance(config.positions, RotaryPositions) else 0
    length = data.draw(st.integers(offset + 1, config.context))
    tokens = torch.randint(config.vocab, (1, length), generator=torch.Generator().manual_seed(seed))
    run, subject = record(weights, tokens), subject_of(weights, offset=offset)
    back = [offset] if isinstance(config.positions, RotaryPositions) else range(length)
    for head in subject.heads:
        table = subject.scores(head).dense()
        for dest in range(length):
            for source in (dest - distance for distance in back if distance <= dest):
                close(table[tokens[0, dest], tokens[0, source]], run["L0.scores"][0, head.head, dest, source])


@given(configs(layers=st.just(1), norm=ANY_NORM), seeds)
def test_positions_are_left_out_of_scores(config, seed):
    """Only where they are part of what a norm divides by do they change what tokens alone give."""
    if not isinstance(config.positions, MARKS) or (isinstance(config.norm, PreNorm) and config.positions.into == "stream"):
        config = replace(config, positions=LearnedPositions(into="queries-and-keys"))
    weights, bare = random_weights(config, seed), without_marks(config)
    others = type(weights).assemble(bare, {name: tensor for name, tensor in weights.tensors().items() if "pos" not in name})
    for head in every_head(config):
        close(subject_of(weights).scores(head).dense(), subject_of(others).scores(head).dense())


def silent(weights, last):
    """The model with blocks before ``last`` that write nothing but their constants."""
    config, changed = weights.config, {}
    for layer in range(last):
        prefix, block = f"blocks.{layer}.", weights.blocks[layer]
        if block.norm_1.gain is not None and isinstance(config.norm, PreNorm):
            changed[f"{prefix}ln1.w"] = torch.zeros_like(block.norm_1.gain)
        else:
            changed[f"{prefix}attn.W_V"] = torch.zeros_like(block.attention.W_V)
        if block.feed_forward is not None:
            changed[f"{prefix}mlp.W_out"] = torch.zeros_like(block.feed_forward.W_out)
    return weights.changed(changed)


@given(configs(layers=st.integers(1, 3), norm=ANY_NORM), seeds, st.data())
def test_scores_of_later_layers_are_those_of_a_model_whose_earlier_ones_write_constants_alone(config, seed, data):
    """What attention and feed-forward layers write whatever they read (biases, those of norms among them) is part of both sides."""
    weights = silent(random_weights(without_marks(config), seed), config.layers - 1)
    token = data.draw(st.integers(0, config.vocab - 1))
    tokens = torch.tensor([[token]])
    run, subject = record(weights, tokens), subject_of(weights, **measured(weights, tokens))
    for head in subject.heads[-config.heads :]:
        close(subject.scores(head).dense()[token, token], run[f"L{head.layer}.scores"][0, head.head, 0, 0])


@given(configs(layers=st.just(2), norm=ANY_NORM, mask="causal"), seeds)
def test_in_effective_tokens_scores_are_those_of_a_model_whose_first_attention_is_silent(config, seed):
    layer = config.feed_forward or FeedForward(d_mlp=3, activation="gelu")
    config = replace(without_marks(config), attention=replace(config.attention, output_bias=False), feed_forward=layer)
    weights = random_weights(config, seed)
    weights = weights.changed({"blocks.0.attn.W_O": torch.zeros_like(weights.blocks[0].attention.W_O)})
    tokens = torch.randint(config.vocab, (1, config.context), generator=torch.Generator().manual_seed(seed))
    run, subject = record(weights, tokens), subject_of(weights, basis="effective-tokens")
    for head in subject.heads[config.heads :]:
        table, scores = subject.scores(head).dense(), run["L1.scores"][0, head.head]
        if isinstance(config.positions, RotaryPositions):
            close(table[tokens[0], tokens[0]], scores.diagonal())
        else:
            close(table[tokens[0]][:, tokens[0]].masked_fill(scores.isinf(), float("-inf")), scores)


def has_constants(weights):
    return weights.b_U is not None or bool(Reader(weights, "unembed").basis("biases").side.names)


@given(configs(layers=st.just(1), norm=ANY_NORM), seeds, st.data())
def test_direct_path_heads_and_constants_are_the_logits_of_a_text_of_one_token(config, seed, data):
    """As far as a softmax can see them."""
    weights = random_weights(replace(without_marks(config), feed_forward=None), seed)
    token = data.draw(st.integers(0, config.vocab - 1))
    tokens = torch.tensor([[token]])
    subject = subject_of(weights, **measured(weights, tokens))
    total = sum(subject.outputs(name).dense()[token] for name in (DIRECT, *subject.heads))
    if has_constants(weights):
        constants = direct(weights, source="biases", scales=subject.settings.scaling).dense().sum(dim=0)
        total = total + constants - constants.mean()
    logits = record(weights, tokens).logits[0, 0]
    close(total, logits - logits.mean())


def shape(**changed):
    sizes = {"vocab": 7, "context": 6, "d_model": 6, "layers": 1, "attention": Attention(heads=2, d_head=3)}
    return ModelConfig(**(sizes | changed))


BIASED = Attention(heads=2, d_head=4, group_size=2, input_bias=True, output_bias=True)
MODELS = {
    "plain": (shape(), {}, "drawn"),
    "one entry, one other": (
        shape(vocab=5, context=1, positions=LearnedPositions()),
        {"k": 1, "each": 1, "triples": 3},
        "drawn",
    ),
    "rotary": (shape(attention=BIASED, positions=RotaryPositions(dims=2), norm=PreNorm(norm=LayerNorm())), {"offset": 2}, "drawn"),
    "post-norm": (
        shape(layers=2, attention=BIASED, norm=PostNorm(norm=LayerNorm()), feed_forward=FeedForward(d_mlp=5), positions=LearnedPositions()),
        {"others": 1}, "drawn",
    ),
    "effective tokens": (
        shape(vocab=6, layers=2, norm=PreNorm(norm=RMSNorm()), feed_forward=GatedFeedForward(d_mlp=5, activation="silu"), positions=SinusoidalPositions(),
              unembedding=Unembedding(tied=True, bias=True)),
        {"basis": "effective-tokens"}, "drawn",
    ),
    "ties": (shape(), {}, "rounded"),
    "equal outputs": (shape(vocab=9, attention=Attention(heads=3, d_head=3)), {"k": 6}, "rounded outputs"),
    "equal tokens": (shape(), {}, "equal"),
    "saturated": (shape(), {}, "saturated"),
    "nothing": (shape(vocab=4), {}, "zero"),
    "float32": (shape(), {"rows": 3}, "narrow"),
    "one token": (shape(vocab=1), {}, "drawn"),
}  # fmt: skip


def weights_of(config, kind):
    weights = random_weights(config, 5, torch.float32 if kind == "narrow" else torch.float64)
    match kind:
        case "rounded":
            return weights.changed({name: (2 * tensor).round() for name, tensor in weights.tensors().items()})
        case "rounded outputs":
            names = ("embed.W_E", "blocks.0.attn.W_V", "blocks.0.attn.W_O", "unembed.W_U")
            # A draw in which lifts are equal whose weighted factors, multiplied, are not.
            weights = random_weights(config, 24)
            rounded = {name: weights.tensors()[name].sign() for name in names}
            return weights.changed(rounded | {"blocks.0.attn.W_Q": torch.zeros_like(weights.blocks[0].attention.W_Q)})
        case "equal":
            return weights.changed({"embed.W_E": weights.W_E[[0, 1, 0, 1, 0, 2, 2]]})
        case "saturated":
            return weights.changed({"blocks.0.attn.W_Q": 400 * weights.blocks[0].attention.W_Q})
        case "zero":
            return weights.changed({name: torch.zeros_like(tensor) for name, tensor in weights.tensors().items()})
    return weights


@pytest.mark.parametrize("name", MODELS)
def test_every_table_is_what_loops_over_all_entries_and_all_triples_give(name, tmp_path):
    config, chosen, kind = MODELS[name]
    save(weights_of(config, kind), tmp_path / "model")
    # As it lies in memory there: products of other strides have other last digits.
    weights = weights_at(str(tmp_path / "model"))
    manifest = build_atlas(
        tmp_path / "model", tmp_path / "atlas", AtlasChoices(**({"k": 4, "each": 2, "triples": 12} | chosen))
    )
    atlas = OnDisk(tmp_path / "atlas")
    subject = Subject(weights, torch.from_numpy(atlas.table("vocab")["share"]), from_plain(Settings, manifest.settings))
    assert subject.settings.others == chosen.get("others", max(1, config.context - 1))
    heads = [Head(subject, name, atlas.lines(name)["mass"]) for name in manifest.heads]
    for head in heads:
        check_head(atlas, subject, head)
    check_direct(atlas, subject, precision=2.0**-20 if kind != "narrow" else 2.0**-18)
    check_strongest(atlas, subject, heads)
    check_joined(atlas, subject, heads)
