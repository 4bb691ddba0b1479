"""How static figures look: light or dark, with words in English or in Portuguese, in colours that nearly everyone can tell apart."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

Theme: TypeAlias = Literal["light", "dark"]
DPI = 150


@dataclass(frozen=True)
class Look:
    """One way to draw a figure.

    >>> Look("pt").say("rows sum to 1", "as linhas somam 1"), Look("pt").number(0.25)
    ('as linhas somam 1', '0,25')
    """

    language: Literal["en", "pt"] = "en"
    theme: Theme = "light"

    def say(self, en: str, pt: str) -> str:
        """The one of two texts that is in the figure's language."""
        return en if self.language == "en" else pt

    def number(self, value: float, form: str = ".3g") -> str:
        """A number as readers of the language write it, with a true minus sign."""
        shown = f"{value:{form}}".replace("-", "−")
        return shown.replace(".", ",") if self.language == "pt" else shown

    @property
    def paper(self) -> str:
        """Behind everything."""
        return "#fefefc" if self.theme == "light" else "#15171a"

    @property
    def ink(self) -> str:
        """Words, axes, arrows."""
        return "#1a1a1a" if self.theme == "light" else "#e6e6e3"

    @property
    def faint(self) -> str:
        """Grids, frames, what is only said in passing."""
        return "#8a8a86" if self.theme == "light" else "#8d9096"

    @property
    def box(self) -> str:
        """Inside a node of a diagram."""
        return "#f1f3f5" if self.theme == "light" else "#23272d"

    @property
    def colours(self) -> tuple[str, ...]:
        """For curves and marks: Okabe and Ito's, lighter on dark."""
        if self.theme == "light":
            return ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
        return ("#56B4E9", "#E69F00", "#2BC79A", "#E39AC3", "#F0803C", "#9AD4F5", "#FFFFFF")

    @property
    def signed(self) -> "Colormap":
        """For numbers of both signs: nothing is the colour of the paper."""
        from matplotlib.colors import LinearSegmentedColormap

        ends = ("#D55E00", "#0072B2") if self.theme == "light" else ("#F0803C", "#56B4E9")
        return LinearSegmentedColormap.from_list("signed", [ends[0], self.paper, ends[1]])

    @property
    def amounts(self) -> "Colormap":
        """For numbers from 0 up."""
        from matplotlib.colors import LinearSegmentedColormap

        return LinearSegmentedColormap.from_list("amounts", [self.paper, self.colours[0]])

    @property
    def settings(self) -> Any:
        """Matplotlib's, under which a figure is made and written."""
        from cycler import cycler

        text = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor"), self.ink)
        paper = dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor"), self.paper)
        fixed = {"svg.hashsalt": "headwater", "svg.fonttype": "path", "font.size": 9, "axes.titlesize": 10}
        return text | paper | fixed | {"grid.color": self.faint, "axes.prop_cycle": cycler(color=list(self.colours))}


def written(make: "Callable[[], Figure]", look: Look, kind: Literal["svg", "png"] = "svg") -> bytes:
    """What ``make`` draws, as the bytes of a file: the same numbers give the same bytes."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with mpl.rc_context(look.settings):
        figure = make()
        FigureCanvasAgg(figure)
        data = io.BytesIO()
        figure.savefig(data, format=kind, dpi=DPI, metadata={"Date": None} if kind == "svg" else None)
    return data.getvalue()
