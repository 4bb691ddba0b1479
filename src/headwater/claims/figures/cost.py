"""What attention costs as the text grows: counted operations, the memory of what is held, measured seconds."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from headwater.claims.evidence import Finding, beside, drawn, found
from headwater.claims.figures.drawings import drawing_of, draws
from headwater.claims.figures.paper import Array, Place, Sheet, sheet
from headwater.claims.figures.shown import legible
from headwater.claims.given import Given
from headwater.claims.registry import checks
from headwater.model.forward import run_block
from headwater.model.positions import place
from headwater.model.presets import named
from headwater.model.taps import NOBODY, Recorder, Tap
from headwater.model.weights import Weights
from headwater.show.looks import Look

LENGTHS = (64, 128, 256, 512, 1024)
LONG = 131_072
"""A context that models of today have, for which the table is only reckoned."""
REPEATS = 2


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of one layer of attention in float32, for texts of several lengths."""

    d: int
    heads: int
    lengths: tuple[int, ...]
    table: tuple[int, ...]
    """Operations that make scores and mix values: the two products with an N × N table."""
    projections: tuple[int, ...]
    """Operations that make queries, keys and values, and that write to the stream."""
    held: tuple[int, ...]
    """Bytes of the largest tensor when the table is made as it is written."""
    held_fused: tuple[int, ...]
    """The same for PyTorch's fused attention, which makes the table in pieces."""
    seconds: tuple[float, ...]
    seconds_fused: tuple[float, ...]

    @property
    def crossover(self) -> int:
        """The length from which the table costs more than the projections: 4 N² d = 8 N d² at N = 2d."""
        return 2 * self.d


class _Largest(TorchDispatchMode):
    """Notes the size of the largest tensor that is made; another view of what is there already is not."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        made = func(*args, **(kwargs or {}))
        there = {tensor.data_ptr() for tensor in tree_leaves(args) if isinstance(tensor, Tensor)}
        new = [tensor for tensor in tree_leaves(made) if isinstance(tensor, Tensor) and tensor.data_ptr() not in there]
        self.bytes = max([self.bytes, *(tensor.nbytes for tensor in new)])
        return made


@torch.no_grad()
def gather(given: Given) -> Cost:
    """One layer of the one-layer model's sizes with drawn weights, run on random streams of every length."""
    del given
    config = replace(named("one-layer"), vocab=2, context=max(LENGTHS))
    weights, generator = Weights.draw(config, seed=0), torch.Generator().manual_seed(0)
    streams = [torch.randn(1, length, config.d_model, generator=generator) for length in LENGTHS]
    # Who looks at the pattern has it made whole; when nobody does, it is made in pieces.
    whole = [_measured(weights, x, Recorder(["L0.pattern"])) for x in streams]
    fused = [_measured(weights, x, NOBODY) for x in streams]
    return Cost(
        d=config.d_model,
        heads=config.heads,
        lengths=LENGTHS,
        table=tuple(one.counts[torch.ops.aten.bmm] for one in whole),
        projections=tuple(one.counts[torch.ops.aten.mm] for one in whole),
        held=tuple(one.largest for one in whole),
        held_fused=tuple(one.largest for one in fused),
        seconds=tuple(one.seconds for one in whole),
        seconds_fused=tuple(one.seconds for one in fused),
    )


@dataclass(frozen=True)
class _Measured:
    counts: dict[Any, int]
    largest: int
    seconds: float


def _measured(weights: Weights, x: Tensor, tap: Tap) -> _Measured:
    def run() -> Tensor:
        return run_block(weights, 0, x, place(weights, 0, x.shape[1]), tap)

    with FlopCounterMode(display=False) as counter, _Largest() as largest:
        run()
    return _Measured(dict(counter.get_flop_counts()["Global"]), largest.bytes, _quickest(run))


def _quickest(work: Callable[[], Any]) -> float:
    """Seconds of the quickest of a few runs: what else the machine did only ever adds to them."""
    seconds: list[float] = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def slope(x: Array, y: Array) -> float:
    """Of the straight line nearest to some points, both axes logarithmic: the exponent of a power."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def growths(lengths: Array) -> dict[str, Array]:
    """The three growths that are compared, by their names."""
    return {"N": lengths, "N log N": lengths * np.log2(lengths), "N²": lengths**2}


@draws("003-FIG8", gather)
def draw(cost: Cost, look: Look) -> Any:
    """Three panels over the length: operations, bytes, seconds."""
    page = sheet(look, 11.1, 5.6)
    page.title(
        look.say("Attention's cost grows with the square of the text", "O custo da atenção cresce com o quadrado do texto"),
        look.say(
            f"One layer with d = {cost.d} and {cost.heads} heads in float32. Dashed and dotted: the growth alone.",
            f"Uma camada com d = {cost.d} e {cost.heads} cabeças em float32. Tracejado e pontilhado: só o crescimento.",
        ),
    )
    _operations(page, cost, (0.85, 1.2, 2.25, 3.2))
    _memory(page, cost, (4.5, 1.2, 2.25, 3.2))
    _seconds(page, cost, (8.05, 1.2, 2.25, 3.2))
    page.write((page.width / 2, 5.22), _consequence(cost, look), linespacing=1.5)
    return page.figure


def _consequence(cost: Cost, look: Look) -> str:
    last, gibibytes = cost.lengths[-1], cost.held[-1] * (LONG / cost.lengths[-1]) ** 2 / 2**30
    return look.say(
        f"Twice the text, four times the table: {look.number(cost.held[-1] / 2**20)} MiB at N = {last}, {look.number(gibibytes)} GiB at N = {LONG}.\n"
        "Long texts need attention that never holds the whole table (in pieces, same result) or that looks at fewer pairs.",
        f"Texto dobrado, tabela quadruplicada: {look.number(cost.held[-1] / 2**20)} MiB com N = {last}, {look.number(gibibytes)} GiB com N = {LONG}.\n"
        "Textos longos pedem uma atenção que nunca guarde a tabela inteira (em pedaços, mesmo resultado) ou que olhe para menos pares.",
    )


def _panel(page: Sheet, cost: Cost, place: Place, start: float, title: str) -> Any:
    """Axes with the three growths, all from the same point, so that only their slopes differ."""
    axes, lengths, look = page.graph(place), np.array(cost.lengths, float), page.look
    axes.set(xscale="log", yscale="log", xlabel=look.say("length of the text N (tokens)", "comprimento do texto N (tokens)"))
    for (name, values), dash in zip(growths(lengths).items(), (":", "-.", "--"), strict=True):
        curve, is_square = values / values[0] * start, name == "N²"
        colour = look.colours[1] if is_square else look.faint
        axes.plot(lengths, curve, color=colour, linestyle=dash, linewidth=1.6 if is_square else 1.1, zorder=1)
        # N log N lies close above N: their names go apart.
        lift = {"N": -4, "N log N": 4}.get(name, 0)
        axes.annotate(f"O({name})", (lengths[-1], curve[-1]), (9, lift), textcoords="offset points", size=8, va="center")
    axes.set_xticks(lengths, [str(length) for length in cost.lengths])
    axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    axes.set_xlim(lengths[0] / 1.3, lengths[-1] * 1.15)
    axes.set_title(title, loc="left", weight="bold")
    return axes


def _measured_points(axes: Any, cost: Cost, look: Look, squares: tuple[Any, str], lines: tuple[Any, str]) -> None:
    """What grows with the square, and what grows with the length."""
    for (values, label), marker, colour in zip((squares, lines), ("o", "s-"), (look.colours[1], look.colours[0]), strict=True):
        axes.plot(cost.lengths, values, marker, color=colour, markersize=6, label=label)
    low, high = min(*squares[0], *lines[0]), max(*squares[0], *lines[0])
    axes.set_ylim(low / 2, high * 12)
    axes.legend(edgecolor="none", framealpha=1, fontsize=8.5, loc="upper left", handlelength=1.5, borderaxespad=0.1)


def _operations(page: Sheet, cost: Cost, place: Place) -> None:
    look = page.look
    axes = _panel(page, cost, place, float(cost.table[0]), look.say("Operations, counted", "Operações, contadas"))
    table = (cost.table, look.say("scores and mixing: 4 N² d", "escores e mistura: 4 N² d"))
    _measured_points(axes, cost, look, table, (cost.projections, look.say("projections: 8 N d²", "projeções: 8 N d²")))
    if cost.lengths[0] < cost.crossover < cost.lengths[-1]:
        axes.axvline(cost.crossover, ymax=0.7, color=look.ink, linewidth=0.8)
        axes.annotate("N = 2d", (cost.crossover, axes.get_ylim()[0]), (-4, 5), textcoords="offset points", size=8, ha="right")
    axes.set_ylabel(look.say("operations (+ and ×)", "operações (+ e ×)"))


def _memory(page: Sheet, cost: Cost, place: Place) -> None:
    look = page.look
    axes = _panel(page, cost, place, float(cost.held[0]), look.say("Memory, counted", "Memória, contada"))
    table = (cost.held, look.say("the table made whole", "a tabela feita inteira"))
    _measured_points(
        axes, cost, look, table, (cost.held_fused, look.say("made in pieces (fused)", "feita em pedaços (fundida)"))
    )
    axes.set_ylabel(look.say("largest tensor (bytes)", "maior tensor (bytes)"))


def _seconds(page: Sheet, cost: Cost, place: Place) -> None:
    look = page.look
    # Short texts take what starting takes: the square goes through the longest.
    start = cost.seconds[-1] * (cost.lengths[0] / cost.lengths[-1]) ** 2
    axes = _panel(page, cost, place, start, look.say("Time, measured", "Tempo, medido"))
    table = (cost.seconds, look.say("the table made whole", "a tabela feita inteira"))
    _measured_points(
        axes, cost, look, table, (cost.seconds_fused, look.say("made in pieces (fused)", "feita em pedaços (fundida)"))
    )
    axes.set_ylabel(look.say("processor seconds", "segundos de processador"))


@checks("003-FIG8")
def cost_of_length(given: Given) -> Finding:
    """The drawn growths have slopes 1, a little above 1, and 2; the counted operations are 4 N² d and 8 N d², the table N² numbers."""
    cost = drawing_of("003-FIG8").data(given)
    N = np.array(cost.lengths, float)
    linear, linearithmic, quadratic = (slope(N, curve) for curve in growths(N).values())
    return found(
        drawn("linear", linear - 1, within=1e-9),
        drawn("linearithmic", linearithmic, above=1),
        drawn("below-square", linearithmic, below=1.5),
        drawn("quadratic", quadratic - 2, within=1e-9),
        drawn("table", np.abs(cost.table - 4 * N**2 * cost.d).max(), equal=0),
        drawn("projections", np.abs(cost.projections - 8 * N * cost.d**2).max(), equal=0),
        drawn("held", np.abs(cost.held - 4 * cost.heads * N**2).max(), equal=0),
        drawn("fused", slope(N, np.array(cost.held_fused, float)) - 1, within=1e-9),
        legible(given, "003-FIG8"),
        beside("seconds", slope(N[-3:], np.array(cost.seconds[-3:]))),
    )
