# pyright: basic, reportMissingImports=false
# Peers carry no types.
"""Text from a model of GPT-2-small shape, the likeliest token each time, keys and values kept: beside transformers with the same weights."""

import math
import tempfile
from pathlib import Path
from typing import Any

import torch

from headwater.bench.contest import absent, close, contest
from headwater.bench.forward import drawn, tokens
from headwater.bench.goals import Table, at_least, shown
from headwater.bench.phases import operations

PROMPT, MOST, ROUNDS = 64, 48, 3
TITLE = f"Generation: GPT-2-small shape, random weights, {MOST} tokens after {PROMPT}, float32, the likeliest each time"
OURS, PEER, FLOOR = "headwater", "transformers", "every weight read once for each token, alone"

BOUND = (
    "One token at a time, both sides wait for the memory that all weights are read from; what differs is what Python does between the"
    " products, which is as much here as there."
)


def table(rounds: int) -> Table:
    with tempfile.TemporaryDirectory() as folder:
        _export(Path(folder) / "gpt2")
        jobs = {OURS: "generation:ours", PEER: f"generation:peer:{folder}/gpt2", FLOOR: "generation:reading"}
        results = contest(jobs, rounds)
    close("the tokens", (results[OURS], results[PEER]), 0.0)
    ours, peer, floor = results.values()
    rows = [["", "tokens/s", "MB over the model"]]
    rows += [[name, shown(MOST / each.seconds, 1), shown(each.megabytes, 0)] for name, each in results.items()]
    name, limit = "times as fast as transformers", peer.seconds / floor.seconds
    return Table(
        rows,
        [at_least(name, peer.seconds / ours.seconds, 1.0, limit=limit, why="generation:why", because=BOUND)],
        absent(results),
    )


def _export(folder: Path) -> None:
    from headwater.model.export import export_hugging_face

    export_hugging_face(drawn(), folder)


def _prompt() -> list[int]:
    return tokens()[0, :PROMPT].tolist()


def _told(ids: list[int]) -> float:
    """A number that other tokens would not give, nor the same in another order."""
    assert len(ids) == MOST
    return math.fsum((place + 1) * token for place, token in enumerate(ids))


def ours():
    from headwater.model.generate import Sampling, generate

    weights, prompt = drawn(), _prompt()
    return lambda: _told(list(generate(weights, prompt, Sampling(temperature=0.0), most=MOST)))


def peer(folder: str):
    from transformers import GPT2LMHeadModel
    from transformers.utils import logging

    logging.disable_progress_bar()
    model: Any = GPT2LMHeadModel.from_pretrained(folder, attn_implementation="sdpa").eval()
    prompt = torch.tensor([_prompt()])
    asked = {"do_sample": False, "max_new_tokens": MOST, "min_new_tokens": MOST, "use_cache": True, "pad_token_id": 0}

    @torch.inference_mode()
    def run() -> float:
        return _told(model.generate(prompt, attention_mask=torch.ones_like(prompt), **asked)[0, PROMPT:].tolist())  # pyright: ignore[reportAttributeAccessIssue]

    return run


def reading():
    """A product with one row for every matrix and every token: what one token at a time costs anybody."""
    weights = drawn()
    matrices = [weights.W_U]
    for block in weights.blocks:
        assert block.feed_forward is not None
        matrices += [
            W.transpose(0, 1).reshape(768, 768) for W in (block.attention.W_Q, block.attention.W_K, block.attention.W_V)
        ]
        matrices += [block.attention.W_O.reshape(768, 768), block.feed_forward.W_in, block.feed_forward.W_out]
    lines = {size: torch.randn(1, size) for size in (768, 3072)}

    @torch.inference_mode()
    def run() -> None:
        for _ in range(MOST):
            for W in matrices:
                torch.mm(lines[len(W)], W)

    return run


def why():
    return operations(ours())
