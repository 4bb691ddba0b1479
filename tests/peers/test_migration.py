"""The page for those who come from TransformerLens: each of its rows gives the same numbers on both sides."""

import copy
import json
import re

import pytest
import torch

import headwater as hw
from headwater.model import fold
from headwater.model.foreign.fields import Fields
from headwater.model.foreign.transformer_lens import read_config
from headwater.text.tokenizer import byte_tokenizer
from lens_page import PAGE, TEXT, is_setting, metric, named, rows, settings
from peers.precision import doubled, furthest, randomise

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

SIZES = {"d_model": 24, "d_head": 8, "n_heads": 3, "n_layers": 2, "n_ctx": 16, "d_vocab": 256, "d_mlp": 40, "device": "cpu"}
MODELS = {
    "usual": {**SIZES, "act_fn": "gelu_new"},
    "other models": {
        **SIZES, "act_fn": "silu", "gated_mlp": True, "normalization_type": "RMS", "final_rms": True,
        "positional_embedding_type": "rotary", "n_key_value_heads": 1,
    },
    "circuits": {**SIZES, "attn_only": True, "normalization_type": None},
}  # fmt: skip
OFF = dict.fromkeys(("fold_ln", "center_writing_weights", "center_unembed", "fold_value_biases"), False)
ROWS = [row for row in rows(PAGE) if not is_setting(row.theirs) and row.section != "loading"]
SETTINGS = [row for row in rows(PAGE) if is_setting(row.theirs) and row.section == "configuration"]
FOLDING = [row for row in rows(PAGE) if row.section == "processing"]


def speaking(folder):
    """A tokenizer of Hugging Face's with a token for each byte; the first is put in front of a text."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    (folder / "tokenizer.json").write_bytes(byte_tokenizer().to_json())
    first = dict.fromkeys(("bos_token", "eos_token", "pad_token"), "Ā")
    PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), add_bos_token=True, **first).save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """For each kind of model theirs and ours, handed over as the page says."""
    import transformer_lens

    handing_over = re.search(r"```text\n(\(folder.*?)```", PAGE.read_text(), re.DOTALL)[1]
    made = {}
    for name, case in MODELS.items():
        folder, words = tmp_path_factory.mktemp("model"), speaking(tmp_path_factory.mktemp("words"))
        with doubled():
            config = transformer_lens.HookedTransformerConfig(**case, dtype=torch.float64, default_prepend_bos=False)
            model = randomise(transformer_lens.HookedTransformer(config, words))
        for block in model.blocks if config.gated_mlp else []:
            block.mlp.b_in.data.zero_()
        model.set_use_attn_result(True)
        exec(handing_over, {"folder": folder, "model": model, "json": json, "torch": torch})
        (folder / "tokenizer.json").write_bytes(byte_tokenizer().to_json())
        made[name] = model, hw.load(folder)
    return made


def known_to_them(model, ours):
    """What the left column calls by name."""
    import transformer_lens
    from transformer_lens import patching
    from transformer_lens.head_detector import detect_head

    def silence(z, hook):
        z[:, :, 1] = 0
        return z

    shared = {name: ours[name] for name in ("tokens", "A", "B", "corrupted", "text", "torch")}
    cache, folded = model.run_with_cache(shared["tokens"])[1], copy.deepcopy(model)
    if model.cfg.normalization_type:
        folded.load_and_process_state_dict(folded.state_dict(), **OFF | {"fold_ln": True})
    return shared | {
        "model": model,
        "cache": cache,
        "clean_cache": cache,
        "folded_cache": folded.run_with_cache(shared["tokens"])[1],
        "metric": metric,
        "patching": patching,
        "silence": silence,
        "steer": lambda x, hook: x + ours["direction"],
        "halve": lambda x, hook: x / 2,
        "detect_head": detect_head,
        "FactoredMatrix": transformer_lens.FactoredMatrix,
        "SVDInterpreter": transformer_lens.SVDInterpreter,
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.section}: {row.theirs[:60]}")
def test_both_sides_of_a_row_give_the_same(both, row):
    theirs, ours = both[row.section if row.section in both else "usual"]
    words = named(ours)
    mine = eval(row.ours, words)
    with doubled(), torch.no_grad():
        their = eval(row.theirs, known_to_them(theirs, words))
    assert_same(mine, their)


def assert_same(mine, their):
    if isinstance(their, list | str):
        assert mine == their
        return
    mine, their = (torch.as_tensor(value, dtype=torch.float64) for value in (mine, their))
    assert mine.shape == their.shape
    # What a mask forbids is −∞ on both sides.
    there = their.isfinite()
    assert torch.equal(mine.isfinite(), there)
    assert furthest(mine[there], their[there]) < 1e-9 * max(1.0, float(their[there].abs().max()))


@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row.theirs)
def test_a_field_of_their_configuration_is_what_the_page_says(row):
    import transformer_lens

    given = {"act_fn": "relu", **SIZES, **settings(row.theirs)}
    found = read_config(
        Fields(json.loads(json.dumps(transformer_lens.HookedTransformerConfig(**given).to_dict(), default=str)))
    )
    for name, value in settings(row.ours, hw=hw).items():
        assert getattr(found, name) == value


@pytest.mark.parametrize("row", FOLDING, ids=lambda row: row.theirs)
def test_what_from_pretrained_does_is_one_function_each(both, row):
    theirs, ours = both["usual"]
    words = named(ours)
    with doubled(), torch.no_grad():
        model = copy.deepcopy(theirs)
        model.load_and_process_state_dict(model.state_dict(), **OFF | settings(row.theirs))
        logits, their = model(words["tokens"]), model.state_dict()
    weights = eval(row.ours, words)
    assert furthest(hw.forward(weights, words["tokens"]), logits) < 1e-9
    for name, tensor in weights.tensors().items():
        # Theirs takes the mean over the stream out of what reads a folded norm: no norm lets it through.
        is_centred = "fold_ln" in row.theirs and name.endswith(("W_Q", "W_K", "W_V", "W_in", "W_U"))
        mine = tensor - tensor.mean(dim=-2, keepdim=True) if is_centred else tensor
        assert furthest(mine, their[name]) < 1e-9, name


def test_all_of_it_together_is_what_from_pretrained_loads(both):
    theirs, ours = both["usual"]
    words = named(ours)
    with doubled(), torch.no_grad():
        model = copy.deepcopy(theirs)
        model.load_and_process_state_dict(model.state_dict(), fold_value_biases=True)
        logits = model(words["tokens"])
    weights = fold.centre_unembed(fold.centre_writes(fold.fold_norms(fold.fold_value_bias(ours.weights))))
    assert furthest(hw.forward(weights, words["tokens"]), logits) < 1e-9


def test_every_hook_of_theirs_is_on_the_page(both):
    page = PAGE.read_text()
    for model, _ in both.values():
        for name in model.hook_dict:
            assert name.rsplit(".", 1)[-1] in page, name


def test_they_put_a_token_in_front_unless_told_otherwise(both):
    theirs, ours = both["usual"]
    assert theirs.to_tokens(TEXT, prepend_bos=True).shape[1] == ours.tokens(TEXT).shape[1] + 1
