"""How large the gradient of attention's softmax is against d_k, with and without the division by √d_k."""

import math
from typing import Any

from headwater.claims.evidence import Finding, drawn, found
from headwater.claims.figures.drawings import drawing_of, draws
from headwater.claims.figures.paper import Place, Sheet, sheet
from headwater.claims.figures.shown import legible
from headwater.claims.given import Given
from headwater.claims.registry import checks
from headwater.show.looks import Look
from headwater.train.studies.softmax_scaling import SoftmaxStudy, run

DIMENSIONS = (1, 4, 8, 16, 32, 64, 128, 256, 1024)


def gather(given: Given) -> SoftmaxStudy:
    """Random queries and keys of growing d_k, and the derivative of the softmax of their scores."""
    del given
    return run(DIMENSIONS)


@draws("003-FIG12", gather)
def draw(study: SoftmaxStudy, look: Look) -> Any:
    """What was measured; and beside it, on an axis that has room for it, what the document asks to see."""
    page = sheet(look, 10.2, 5.5)
    page.title(
        look.say(
            "Without scaling, gradients vanish: they do not explode", "Sem escalonamento, os gradientes somem: não explodem"
        ),
        look.say(
            f"$J = \\mathrm{{diag}}(p) - pp^T$, the derivative of softmax by scores, over {study.draws} random queries with {study.keys} keys.",
            f"$J = \\mathrm{{diag}}(p) - pp^T$, a derivada do softmax pelos escores, em {study.draws} queries aleatórias com {study.keys} keys.",
        ),
    )
    _measured(page, study, (0.85, 1.15, 4.3, 3.25))
    _claimed(page, study, (6.15, 1.15, 2.5, 3.25))
    page.write(
        (page.width / 2, 5.15),
        look.say(
            "The text asks for unscaled gradients that grow exponentially. No entry of J can pass ¼, nor its spectral norm ½.",
            "O texto pede gradientes não escalonados que crescem exponencialmente. Nenhuma entrada de J passa de ¼, nem sua norma espectral de ½.",
        ),
    )
    return page.figure


def _measured(page: Sheet, study: SoftmaxStudy, place: Place) -> None:
    look, axes, x = page.look, page.graph(place), [at.d_k for at in study.dimensions]
    kinds = (
        (
            [at.scaled for at in study.dimensions],
            look.colours[0],
            look.say(r"divided by $\sqrt{d_k}$", r"divididos por $\sqrt{d_k}$"),
        ),
        ([at.unscaled for at in study.dimensions], look.colours[1], look.say("not divided", "não divididos")),
    )
    for sizes, colour, name in kinds:
        curves = (
            ([size.mean for size in sizes], "o-", look.say("mean", "média")),
            ([size.median for size in sizes], "^--", look.say("median", "mediana")),
            ([size.largest_spectral for size in sizes], "D", look.say("largest spectral norm", "maior norma espectral")),
        )
        for values, style, told in curves:
            inside = "none" if style == "D" else colour
            axes.plot(x, values, style, color=colour, markersize=5, markerfacecolor=inside, label=f"{name}: {told}")
    axes.axhline(0.5, color=look.ink, linewidth=1.2)
    axes.text(1.1, 0.51, look.say("bound of the spectral norm: ½", "limite da norma espectral: ½"), size=8, va="bottom")
    axes.set(xscale="log", xlim=(0.8, 1300), ylim=(0, 0.6))
    axes.set_xlabel(look.say("dimension of queries and keys $d_k$", "dimensão de queries e keys $d_k$"))
    axes.set_ylabel(look.say("size of the gradient ‖J‖", "tamanho do gradiente ‖J‖"))
    axes.set_xticks(x, [str(each) for each in x])
    axes.tick_params(axis="x", which="minor", bottom=False)
    axes.set_title(look.say("Measured", "Medido"), loc="left", weight="bold")
    axes.legend(frameon=False, fontsize=7.5, loc="lower left", labelspacing=0.25)


def _claimed(page: Sheet, study: SoftmaxStudy, place: Place) -> None:
    look, axes, x = page.look, page.graph(place), [at.d_k for at in study.dimensions]
    tens = [at.score_length / math.log(10) for at in study.dimensions]
    axes.plot(x, tens, "x:", color=look.ink, linewidth=1.2)
    axes.plot(x, [math.log10(at.unscaled.mean) for at in study.dimensions], "o-", color=look.colours[1], markersize=5)
    place_of_name = (x[-1], tens[-1])
    axes.annotate(
        look.say("said: $e^{‖s‖}$", "dito: $e^{‖s‖}$"),
        place_of_name,
        (-8, 0),
        textcoords="offset points",
        ha="right",
        va="center",
    )
    axes.annotate(
        look.say("measured", "medido"), (x[-1], 0), (8, 0), textcoords="offset points", va="center", color=look.colours[1]
    )
    axes.set(
        xscale="log",
        xlabel="$d_k$",
        ylabel=look.say("size of the gradient (powers of 10)", "tamanho do gradiente (potências de 10)"),
    )
    axes.set_yticks([0, 20, 40, 60, 80], ["1", *(f"$10^{{{power}}}$" for power in (20, 40, 60, 80))])
    axes.set_xticks([1, 16, 128, 1024], ["1", "16", "128", "1024"])
    axes.tick_params(axis="x", which="minor", bottom=False)
    axes.set_title(look.say("Said, beside measured", "Dito, ao lado do medido"), loc="left", weight="bold")


@checks("003-FIG12")
def gradient_against_dimension(given: Given) -> Finding:
    """The drawn sizes are those of the measurement: no entry of J above ¼, no spectral norm above ½; unscaled they fall, scaled they stay."""
    dimensions = drawing_of("003-FIG12").data(given).dimensions
    sizes = [size for at in dimensions for size in (at.unscaled, at.scaled)]
    first, last = dimensions[0], dimensions[-1]
    return found(
        drawn("entry", max(size.largest_entry for size in sizes), within=1 / 4),
        drawn("spectral", max(size.largest_spectral for size in sizes), within=1 / 2),
        drawn("vanish", last.unscaled.median / first.unscaled.median, below=0.01),
        drawn("mean-falls", last.unscaled.mean / first.unscaled.mean, below=0.5),
        drawn("stable", max(at.scaled.mean for at in dimensions) / min(at.scaled.mean for at in dimensions), below=1.1),
        # If the size were proportional to e^‖s‖, this would be 0.
        drawn(
            "exponential",
            math.log(last.unscaled.mean / first.unscaled.mean) - (last.score_length - first.score_length),
            below=-100,
        ),
        legible(given, "003-FIG12"),
    )
