"""nanoGPT's ``ckpt.pt``: a dictionary with ``model_args`` and ``model``; what else it holds is left alone."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.errors import ModelFileError
from headwater.files import pickles
from headwater.model.config import Attention, FeedForward, LayerNorm, LearnedPositions, ModelConfig, PreNorm, Unembedding
from headwater.model.foreign import gpt2, state_dict
from headwater.model.foreign.fields import Fields, reading
from headwater.model.foreign.links import Link, matrix
from headwater.model.source import Source

if TYPE_CHECKING:
    from torch import Tensor

# GPT-2's layout, but that matrices are those of nn.Linear: [out, in].
_TRANSPOSED = (
    Link(
        "h.{layer}.attn.c_attn.weight",
        ("attn.W_Q", "attn.W_K", "attn.W_V"),
        "(part head d_head) d_model",
        "head d_model d_head",
    ),
    Link("h.{layer}.attn.c_proj.weight", ("attn.W_O",), "d_model (head d_head)", "head d_head d_model"),
    matrix("h.{layer}.mlp.c_fc.weight", "mlp.W_in"),
    matrix("h.{layer}.mlp.c_proj.weight", "mlp.W_out"),
)
_OTHERWISE = {link.foreign: link for link in _TRANSPOSED}
LAYOUT = replace(gpt2.LAYOUT, block=tuple(_OTHERWISE.get(link.foreign, link) for link in gpt2.LAYOUT.block))


def look(path: Path) -> Source:
    """The model in a nanoGPT checkpoint, or in the folder that has one, without its numbers."""
    file = path / "ckpt.pt" if path.is_dir() else path
    arguments, tree = _parts(pickles.look(file), file.name)
    with reading(file.name):
        config = read_config(Fields(arguments, place="model_args."))
        entries = state_dict.flat_entries(tree, "model")
        names = LAYOUT.match(config, entries)

    def read() -> "dict[str, Tensor]":
        stored = _parts(pickles.read(file), file.name)[1]
        return LAYOUT.load(config, state_dict.widened({bare: stored[name] for bare, name in names.items()}))

    # With a config.json beside it, it would be taken for a state dict of another kind.
    files = (file, file.parent / "config.json")
    return Source(path=path, format="nanoGPT", config=config, entries=entries, read=read, files=files)


def _parts(tree: Any, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    parts: list[Any] = [tree.get("model_args"), tree.get("model")] if isinstance(tree, dict) else [None, None]  # pyright: ignore[reportUnknownMemberType]
    if not all(isinstance(part, dict) and all(isinstance(key, str) for key in part) for part in parts):  # pyright: ignore[reportUnknownVariableType]
        raise ModelFileError(
            f"{name} has no model_args and model", "a nanoGPT checkpoint", "put a config.json beside a state dict"
        )
    return parts[0], parts[1]


def read_config(fields: Fields) -> ModelConfig:
    """The configuration that nanoGPT's ``model_args`` describe; the first checkpoints had biases and did not say so."""
    fields.ignore(["dropout"])
    d_model, heads, bias = fields.whole("n_embd"), fields.whole("n_head"), fields.flag("bias", default=True)
    if heads < 1 or d_model % heads:
        raise fields.unfit("n_head", heads, f"a divisor of n_embd={d_model}")
    config = ModelConfig(
        vocab=fields.whole("vocab_size"),
        context=fields.whole("block_size"),
        d_model=d_model,
        layers=fields.whole("n_layer"),
        attention=Attention(heads=heads, d_head=d_model // heads, input_bias=bias, output_bias=bias),
        feed_forward=FeedForward(d_mlp=4 * d_model, activation="gelu", bias=bias),
        norm=PreNorm(norm=LayerNorm(eps=1e-5, bias=bias)),
        positions=LearnedPositions(),
        unembedding=Unembedding(tied=True),
    )
    fields.finish()
    return config
