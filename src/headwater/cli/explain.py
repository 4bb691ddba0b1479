"""``headwater explain``: a logit followed upstream to the tokens that it came from, as a sum."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from cyclopts import Parameter

from headwater.cli.pictures import check_pictures, write_pictures
from headwater.cli.terminal import Flag, Whole, note, say, show_json, show_table, use_cores, working
from headwater.cli.texts import find_token, read_run
from headwater.cli.trees import show_tree
from headwater.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from headwater.trace.parts import Part, Split, Way
    from headwater.trace.run import Run


def explain(  # noqa: PLR0913  (each is one choice a person makes on the command line)
    model: Path,
    text: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    /,
    *,
    ids: Annotated[str | None, Parameter(help="Token ids instead of a text: 12,7,33.")] = None,
    position: Whole = -1,
    token: str | None = None,
    against: str | None = None,
    centred: Flag = False,
    part: Annotated[list[str] | None, Parameter(negative="", consume_multiple=True)] = None,
    by: str | None = None,
    depth: Whole = 2,
    most: Whole = 8,
    share: float | None = None,
    budget: Whole | None = None,
    totals: Flag = False,
    save: Path | None = None,
    json: Flag = False,
    html: Path | None = None,
    svg: Path | None = None,
) -> None:
    """Say why the model gives a token its logit: who wrote it, from which tokens, in parts that add up to the number.

    First come the components that wrote to the stream: embedding, positions, heads, feed-forward layers, biases. Below each part stands what it is made
    of, one step further upstream: a head's sources, then what wrote those. Lists are cut to the largest parts; the others are one exact remainder. The
    certificate is how far the sum of the parts is from the model's own number.

    Attention patterns, the scales of norms and the gates of activations are held as the run measured them; ``headwater ablate`` shows how far that carries.

    Parameters
    ----------
    model
        A model's file or folder, in any format that Headwater reads; a run's folder; the name of one of ours; or, without a text, a file that --save wrote.
    text
        The text; - reads it from standard input.
    position
        Of the token after which the logit is: from 0, or from the end where it is negative.
    token
        The token to explain, as text or as #id; the likeliest unless said otherwise. Many tokens begin with a space.
    against
        Another token: the difference of the two logits is explained, which is that of their log-probabilities.
    centred
        How far the logit is above the mean of all, which is what a softmax can see.
    part
        Open this part instead, by its name: L1H4, L0.feed_forward; several lead down one after the other: L1H4 @3 (the source at position 3),
        L0.feed_forward L0N17 (a neuron).
    by
        How to take it apart: component, head, layer, source, token, order, path; a feed-forward layer also by neuron.
    depth
        Levels of the tree.
    most
        Parts in each list; below the first level, parts too small for a bar are left to the remainder too.
    share
        With --by path: follow parts until this share of the absolute effect is resolved (0.9).
    budget
        With --by path: take apart at most so many parts (300).
    totals
        What every token, head, layer and order comes to, through everything downstream, by one sweep.
    save
        Write the run to a file, to be asked again without the model.
    json
        Print one JSON document instead of a tree.
    html
        Write a page, self-contained: .html.
    svg
        Draw the tree to a file: .svg, .png or .pdf.
    """
    check_pictures(html, svg)
    if save is not None and not save.absolute().parent.is_dir():
        raise InputError(f"--save {save}", "a folder that is there", f"make {save.parent} first")
    if depth < 1 or most < 1:
        raise InputError(f"--depth {depth} --most {most}", "numbers from 1 on", "ask for at least one")
    if totals:
        _check_alone({"--centred": centred, "--part": part, "--by": by, "--share": share, "--budget": budget})
    if by not in (None, "path") and (share, budget) != (None, None):
        raise InputError(f"--share or --budget with --by {by}", "paths to follow", "write --by path, or leave them out")
    use_cores()
    run = read_run(model, text, ids)
    if save is not None:
        run.save(save)
        note(f"written to {save}")
    why = run.explain(position, find_token(run, token), find_token(run, against), centred=centred)
    if totals:
        _tell_totals(run, why, str(model), json=json, html=html, svg=svg)
        return
    with working("following the parts upstream"):
        split = _opened(why, part or [], by, most=most, walk=(share, budget))
        tree = split.tree(depth, most=most)
    if json:
        show_json({"model": str(model), **document(split, depth, most)})
    else:
        show_tree(tree)
        is_bare = (text, ids, position, token, against, centred) == (None, None, -1, None, None, False)
        _hint(split, str(model) if is_bare else f"{model} …", part or [])
    write_pictures([replace(tree, title=split.label)], split.label, html=html, svg=svg)


def _check_alone(others: dict[str, Any]) -> None:
    """Totals are of the logit or the difference itself, and of all of it."""
    given = [name for name, value in others.items() if value]
    if given:
        raise InputError(f"--totals with {', '.join(given)}", "one of them", "leave out the one or the other")


def _opened(why: "Split", parts: list[str], by: str | None, *, most: int, walk: "tuple[float | None, int | None]") -> "Split":
    """The split that was asked for: some parts further down, taken apart one way or another."""
    from headwater.trace.parts import Way

    if by is not None and by not in get_args(Way):
        raise InputError(f"--by {by}", f"one of {', '.join(get_args(Way))}", did_you_mean(by, get_args(Way)))
    way: Any = by
    split = why
    for number, name in enumerate(map(_named, parts)):
        found = split.split(_way_to(split, name), most=None)[name]
        last = number == len(parts) - 1
        opened = found.split(way if last else None, most=most if last else None)
        split = replace(opened, label=f"{found.label} in {split.label}", ending=found.label, remarks=split.remarks)
    if by == "path" or walk != (None, None):
        return split.walk(share=walk[0], budget=walk[1], most=most)
    return split.split(way, most=most) if not parts else split


def _way_to(split: "Split", name: str) -> "Way":
    """A neuron is a part of its layer only when that is taken apart by neurons."""
    ways = split.node.ways
    neuron = re.fullmatch(r"(L\d+)N\d+", name, re.ASCII)
    if neuron is None:
        return ways[0]
    if "neuron" not in ways:
        raise InputError(f"--part {name}", "its layer before it", f"write --part {neuron[1]}.feed_forward {name}")
    return "neuron"


def _named(part: str) -> str:
    """A part's name as it is listed: l0h5 is L0H5, as for other verbs."""
    return part.upper() if re.fullmatch(r"[Ll]\d+[HhNn]\d+", part, re.ASCII) else re.sub(r"^l(?=\d+\.)", "L", part)


def document(split: "Split", depth: int, most: int) -> dict[str, Any]:
    """A split for programs, and below each part its own parts, ``depth`` levels in all."""

    def told(part: "Part", left: int) -> dict[str, Any]:
        plain = part.plain()
        if left < 1 or not part.ways or part.kind in ("remainder", "path"):
            return plain
        below = part.split(most=most)
        return plain | {
            "certificate": below.certificate,
            "by": below.by,
            "parts": [told(each, left - 1) for each in below.parts],
        }

    return split.plain() | {"remarks": [*split.remarks, *split.aside], "parts": [told(part, depth - 1) for part in split.parts]}


def _hint(split: "Split", model: str, opened: list[str]) -> None:
    deeper = next((part for part in split.parts if part.ways and part.kind in ("head", "feed-forward")), None)
    if deeper is not None:
        way = " ".join([*opened, deeper.facts["name"]])
        others = ", ".join(each for each in deeper.ways if each != deeper.ways[1])
        note(f"further: headwater explain {model} --part {way} --by {deeper.ways[1]}; other ways: {others}")


def _tell_totals(run: "Run", why: "Split", model: str, *, json: bool, html: Path | None, svg: Path | None) -> None:
    found = run.totals(why.facts["position"], why.facts["id"], why.facts.get("against_id"))
    if json:
        show_json({"model": model, "label": why.label, "value": why.value, **found.plain()})
    else:
        say(f"{why.label}: {why.value:+.3f}")
        for table in found.tables():
            show_table(table.columns, table.rows, title=f"\n{table.title}")
        say(f"\n{found.remark()}")
    write_pictures([*found.tables(), found.grid()], why.label, html=html, svg=svg, remarks=[found.remark()])
