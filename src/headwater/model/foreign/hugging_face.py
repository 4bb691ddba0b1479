"""Hugging Face folders: ``config.json`` beside ``model.safetensors`` or ``pytorch_model.bin``, whole or in shards."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.errors import ModelFileError
from headwater.files.plain import read_json
from headwater.model.config import ModelConfig
from headwater.model.foreign import gpt2, gpt_neox, llama, state_dict
from headwater.model.foreign.fields import Fields, reading
from headwater.model.foreign.links import Layout
from headwater.model.source import Source

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Family:
    """How one class of models describes itself and lays out its tensors."""

    read_config: Callable[[Fields], ModelConfig]
    layout: Layout


FAMILIES = {
    "GPT2LMHeadModel": Family(gpt2.read_config, gpt2.LAYOUT),
    "GPTNeoXForCausalLM": Family(gpt_neox.read_config, gpt_neox.LAYOUT),
    "LlamaForCausalLM": Family(llama.read_llama, llama.LAYOUT),
    "MistralForCausalLM": Family(llama.read_mistral, llama.LAYOUT),
    "Qwen2ForCausalLM": Family(llama.read_qwen2, llama.LAYOUT),
}

_OF_TYPE = {
    "gpt2": "GPT2LMHeadModel",
    "gpt_neox": "GPTNeoXForCausalLM",
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
}

STATE_DICTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
WORDS = ("tokenizer.json", "vocab.json", "merges.txt")

_HARMLESS = [
    # Where the file came from.
    "architectures", "transformers_version", "dtype", "torch_dtype", "_name_or_path", "name_or_path", "_commit_hash",
    "transformers.js_config", "tokenizer_class",
    # Tokens with a meaning, for those who write texts.
    "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "cls_token_id", "mask_token_id", "unk_token_id",
    "decoder_start_token_id", "prefix",
    # How outputs are handed over, how memory is spent, how training starts.
    "use_cache", "output_hidden_states", "output_attentions", "output_scores", "return_dict", "return_dict_in_generate",
    "torchscript", "use_bfloat16", "tf_legacy_loss", "chunk_size_feed_forward", "gradient_checkpointing",
    "_attn_implementation", "_attn_implementation_autoset", "attn_implementation", "initializer_range",
    # Other tasks than predicting tokens.
    "id2label", "label2id", "num_labels", "_num_labels", "problem_type", "finetuning_task", "task_specific_params",
    # How tokens are chosen once the logits are there.
    "do_sample", "early_stopping", "max_length", "min_length", "num_beams", "num_beam_groups", "diversity_penalty",
    "temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences", "forced_bos_token_id", "forced_eos_token_id",
    "remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens",
]  # fmt: skip


def look(path: Path) -> Source:
    """The model in a Hugging Face folder, without its numbers."""
    plain = read_json(path / "config.json")
    with reading("config.json"):
        name = _architecture(plain)
        config = _config(Fields(plain), FAMILIES[name])
    state = state_dict.look(_state_dict_path(path))
    layout = FAMILIES[name].layout
    names = layout.match(config, state.entries)

    def read() -> "dict[str, Tensor]":
        stored = state.read()
        return layout.load(config, state_dict.widened({bare: stored[name] for bare, name in names.items()}))

    beside = (path / each for each in ("config.json", *STATE_DICTS, *WORDS))
    return Source(
        path=path,
        format=f"Hugging Face {name}",
        config=config,
        entries=state.entries,
        read=read,
        files=tuple(dict.fromkeys((*beside, *state.files))),
        words=_words(path),
    )


def _architecture(plain: Mapping[str, Any]) -> str:
    """The one class that the file names, or the one that models of its type are read with."""
    names: Any = plain.get("architectures") or [_OF_TYPE.get(str(plain.get("model_type")))]
    if not isinstance(names, list) or len(names) != 1 or str(names[0]) not in FAMILIES:  # pyright: ignore[reportUnknownArgumentType]
        raise ModelFileError(
            f"architectures={names!r:.120}", f"one of {', '.join(FAMILIES)}", "convert the model to one of these"
        )
    return str(names[0])  # pyright: ignore[reportUnknownArgumentType]


def _config(fields: Fields, family: Family) -> ModelConfig:
    fields.ignore(_HARMLESS)
    fields.must_be(is_encoder_decoder=False, tie_encoder_decoder=False, add_cross_attention=False, pruned_heads={})
    config = family.read_config(fields)
    fields.finish()
    return config


def _state_dict_path(folder: Path) -> Path:
    for name in STATE_DICTS:
        if (folder / name).exists():
            return folder / name
    raise ModelFileError("no tensors beside config.json", f"one of {', '.join(STATE_DICTS)}", "fetch the whole folder")


def _words(folder: Path) -> Path | None:
    if (folder / "tokenizer.json").exists():
        return folder / "tokenizer.json"
    return folder / "vocab.json" if (folder / "vocab.json").exists() and (folder / "merges.txt").exists() else None
