"""What somebody tries who comes from elsewhere, or mistypes: it says what to write instead, and never means something else.

Tests check annotations wherever the package is called, which would refuse most of this before the package sees it. So all of it is tried in a
process where nobody does, as a stranger's would be.
"""

import json
import subprocess
import sys

import pytest

BEGIN = """
import json, sys
import numpy as np, torch
import headwater as hw
model = hw.load("two-layer")
run = model.record([5, 6, 7])
texts = model.record(torch.tensor([[1, 2], [3, 4]]))
attempts, told = json.load(sys.stdin), []
for attempt in attempts:
    try:
        told.append(["", repr(eval(attempt))])
    except Exception as error:
        told.append([type(error).__name__, str(error)])
print(json.dumps(told))
"""
REFUSED = {
    # Words of TransformerLens.
    'model.run_with_cache("a")': ("AttributeError", "is model.record(text) here"),
    'model.to_tokens("a")': ("AttributeError", "is model.tokens(text) here"),
    "model.W_E": ("AttributeError", "is model.weights.W_E here"),
    "model.W_Q": ("AttributeError", "is model.weights.blocks[layer].attention.W_Q here"),
    "model.nothing": ("AttributeError", "'Model' object has no attribute 'nothing'"),
    'run["blocks.1.attn.hook_z"]': ("InputError", "is L1.mixed here"),
    'run["pattern", -1]': ("InputError", "is L1.pattern here"),
    'run["resid_post", 0]': ("InputError", "is L0.out here"),
    'run["blocks.9.attn.hook_z"]': ("InputError", "use one of: embed"),
    "run[0]": ("InputError", "no site is called 0"),
    'model.record([1], ["blocks.*.attn.hook_pattern"])': ("InputError", "is L*.pattern here"),
    # A misspelt word must not mean its opposite.
    'run.looks("L0H3", "score")': ("InputError", "did you mean scores?"),
    'model.reordered("Pre")': ("InputError", "did you mean pre?"),
    "hw.ModelConfig(vocab=5, context=4, d_model=4, layers=0, norm=None)": ("ConfigError", "norm is None"),
    'model.record([1], tap=hw.Zero("L0H1"))': ("InputError", "write model.place('L0H1')"),
    'model.heads(quick=True, examples=0).composition.of("QK")': ("InputError", "composition by QK"),
    # Several texts where one is needed, and other shapes.
    'model.record(["a", "b"])': ("InputError", "for several texts of one length, a tensor"),
    "list(model.generate(torch.tensor([[1, 2], [3, 4]])))": ("InputError", "one by one"),
    "texts.top()": ("InputError", "a run of 2 texts"),
    "model.record(torch.tensor([1, 2], dtype=torch.uint8))": ("InputError", "give int64"),
    "model.record(torch.zeros(1, 1, 2, dtype=torch.long))": ("InputError", "tokens of shape [1, 1, 2]"),
    # Numbers where names are needed, and the other way round.
    "run.explain()[0]": ("InputError", "write .parts"),
    "run.explain(True)": ("InputError", "True as a position"),
    "run.explain(1.0)": ("InputError", "1.0 as a position"),
    "model.direct[0]": ("InputError", "its row and its column"),
    'model.direct[" the", " of"]': ("InputError", "tokenizer.encode"),
    'model.record([1], tap=hw.Zero(hw.Place("L0.head_writes", unit=-1)))': ("InputError", "numbers from 0 to 3"),
    'model.place(hw.Place("L0.out", unit=1))': ("InputError", "the place L0.out, number 1"),
    # Places that are not there.
    'run.save("/nowhere/at/all.run")': ("InputError", "cannot be written"),
    'hw.load("x" * 5000)': ("ModelFileError", "cannot be read"),
    'hw.open_corpus("/nowhere/at/all")': ("ModelFileError", "is not there"),
}
UNDERSTOOD = {
    "run.explain(np.int64(1)).value == run.explain(torch.tensor(1)).value == run.explain(1).value": "True",
    "run.stream(-1).positions": "(2,)",
    "[part.label for part in run.explain()] == [part.label for part in run.explain().parts]": "True",
    '[str(one.head) for one in model.heads("L1H2", quick=True, examples=0)]': "['L1H2']",
    'run.effect(hw.Head(0, 1)).change == run.effect("L0H1").change': "True",
    'sorted(run.together(["L1.pattern", "L0.pattern", "logits"]))': "['L0.pattern', 'L1.pattern', 'logits']",
}


@pytest.fixture(scope="module")
def told():
    attempts = [*REFUSED, *UNDERSTOOD]
    process = subprocess.run(
        [sys.executable, "-c", BEGIN], input=json.dumps(attempts), capture_output=True, text=True, timeout=250, check=True
    )
    return dict(zip(attempts, json.loads(process.stdout), strict=True))


@pytest.mark.parametrize("attempt", REFUSED)
def test_a_stranger_is_told_what_to_write(told, attempt):
    kind, words = REFUSED[attempt]
    assert told[attempt][0] == kind
    assert words in told[attempt][1]


@pytest.mark.parametrize("attempt", UNDERSTOOD)
def test_what_can_only_mean_one_thing_is_understood(told, attempt):
    assert told[attempt] == ["", UNDERSTOOD[attempt]]
