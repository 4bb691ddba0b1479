"""A walk through one block, step by step: the documents' ``t0, t1 … t5, h`` with the numbers of one token."""

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from torch import Tensor

from headwater.claims.figures.block import post_norm
from headwater.claims.registry import all_claims
from headwater.errors import InputError
from headwater.model.config import ModelConfig, NoNorm, PostNorm, RMSNorm
from headwater.shapes import floats
from headwater.studio.asked import Answer, Lines, Named, Position, Text, TokenTold, finite, shelf, worked
from headwater.studio.documents_measured import given, item_of
from headwater.studio.errors import Refused
from headwater.studio.formulas import Formula, formula
from headwater.studio.lines import command, recorded, text_in_python
from headwater.studio.shared import Norms, Said, norms_of, told_said, told_token
from headwater.studio.work import Stop
from headwater.trace.question import within
from headwater.trace.rounding import Apart, sums_apart
from headwater.trace.run import Run
from headwater.trace.view.stages import Role, Seen, see

router = APIRouter()
LETTERS = ("t0", "t1", "t2", "t3", "t4", "t5", "h")
PRINTED = {letter: f"002-E10.{31 + number}" for number, letter in enumerate(LETTERS) if number}
"""By step: the claim that holds the document's own equation, of a post-norm block."""
Operation = Literal["in", "attention", "add", "norm", "feed_forward"]
Layer = Annotated[int, Query(ge=-(2**31), le=2**31, description="Of a block; from the last where it is negative.")]
WhoseBlock = Annotated[
    Literal["model", "document"],
    Query(description="The model's own block, or the document's: a small post-norm block, trained here in a few seconds."),
]


class StepTold(Answer):
    """One step of a block."""

    letters: list[str]
    """Its names; several where steps hold the same numbers."""
    name: str
    """As the stage is called: ``L0.t3``."""
    role: Role
    operation: Operation
    reads: list[str]
    """The letters of the steps that it is made of."""
    equation: Formula
    claim: str | None
    """The claim with the document's equation, where this block computes just that."""
    vector: list[float]
    length: float
    mean: float
    deviation: float
    cosine: float | None
    """With the stream before, with what is copied, or with what it is added to."""
    lens: list[Said]
    """What the model would say if this were its last stage."""
    entropy: float


class Walked(Answer):
    """A block and what it did with one token."""

    model: str
    norms: Norms
    layers: int
    layer: int
    position: int
    tokens: list[TokenTold]
    steps: list[StepTold]
    certificate: float
    """How far the sums of the walk are from the model's own numbers, at the most."""
    bound: float
    lines: Lines


@router.get("/documents/block")
async def block(
    request: Request, model: Named, text: Text, position: Position = -1, layer: Layer = 0, of: WhoseBlock = "model"
) -> Walked:
    """A walk through a block with real numbers."""

    def compute(stop: Stop) -> Walked:
        run = shelf(request).run(model, text, stop) if of == "model" else _document_run(request, text, stop)
        if not run.config.layers:
            raise InputError("a model without blocks", "a model with layers", "choose another model")
        number = within(layer, run.config.layers, "layer")
        at = within(position, run.tokens.shape[1], "position")
        name = item_of(request, model).name if of == "model" else None
        return _walked(model, run, number, at, _lines(name, text, run, at))

    return await worked(request, "model", compute)


def _lines(model: str | None, text: str, run: Run, at: int) -> Lines:
    """How to have it of a model; without one, of the document's block."""
    if model is None:
        return Lines.of(
            "from headwater.claims.figures.block import post_norm\nfrom headwater.claims.given import Given\n"
            f"with Given() as given:\n    print(post_norm(given)[0].record({text_in_python(text, run)}).stream([{at}], top=3))",
            "headwater claims 003-FIG5 --json",
        )
    return Lines.of(
        f"import headwater as hw\nprint({recorded(model, text, run)}.stream([{at}], top=3))",
        command("stream", model, text, run, f"--position {at} --top 3 --json"),
    )


def _document_run(request: Request, text: str, stop: Stop) -> Run:
    """The document's own block on a text."""
    if text.startswith("ids:"):
        raise Refused(422, "ids for the document's block", "a text", "write it in letters")
    model, _ = post_norm(given(request, None, stop))
    tokens = model.tokens(text)
    if tokens.shape[1] > model.config.context:
        needed = f"at most {model.config.context} for this small block"
        raise Refused(413, f"a text of {tokens.shape[1]:,} tokens", needed, "give a shorter one")
    return model.record(tokens)


def _walked(model: str, run: Run, layer: int, at: int, lines: Lines) -> Walked:
    seen, view = see(run, [at]), run.stream([at], top=3)
    steps: list[StepTold] = []
    for step in _steps(run.config):
        stage = seen.stage(f"L{layer}.{step.letters[0]}")
        row, vector = view.index(stage.name), seen[stage.name][0].double()
        steps.append(
            StepTold(
                letters=step.letters,
                name=f"L{layer}.{step.letters[0]}",
                role=stage.role,
                operation=step.operation,
                reads=step.reads,
                equation=_equation(step, run.config),
                claim=_printed(step, run.config),
                vector=floats(vector),
                length=float(view.norm[row, 0]),
                mean=float(vector.mean()),
                deviation=float(vector.std(correction=0)),
                cosine=finite(view.cosine_before[row, 0]),
                lens=told_said(run, view.lenses[row].likeliest(0)),
                entropy=float(view.lenses[row].entropy[0]),
            )
        )
    apart = _added_up(seen, layer)
    return Walked(
        model=model,
        norms=norms_of(run.config),
        layers=run.config.layers,
        layer=layer,
        position=at,
        tokens=[told_token(run, int(token)) for token in run.tokens[0]],
        steps=steps,
        certificate=apart.certificate,
        bound=apart.bound,
        lines=lines,
    )


def _added_up(seen: Seen, layer: int) -> Apart:
    """The steps of a block that are sums, against what they are the sums of."""

    def vector(letter: str) -> Tensor:
        return seen[f"L{layer}.{letter}"][0]

    adding = [step for step in _steps(seen.record.config) if step.operation == "add"]
    return sums_apart([(vector(step.letters[0]), [vector(letter) for letter in step.reads]) for step in adding])


@dataclass(frozen=True)
class _Step:
    letters: list[str]
    operation: Operation
    reads: list[str]


def _steps(config: ModelConfig) -> list[_Step]:
    """The steps of a block in order; those that hold the same numbers are one."""
    if isinstance(config.norm, PostNorm):
        whole = [_Step(["t1"], "attention", ["t0"]), _Step(["t2"], "add", ["t0", "t1"]), _Step(["t3"], "norm", ["t2"])]
        rest = [_Step(["t4"], "feed_forward", ["t3"]), _Step(["t5"], "add", ["t3", "t4"]), _Step(["h"], "norm", ["t5"])]
        if config.feed_forward is None:
            whole[-1], rest = _Step(["t3", "h"], "norm", ["t2"]), []
        return [_Step(["t0"], "in", []), *whole, *rest]
    is_bare, feed_forward = isinstance(config.norm, NoNorm), config.feed_forward
    found = [_Step(["t0", "t1"], "in", [])] if is_bare else [_Step(["t0"], "in", []), _Step(["t1"], "norm", ["t0"])]
    found.append(_Step(["t2"], "attention", ["t1"]))
    if feed_forward is None:
        return [*found, _Step(["t3", "h"], "add", ["t0", "t2"])]
    read = "t0" if feed_forward.reads == "beside-attention" else "t3"
    found.append(_Step(["t3"], "add", ["t0", "t2"]))
    if is_bare and read == "t3":
        found[-1] = _Step(["t3", "t4"], "add", ["t0", "t2"])
    elif not is_bare:
        found.append(_Step(["t4"], "norm", [read]))
    reads = [read] if is_bare and read == "t0" else ["t4"]
    return [*found, _Step(["t5"], "feed_forward", reads), _Step(["h"], "add", ["t3", "t5"])]


def _printed(step: _Step, config: ModelConfig) -> str | None:
    """The claim with the document's equation of a step; none where this block computes something else there."""
    is_theirs = isinstance(config.norm, PostNorm) and not (step.operation == "norm" and isinstance(config.norm.norm, RMSNorm))
    return PRINTED.get(step.letters[0]) if is_theirs else None


def _equation(step: _Step, config: ModelConfig) -> Formula:
    """The document's own equation where the block computes that, else the same letters in the order of this block."""
    printed = _printed(step, config)
    found = formula(all_claims()[printed].formula if printed else _written(step, config))
    assert found is not None, "every step has one"
    return found


def _written(step: _Step, config: ModelConfig) -> str:
    norm = getattr(config.norm, "norm", None)
    normed = r"\mathrm{RMSNorm}" if isinstance(norm, RMSNorm) else r"\mathrm{LayerNorm}"
    left = " = ".join(_letter(letter) for letter in step.letters)
    reads = [_letter(letter) for letter in step.reads]
    match step.operation:
        case "in":
            return f"{left} = x_i"
        case "attention":
            return rf"{left} = \mathrm{{MultiHeadAttention}}({reads[0]}_i, [{reads[0]}_1, \dots, {reads[0]}_i])"
        case "norm":
            return f"{left} = {normed}({reads[0]})"
        case "feed_forward":
            return rf"{left} = \mathrm{{FFN}}({reads[0]})"
        case _:
            return f"{left} = {' + '.join(reads)}"


def _letter(letter: str) -> str:
    return f"{letter[0]}^{letter[1]}" if letter != "h" else "h_i"
