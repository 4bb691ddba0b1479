"""The stream's stages, tables and pictures; what is refused."""

import json
from dataclasses import replace

import pytest
import torch

from headwater.errors import InputError
from headwater.model.config import Attention, FeedForward, LearnedPositions, ModelConfig, NoNorm, PostNorm, PreNorm
from headwater.model.record import record
from headwater.trace.view.stages import stages
from headwater.trace.view.stream import stream
from strategies import random_weights

CONFIG = ModelConfig(
    vocab=11,
    context=8,
    d_model=6,
    layers=2,
    attention=Attention(heads=2, d_head=3, output_bias=True),
    feed_forward=FeedForward(d_mlp=5),
    norm=PreNorm(),
    positions=LearnedPositions(),
)
BESIDE = FeedForward(d_mlp=5, reads="beside-attention")
TOKENS = torch.tensor([[1, 2, 3, 2, 5]])


def view(config=CONFIG, **choices):
    return stream(record(random_weights(config, 0), TOKENS), **choices)


def roles(config):
    return {name: stage.role for stage in stages(config) for name in (stage.name, *stage.also) if not name.startswith("L1")}


def test_a_pre_norm_block_reads_copies_and_writes_to_the_stream():
    assert roles(CONFIG) == {
        "embed": "write",
        "positions": "write",
        "L0.t0": "stream",
        "L0.t1": "copy",
        "L0.t2": "write",
        "L0.t3": "stream",
        "L0.t4": "copy",
        "L0.t5": "write",
        "L0.h": "stream",
        "final": "copy",
    }


def test_a_post_norm_block_normalises_the_stream_itself_and_copies_nothing():
    found = roles(replace(CONFIG, norm=PostNorm()))
    assert "copy" not in found.values()
    assert [name for name, role in found.items() if role == "write"] == ["embed", "positions", "L0.t1", "L0.t4"]


def test_without_norms_what_is_read_is_the_stream():
    found = {stage.name: stage.names for stage in stages(replace(CONFIG, norm=NoNorm()))}
    assert found["L0.t0"] == "L0.t0 = L0.t1"
    assert found["L0.t3"] == "L0.t3 = L0.t4"
    assert found["L1.h"] == "L1.h = final"


def test_a_parallel_feed_forward_layer_reads_what_attention_read():
    by_name = {stage.name: stage for stage in stages(replace(CONFIG, feed_forward=BESIDE))}
    assert by_name["L0.t4"].of == by_name["L0.t1"].of == "L0.t0"
    assert by_name["L0.t5"].of == "L0.t3"


def test_without_a_feed_forward_layer_the_block_leaves_what_attention_made():
    assert any(stage.names == "L0.t3 = L0.h = L1.t0" for stage in stages(replace(CONFIG, feed_forward=None)))
    post = replace(CONFIG, feed_forward=None, norm=PostNorm())
    assert any(stage.names == "L0.t3 = L0.h = L1.t0" for stage in stages(post))


def test_a_model_without_blocks_has_its_token_and_position_added_up():
    config = replace(CONFIG, layers=0, attention=None, feed_forward=None)
    assert [stage.name for stage in stages(config)] == ["embed", "positions", "start", "final"]
    assert float(sum(view(config).shares.values())[2].sub(1).abs().max()) < 1e-12


def test_without_a_token_the_next_one_is_told_and_at_the_end_the_likeliest():
    run = record(random_weights(CONFIG, 0), TOKENS)
    assert stream(run).chosen.tolist() == [2, 3, 2, 5, int(run.logits[0, -1].argmax())]
    assert stream(run, token=4).chosen.tolist() == [4] * 5
    assert int(stream(run).lenses[-1].rank[-1]) == 1


@pytest.mark.parametrize("norm", [PreNorm(), PostNorm(), NoNorm()])
def test_a_view_is_plain_json_and_prints(norm):
    told = view(replace(CONFIG, norm=norm), positions=[1, -1], top=2)
    document = json.loads(json.dumps(told.plain(), allow_nan=False))
    assert document["positions"] == [1, 4]
    assert [stage["stage"] for stage in document["stages"]] == [stage.name for stage in told.stages]
    for stage in document["stages"]:
        assert (stage["shares"] is None) == (stage["role"] == "write")
        assert len(stage["norm"]) == len(stage["lens"]["p"]) == len(stage["lens"]["top"]) == 2
        assert all(len(top) == 2 for top in stage["lens"]["top"])
        if stage["shares"]:
            assert sum(shares[0] for shares in stage["shares"].values()) == pytest.approx(1.0)
    assert document["certificate"] < 1e-12
    assert "who wrote it" in str(told)
    assert ("what norms changed" in str(told)) == (not isinstance(norm, NoNorm))
    assert told._repr_html_().startswith("<div")


def test_columns_of_shares_add_up_when_the_smallest_are_told_together():
    many = replace(CONFIG, layers=6, attention=Attention(heads=6, d_head=2))
    table = view(many).tables()[1]
    assert len(table.columns) <= 9
    assert any("others" in row[0] for row in table.rows)
    for column in range(1, len(table.columns)):
        cells = [float(row[column]) for row in table.rows if row[column]]
        assert sum(cells[:-1]) == pytest.approx(cells[-1], abs=0.0005 * len(cells))
        assert cells[-1] == 1.0


def test_a_stream_that_is_nothing_has_no_shares_and_no_cosines():
    """Attention that takes back the very token it reads: W_V W_O = −1 on a text of one token."""
    config = ModelConfig(vocab=3, context=2, d_model=2, layers=1, attention=Attention(heads=1, d_head=2))
    eye = torch.eye(2, dtype=torch.float64)[None]
    weights = random_weights(config, 0).changed({"blocks.0.attn.W_V": eye, "blocks.0.attn.W_O": -eye})
    told = stream(record(weights, torch.tensor([[1]])))
    assert float(told.norm[told.index("L0.h"), 0]) == 0.0
    end = told.plain()["stages"][-1]
    assert end["shares"] == {"embed": [None], "L0H0": [None]}
    assert end["cosine_before"] == [None]
    assert told.tables()
    assert told.grids()


def test_pictures_have_a_row_for_each_stage_and_a_column_for_each_position():
    told = view()
    for grid in told.grids():
        assert len(grid.values) == len(grid.rows) == len(told.stages)
        assert all(len(row) == len(grid.columns) == 5 for row in grid.values)
    assert [len(panel.lines) for panel in told.curves()] == [1, 8]


@pytest.mark.parametrize(
    "choices", [{"positions": [5]}, {"positions": []}, {"token": 11}, {"top": 0}, {"positions": [-6]}], ids=str
)
def test_what_is_not_there_cannot_be_looked_at(choices):
    with pytest.raises(InputError):
        view(**choices)


def test_several_texts_are_refused_and_so_are_stages_that_are_not_there():
    with pytest.raises(InputError, match="2 texts"):
        stream(record(random_weights(CONFIG, 0), TOKENS.repeat(2, 1)))
    told = view(positions=[1])
    assert told.index("L1.t0") == told.index("L0.h") == told.index("L0.out")
    with pytest.raises(InputError, match="no stage"):
        told.index("L9.t0")
    with pytest.raises(InputError, match="position 3"):
        told.tables(3)


def test_a_stream_of_zeros_has_no_shares_and_is_shown():
    config = ModelConfig(vocab=3, context=4, d_model=2, layers=1, attention=Attention(heads=1, d_head=2))
    weights = random_weights(config, 0)
    found = stream(record(weights.changed({"embed.W_E": torch.zeros_like(weights.W_E)}), TOKENS[:, :3] % 3))
    assert found.certificate == 0.0
    assert all(bool(share.isnan().all()) for share in found.shares.values())
    assert "nan" not in str(found)
    json.dumps(found.plain(), allow_nan=False)
