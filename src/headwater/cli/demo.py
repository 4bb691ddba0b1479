"""``headwater demo``: the main job on embedded defaults."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli.terminal import note, show_json, show_table, use_cores

if TYPE_CHECKING:
    from headwater.api import Model

NAME, TEXT, MOST = "one-layer", "for line in open(", 40


def demo(*, json: bool = False) -> int:
    """Take the one-layer model that comes with Headwater, let it speak, look inside and check what it says.

    Parameters
    ----------
    json
        Print one JSON document.
    """
    from headwater.api import load
    from headwater.cli.inspect import describe
    from headwater.model.sources import look

    use_cores()
    model = load(NAME)
    said = _continue(model)
    checks = _checks(model)
    passed = all(difference <= bound for _, difference, bound in checks)
    if json:
        rows = [{"check": name, "difference": difference, "bound": bound} for name, difference, bound in checks]
        show_json({"model": NAME, "text": said, "checks": rows, "ok": passed})
        return 0 if passed else 1
    show_table(["", ""], describe(look(NAME)))
    show_table(["", ""], [["it says", said]], title="\n")
    rows = [
        [name, f"{difference:.1e}", f"{bound:.0e}", "yes" if difference <= bound else "NO"]
        for name, difference, bound in checks
    ]
    show_table(["check", "difference#", "bound#", "holds"], rows, title="\nwhat the model says, said in other ways")
    note(
        f'try: headwater heads {NAME} · headwater generate {NAME} "{TEXT}" · headwater eval {NAME} · headwater study induction two-layer · headwater train'
    )
    return 0 if passed else 1


def _continue(model: "Model") -> str:
    from headwater.model.generate import Sampling

    assert model.tokenizer is not None, "our own models have words"
    ids = [int(token) for token in model.tokens(TEXT)[0]]
    return model.tokenizer.decode([*ids, *model.generate(TEXT, Sampling(temperature=0.7, seed=0), most=MOST)])


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
    stream = watch.kept["embed"] + watch.kept["L0.head_writes"].sum(dim=1)
    q, k, v = (watch.kept[f"L0.{site}"] for site in ("queries", "keys", "values"))
    rule = Rule("causal", double.config.d_head**-0.5)
    forms = [form(q, k, v, rule) for form in (attention.four_steps, attention.matrix, attention.blockwise, attention.fused)]
    centred = forward(fold.centre_unembed(double), tokens).log_softmax(-1)

    def apart(one: torch.Tensor, other: torch.Tensor) -> float:
        return float((one - other).abs().max())

    return [
        ("embedding and heads, added up, and the logits", apart(stream @ double.W_U, plain), 1e-12),
        ("recorded and unrecorded logits", apart(plain, recorded), 1e-12),
        ("attention in loops, matrices, blocks, fused", max(apart(forms[0], form) for form in forms[1:]), 1e-12),
        ("log-probabilities after centring W_U", apart(plain.log_softmax(-1), centred), 1e-12),
        ("float32 and float64 logits", apart(forward(model.weights, tokens).double(), plain), 1e-4),
        ("weights, and weights saved and loaded", _saved(model), 0.0),
    ]


def _saved(model: "Model") -> float:
    from headwater.api import load

    with tempfile.TemporaryDirectory(prefix="headwater-") as folder:
        model.save(Path(folder) / "model")
        again = load(Path(folder) / "model").weights.tensors()
    return max(float((tensor - again[name]).abs().max()) for name, tensor in model.weights.tensors().items())
