"""``headwater demo``: the main job on embedded defaults."""

from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli.terminal import note, show_json, show_table, use_cores
from headwater.errors import InputError

if TYPE_CHECKING:
    from headwater.api import Model

TEXT = "one two three one two"


def demo(*, folder: Path = Path("models/demo"), json: bool = False) -> int:
    """Make a small one-layer model, save it, load it, look inside and check what it says.

    The model is untrained: it shows the machinery, not a language.

    Parameters
    ----------
    folder
        Where the model is kept; made on the first run.
    json
        Print one JSON document.
    """
    from headwater.api import load
    from headwater.cli.inspect import describe
    from headwater.model.sources import look

    use_cores()
    if not folder.exists():
        note(f"drawing a one-layer model, seed 0, into {folder}")
        _draw().save(folder)
    model = load(folder)
    if model.config != _draw().config:
        raise InputError(f"{folder} holds another model", "the demo's own, or no folder yet", "choose another --folder")
    checks = _checks(model)
    passed = all(difference <= bound for _, difference, bound in checks)
    if json:
        rows = [{"check": name, "difference": difference, "bound": bound} for name, difference, bound in checks]
        show_json({"path": str(folder), "checks": rows, "ok": passed})
    else:
        show_table(["", ""], describe(look(folder)))
        rows = [
            [name, f"{difference:.1e}", f"{bound:.0e}", "yes" if difference <= bound else "NO"]
            for name, difference, bound in checks
        ]
        show_table(["check", "difference#", "bound#", "holds"], rows, title="\nwhat the model says, said in other ways")
        note(f'try: headwater inspect {folder} · headwater generate {folder} "{TEXT}"')
    return 0 if passed else 1


def _draw() -> "Model":
    from dataclasses import replace

    from headwater.api import Model
    from headwater.model.presets import named
    from headwater.model.weights import Weights
    from headwater.text.tokenizer import byte_tokenizer

    return Model(Weights.draw(replace(named("one-layer"), vocab=256), seed=0), byte_tokenizer())


def _checks(model: "Model") -> list[tuple[str, float, float]]:
    """Ways to say the same thing, and how far apart they are: name, largest difference, bound."""
    import torch

    from headwater.model import attention, fold
    from headwater.model.attention import Rule
    from headwater.model.forward import forward
    from headwater.model.taps import Recorder

    tokens = model.tokens(TEXT)
    double = model.weights.to(dtype=torch.float64)
    plain, recorded = forward(double, tokens), forward(double, tokens, watch := Recorder(["*"]))
    q, k, v = (watch.kept[f"L0.{site}"] for site in ("queries", "keys", "values"))
    rule = Rule("causal", double.config.d_head**-0.5)
    forms = [form(q, k, v, rule) for form in (attention.four_steps, attention.matrix, attention.blockwise, attention.fused)]
    centred = forward(fold.centre_unembed(double), tokens).log_softmax(-1)
    drawn = _draw().weights

    def apart(one: torch.Tensor, other: torch.Tensor) -> float:
        return float((one - other).abs().max())

    return [
        ("recorded and unrecorded logits", apart(plain, recorded), 1e-12),
        ("attention in loops, matrices, blocks, fused", max(apart(forms[0], form) for form in forms[1:]), 1e-12),
        ("log-probabilities after centring W_U", apart(plain.log_softmax(-1), centred), 1e-12),
        ("float32 and float64 logits", apart(forward(model.weights, tokens).double(), plain), 1e-4),
        (
            "weights drawn again, and saved and loaded",
            max(apart(a, b) for a, b in zip(model.weights.tensors().values(), drawn.tensors().values(), strict=True)),
            0.0,
        ),
    ]
