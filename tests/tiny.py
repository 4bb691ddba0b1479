"""A training that takes a second, for tests of all that may happen to one."""

from pathlib import Path

TEXT = "".join(f"line {number} of a small text, {number % 7} and {number % 5}\n" for number in range(6000))

RECIPE = """
name = "tiny"
[text]
source = {{ kind = "files", paths = ["{text}"] }}
tokenizer = "bytes"
held_out = 0.2
[model]
vocab = 256
context = 16
d_model = 16
layers = 1
attention = {{ heads = 2, d_head = 8 }}
positions = {{ kind = "sinusoidal-positions", into = "queries-and-keys" }}
norm = {{ kind = "pre-norm", norm = "layer-norm" }}
[training]
steps = 12
batch = 8
pieces = 2
learning_rate = 1e-2
warmup = 2
[keeping]
evaluate_every = 4
log_every = 1
checkpoint_every = 4
evaluation_tokens = 256
"""


def tiny_recipe(folder: Path) -> Path:
    """The recipe's file, with its text beside it."""
    (folder / "text.txt").write_text(TEXT)
    path = folder / "tiny.toml"
    path.write_text(RECIPE.format(text=folder / "text.txt"))
    return path
