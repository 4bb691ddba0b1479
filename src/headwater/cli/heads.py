"""``headwater heads``: what a model's weights say about its heads before any text is seen."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from headwater.cli.terminal import Flag, Whole, note, say, show_json, show_table, use_cores, watched
from headwater.errors import InputError
from headwater.show.plots import check_plot, draw

if TYPE_CHECKING:
    from headwater.api import Model
    from headwater.circuits.composition import Composition
    from headwater.circuits.copying import Panel
    from headwater.circuits.head import Head
    from headwater.circuits.overview import Choices, Overview
    from headwater.show.values import Table

DIRECT = "direct"
LONG = 2**42
"""Products of a survey of all heads above which it takes minutes."""
FEW = 60
"""Random circuits to compare with when it has to be quick."""


def heads(  # noqa: PLR0913  (each is one choice a person makes on the command line)
    model: Path,
    /,
    *,
    head: str | None = None,
    join: Annotated[list[str] | None, Parameter(negative="", consume_multiple=True)] = None,
    corpus: Path | None = None,
    offset: Whole = 0,
    examples: Whole = 3,
    quick: Flag = False,
    json: Flag = False,
    plot: Path | None = None,
) -> None:
    """Show what each head copies, matches, composes with, says and looks for, from the weights alone.

    One row for each head: the copying score Σλ/Σ|λ| of its OV circuit from tokens to logits, as it is and with each row's mean taken out,
    and what that amounts to beside random heads; how many tokens are the first and among the first ten of their own
    rows; the same score of its QK circuit; norms and effective ranks; where it looks by position; its strongest partner; and its largest
    entries.

    Parameters
    ----------
    model
        A model's file or folder, in any format that Headwater reads; a run's folder; or the name of one of ours.
    head
        One head in full, such as L1H4; or "direct", the path from tokens to logits that no head is on.
    join
        Heads whose OV circuits are added up and judged together, such as L0H1 L0H3.
    corpus
        The folder of a corpus in the model's tokens: shares also by how often tokens occur, norms at the corpus' mean scale.
    offset
        Under rotary positions: how many tokens back the sources are that scores are told for.
    examples
        How many of the largest entries to show; of each token only the first.
    quick
        Leave out where tokens stand in their own rows, which takes a pass over all vocab² entries of each circuit.
    json
        Print one JSON document instead of tables.
    plot
        Draw eigenvalues, spectra and composition to a file: .svg, .png or .pdf.
    """
    from headwater.api import load

    if plot is not None:
        check_plot(plot)
    if examples < 0:
        raise InputError(f"--examples {examples}", "a number from 0 on", "ask for none or for some")
    use_cores()
    loaded = load(model)
    asked = Asked(loaded, str(model), _choices(loaded, corpus, offset=offset, examples=examples, quick=quick))
    together = _names(join)
    if loaded.config.layers and not _is_direct(head):
        _tell_heads(asked, head, together, json=json, plot=plot)
    else:
        _check_direct(asked, head, together)
        _tell_direct(asked, json=json, plot=plot)


@dataclass(frozen=True)
class Asked:
    """A model, and how it is looked at."""

    model: "Model"
    name: str
    choices: "Choices"


def _choices(model: "Model", corpus: Path | None, *, offset: int, examples: int, quick: bool) -> "Choices":
    from headwater.circuits.chance import DRAWS, Draws
    from headwater.circuits.overview import Choices
    from headwater.model.config import RotaryPositions

    if offset and not isinstance(model.config.positions, RotaryPositions):
        raise InputError(f"--offset {offset} for a model without rotary positions", "scores that depend on it", "leave it out")
    layer, last = model.config.attention, model.config.context - 1
    first = -last if layer and layer.mask != "causal" else 0
    if not first <= offset <= last:
        raise InputError(f"--offset {offset}", f"a number from {first} to {last}", "choose one within the model's context")
    choices = Choices(offset=offset, examples=examples, ranks=not quick, draws=Draws(FEW) if quick else DRAWS)
    if corpus is None:
        return choices
    import torch

    from headwater.circuits.norms import mean_scales
    from headwater.text.corpus import open_corpus
    from headwater.train.own_text import check_words

    text = open_corpus(corpus)
    check_words(text.tokenizer, model.tokenizer, model.config.vocab, str(corpus))
    counts = torch.zeros(model.config.vocab, dtype=torch.float64)
    counts[: len(text.unigrams)] = torch.tensor(text.unigrams, dtype=torch.float64)
    context = min(model.config.context, 256)
    windows = min(32, len(text.train) // context)
    tokens = torch.tensor(text.train[: windows * context].astype("int64")).view(windows, context)
    scales = mean_scales(model.weights, tokens, words="the corpus' mean scale") if windows else "one"
    return replace(choices, frequencies=counts, scales=scales)


def _names(join: list[str] | None) -> list[str]:
    """The heads to join, whether spaces or commas stand between them."""
    names = [name for each in join or [] for name in each.split(",")]
    if join is not None and not names:
        raise InputError("--join without heads", "at least one", "name some, such as --join L0H1 L0H3")
    return names


def _is_direct(head: str | None) -> bool:
    return head is not None and head.strip().lower() == DIRECT


def _check_direct(asked: Asked, head: str | None, together: list[str]) -> None:
    if asked.model.config.layers and together:
        raise InputError(f"--head {DIRECT} with --join {' '.join(together)}", "one of the two", "leave the other out")
    if together or not (head is None or _is_direct(head)):
        raise InputError(f"heads of {asked.name}, which has no layers", "a model with heads", "leave --head and --join out")


def _tell_heads(asked: Asked, head: str | None, join: list[str], *, json: bool, plot: Path | None) -> None:
    from headwater.circuits import all_heads
    from headwater.circuits.head import every_head, find_head
    from headwater.circuits.overview import overview
    from headwater.cli import head_pictures, head_words

    weights = asked.model.weights
    chosen = every_head(weights.config) if head is None else [find_head(head, weights.config)]
    together = [find_head(name, weights.config) for name in join]
    _warn(asked, len(chosen))
    with watched("heads") as tell:
        told, pairs = overview(weights, chosen, asked.choices, lambda share: tell(f"{len(chosen)} heads", share))
        panel = _joined(asked, together) if together else None
    if json:
        show_json(_document(asked, told, pairs, panel))
    else:
        words = head_words.Words(asked.model.tokenizer)
        tables = all_heads.tables(told, pairs, words) if head is None else head_words.one(told[0], pairs, asked, words)
        _show([*tables, *([head_words.joined(panel)] if panel else [])], all_heads.remarks(told, panel))
        if head is None:
            note(f"one head in full: headwater heads {asked.name} --head {chosen[-1]}")
    if plot is not None:
        draw(head_pictures.of_heads(told, pairs), plot)


def _joined(asked: Asked, heads: "list[Head]") -> "Panel":
    """The panel of some heads' sum, looked at as the heads themselves were."""
    from headwater.circuits.panels import copying_joined

    choices = asked.choices
    return copying_joined(
        asked.model.weights,
        heads,
        frequencies=choices.frequencies,
        scales=choices.scales,
        draws=choices.draws,
        leaves_out_ranks=not choices.ranks,
    )


def _show(tables: "list[Table]", remarks: list[str]) -> None:
    for table in tables:
        show_table(table.columns, table.rows, title=table.title)
    for number, line in enumerate(remarks):
        say("\n" * (not number) + line)


def _warn(asked: Asked, count: int) -> None:
    config = asked.model.config
    if asked.choices.ranks and 2 * count * config.vocab**2 * config.d_head > LONG:
        note(f"{2 * count} passes over {config.vocab**2:,} entries, some seconds each; --quick leaves them out")


def _tell_direct(asked: Asked, *, json: bool, plot: Path | None) -> None:
    from headwater.circuits.tables import direct
    from headwater.cli import head_pictures, head_words

    circuit = direct(asked.model.weights, scales=asked.choices.scales)
    words = head_words.Words(asked.model.tokenizer)
    with watched("direct path"):
        told = head_words.Direct.of(circuit, asked.choices)
    if json:
        show_json({"model": asked.name, "given": list(circuit.given), "heads": [], "direct": told.plain(words)})
    else:
        _show(head_words.direct(told, words), [f"given {'; '.join(circuit.given)}"] if circuit.given else [])
    if plot is not None:
        draw(head_pictures.of_direct(told), plot)


def _document(asked: Asked, told: "list[Overview]", pairs: "Composition", joined: "Panel | None") -> dict[str, Any]:
    from headwater.circuits.copying import tally
    from headwater.cli.head_words import Words

    words = Words(asked.model.tokenizer)
    rows = [
        {**row, "says_centred": True, **{side: words.exact(row[side]) for side in ("says", "seeks")}}
        for row in (one.plain() for one in told)
    ]
    return {
        "model": asked.name,
        "given": sorted({label for one in told for label in (*one.copying.given, *one.self_match.given)}),
        "heads": rows,
        "copying_tally": tally([one.copying for one in told]),
        "self_match_tally": tally([one.self_match for one in told]),
        "joined": joined and joined.plain(),
        "composition": pairs.plain(),
    }
