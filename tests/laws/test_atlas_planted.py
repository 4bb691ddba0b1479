"""Skip-trigrams written into weights by hand: all of them head the table of the strongest, before anything else."""

import itertools

import numpy as np
import torch

from atlas_twin import SLOTS, OnDisk
from headwater.atlas.build import AtlasChoices, build_atlas
from headwater.model.checkpoint import save
from headwater.model.config import Attention, ModelConfig
from headwater.model.weights import Weights
from headwater.text.planted import Copying, PlantedLanguage, Skips

FORKED = PlantedLanguage(words=64, skips=Skips(count=15, sources=10, destinations=3), copying=Copying(words=4, after=2))
"""Five of its sources have two destinations, each with an out of its own."""
HEADS = 3


def heads_of(language):
    """Rules by the head that is to have them: no two of one source with different outs in one head, since a head would cross them."""
    by_head = [[], [], []]
    for number, rule in enumerate(language.skip_trigrams):
        by_head[number // language.skips.sources].append(rule)
    by_head[2] = list(language.copies)
    return by_head


def planted_weights(by_head, vocab, *, signs=(1, 1, 1), noise=0.02, seed=0):
    """In each head a dest asks for its sources, a source raises (or lowers) its out; all of it turned at random: no axis means anything."""
    draw = torch.Generator().manual_seed(seed)

    def drawn(*shape):
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    def turn(size):
        return torch.linalg.qr(drawn(size, size)).Q

    looks, writes = noise * drawn(len(by_head), vocab, vocab), noise * drawn(len(by_head), vocab, vocab)
    for head, rules in enumerate(by_head):
        for source, dest, out in rules:
            looks[head, dest, source] = 6 * vocab**0.5
            writes[head, source, out] = signs[head] * 5.0
    stream, queries, values = turn(vocab), [turn(vocab) for _ in by_head], [turn(vocab) for _ in by_head]
    tensors = {
        "embed.W_E": stream,
        "blocks.0.attn.W_Q": torch.stack([stream.T @ look @ q for look, q in zip(looks, queries, strict=True)]),
        "blocks.0.attn.W_K": torch.stack([stream.T @ q for q in queries]),
        "blocks.0.attn.W_V": torch.stack([stream.T @ v for v in values]),
        "blocks.0.attn.W_O": torch.stack([v.T @ write @ stream for v, write in zip(values, writes, strict=True)]),
        "unembed.W_U": stream.T,
    }
    config = ModelConfig(
        vocab=vocab, context=24, d_model=vocab, layers=1, attention=Attention(heads=len(by_head), d_head=vocab)
    )
    return Weights.assemble(config, {name: tensor.float() for name, tensor in tensors.items()})


def strongest(folder, weights, **chosen):
    save(weights, folder / "model")
    build_atlas(folder / "model", folder / "atlas", AtlasChoices(k=8, each=2, **chosen))
    table = OnDisk(folder / "atlas").table("strongest")
    rows = zip(*(table[slot].tolist() for slot in SLOTS), strict=True)
    in_model = np.ma.filled(table["in_model"], 0).tolist()
    return list(zip(table["head"].tolist(), table["place"].tolist(), in_model, rows, strict=True))


def test_planted_skip_trigrams_head_the_table_of_their_head_and_of_the_model(tmp_path):
    """Two heads raise outputs, one lowers those that it copies."""
    by_head, signs = heads_of(FORKED), (1, 1, -1)
    found = strongest(tmp_path, planted_weights(by_head, FORKED.words, signs=signs), triples=60)
    for head, (planted, sign) in enumerate(zip(by_head, signs, strict=True)):
        first = {row for number, place, _, row in found if number == head and 1 <= sign * place <= len(planted)}
        assert first == {tuple(rule) for rule in planted}
    for sign in (1, -1):
        rules = {(head, *rule) for head in range(HEADS) if signs[head] == sign for rule in by_head[head]}
        assert {(head, *row) for head, _, in_model, row in found if 1 <= sign * in_model <= len(rules)} == rules


def test_in_one_head_a_fork_is_followed_by_its_crossed_triples_and_by_nothing_else(tmp_path):
    """``A … B → C`` and ``A … B' → C'`` in one head force ``A … B → C'``: lift is a product."""
    rules = set(FORKED.skip_trigrams)
    forced = {
        (one.source, dest, out)
        for one, other in itertools.permutations(rules, 2) if one.source == other.source
        for dest, out in ((one.dest, other.out),)
    }  # fmt: skip
    assert len(forced) == 10
    found = strongest(tmp_path, planted_weights([list(rules)], FORKED.words), triples=60)
    first = [row for _, place, _, row in found if 1 <= place <= len(rules) + len(forced)]
    assert set(first) == {tuple(rule) for rule in rules} | forced


def test_more_rules_than_lists_hold_are_found_all_the_same(tmp_path):
    """One source with twenty destinations and one with twenty outs, where eight of each are listed."""
    wide = [(1, dest, 2) for dest in range(20, 40)]
    high = [(3, 4, out) for out in range(40, 60)]
    found = strongest(tmp_path, planted_weights([wide, high], 64), triples=30)
    for head, rules in enumerate((wide, high)):
        assert {row for number, place, _, row in found if number == head and 1 <= place <= 20} == set(rules)
