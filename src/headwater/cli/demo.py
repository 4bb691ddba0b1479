"""``headwater demo``: the main job on embedded defaults."""

import json as plain_json
import tempfile
import time
import urllib.parse
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli.terminal import Flag, note, say, show_json, show_table, use_cores, watched
from headwater.cli.trees import show_tree
from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.api import Model
    from headwater.atlas.found import Found

NAME, TEXT, MOST = "one-layer", "for line in open(", 40
ATLAS, SHOWN = Path("models/one-layer/atlas"), 12
MARGIN = 15.0
"""Seconds beyond those after which a studio gives a question up by itself, and says so."""


def demo(*, browser: bool = True, json: Flag = False) -> int:
    """Take the one-layer model that comes with Headwater, let it speak, say why, check that the parts add up, write out its tables, and open the studio.

    The tables go to models/one-layer/atlas below the current folder, once: what is there is not made again. The studio stays open until Ctrl-C.

    Parameters
    ----------
    browser
        Open the studio in a browser. With --no-browser it is started, asked for its first picture, and ended again.
    json
        Print one JSON document, and open nothing.
    """
    from headwater.api import load
    from headwater.cli.inspect import describe
    from headwater.model.sources import look

    use_cores()
    model = load(NAME)
    said, why = _continue(model), model.record(TEXT).explain()
    checks = _checks(model)
    passed = all(difference <= bound for _, difference, bound in checks)
    table = _skip_trigrams()
    if json:
        rows = [{"check": name, "difference": difference, "bound": bound} for name, difference, bound in checks]
        show_json(
            {"model": NAME, "text": said, "explanation": why.plain(), "checks": rows, "atlas": table.plain(), "ok": passed}
        )
        return 0 if passed else 1
    show_table(["", ""], describe(look(NAME)))
    show_table(["", ""], [["it says", said]], title="\n")
    say("")
    show_tree(replace(why.split(most=4).tree(2, most=3), title="why that is the likeliest next token"))
    rows = [
        [name, f"{difference:.1e}", f"{bound:.0e}", "yes" if difference <= bound else "NO"]
        for name, difference, bound in checks
    ]
    show_table(["check", "difference#", "bound#", "holds"], rows, title="\nwhat the model says, said in other ways")
    found = table.table()
    show_table(found.columns, found.rows, title="\nskip-trigrams that saved most nats on held-out text")
    note(
        f'try: headwater atlas search {ATLAS} --source " try" · headwater explain {NAME} "{TEXT}" --by path · headwater attend two-layer "{TEXT}" --head L1H1 · headwater train'
    )
    return 0 if _studio(browser=browser) and passed else 1


def _studio(*, browser: bool) -> bool:
    """The studio on our own models, this one first; without a browser, whether it was asked for its first picture and that adds up."""
    from headwater.cli.studio import OURS, tell
    from headwater.studio.serve import Place, serve
    from headwater.studio.shelf import fill

    adds_up: list[bool] = []

    def look(address: str) -> bool:
        adds_up.append(_first_picture(address))
        return False

    say("")
    serve(fill(OURS), Place(), tell if browser else look, browse=browser)
    return browser or adds_up == [True]


def _first_picture(address: str) -> bool:
    """Ask a studio for a river, as its page does, and say how long that took and whether the parts add up."""
    from headwater.studio.limits import SECONDS

    begun, (place, token) = time.monotonic(), address.split("/?token=")
    asked = urllib.request.Request(  # noqa: S310  (it is our own)
        f"{place}/api/river?" + urllib.parse.urlencode({"model": NAME, "text": TEXT}),
        headers={"authorization": f"Bearer {token}"},
    )
    try:
        with urllib.request.urlopen(asked, timeout=SECONDS + MARGIN) as answer:  # noqa: S310
            river = plain_json.load(answer)
    except OSError as reason:
        raise HeadwaterError(
            f"no first picture ({reason})", "a studio that answers", "see what it said, and try again"
        ) from reason
    good = river["certificate"] <= river["bound"]
    took = time.monotonic() - begun
    say(
        f"the studio answers: first picture after {took:.1f} s, certificate {river['certificate']:.1e} ({'green' if good else 'RED'})"
    )
    return good


def _skip_trigrams() -> "Found":
    """What the model's heads learned that is worth most, from its atlas; which is built where it is not there yet."""
    from headwater.atlas.atlas import open_atlas
    from headwater.atlas.build import build_atlas
    from headwater.atlas.manifest import MANIFEST
    from headwater.train.own_text import HELD_OUT, Wanted, corpus_for

    if not (ATLAS / MANIFEST).exists():
        with watched("atlas") as tell, corpus_for(Path(NAME), Wanted([], None, HELD_OUT), tell) as corpus:
            build_atlas(NAME, ATLAS, corpus=corpus, progress=tell)
    with open_atlas(ATLAS) as atlas:
        return atlas.search(sort="nats", limit=SHOWN)


def _continue(model: "Model") -> str:
    from headwater.model.generate import Sampling

    assert model.tokenizer is not None, "our own models have words"
    ids = [int(token) for token in model.tokens(TEXT)[0]]
    return model.tokenizer.decode([*ids, *model.generate(TEXT, Sampling(temperature=0.7, seed=0), most=MOST)])


def _checks(model: "Model") -> list[tuple[str, float, float]]:
    """Ways to say the same thing, and how far apart they are: name, largest difference, bound."""
    import torch

    from headwater.api import Model
    from headwater.model import attention, fold
    from headwater.model.attention import Rule
    from headwater.model.forward import forward
    from headwater.model.taps import Recorder
    from headwater.trace.check import check

    tokens = model.tokens(TEXT)
    double = model.weights.to(dtype=torch.float64)
    plain, recorded = forward(double, tokens), forward(double, tokens, watch := Recorder(["*"]))
    found = check(Model(double).record(tokens))
    q, k, v = (watch.kept[f"L0.{site}"] for site in ("queries", "keys", "values"))
    rule = Rule("causal", double.config.d_head**-0.5)
    forms = [form(q, k, v, rule) for form in (attention.four_steps, attention.matrix, attention.blockwise, attention.fused)]
    centred = forward(fold.centre_unembed(double), tokens).log_softmax(-1)

    def apart(one: torch.Tensor, other: torch.Tensor) -> float:
        return float((one - other).abs().max())

    return [
        ("components, added up, and all logits", found.components, 1e-12),
        ("paths of all orders, added up, and all logits", found.paths, 1e-12),
        (f"{found.sampled} splits of logits, each and its parts", found.splits, 1e-12),
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
