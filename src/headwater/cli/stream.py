"""``headwater stream``: what the stream holds at every stage of every block."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from headwater.cli.terminal import Flag, Whole, note, say, show_json, show_table, use_cores, watched, working
from headwater.cli.texts import find_token, read_run
from headwater.errors import InputError

if TYPE_CHECKING:
    from headwater.show.values import Table
    from headwater.trace.run import Run
    from headwater.trace.view.locality import Locality
    from headwater.trace.view.lookup import Lookup
    from headwater.trace.view.stream import StreamView


def stream(  # noqa: PLR0913  (each is one choice a person makes on the command line)
    model: Path,
    text: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    /,
    *,
    ids: Annotated[str | None, Parameter(help="Token ids instead of a text: 12,7,33.")] = None,
    norms: Literal["pre", "post"] | None = None,
    position: Whole | None = None,
    token: str | None = None,
    top: Whole = 3,
    head: str | None = None,
    temperature: Annotated[list[float] | None, Parameter(negative="", consume_multiple=True)] = None,
    locality: Flag = False,
    json: Flag = False,
    html: Path | None = None,
    svg: Path | None = None,
) -> None:
    """Show what the stream holds at every stage: how long it is, where it points, what it would say, who wrote it.

    Stages have the documents' letters: t0 is what a block gets, t1 … t5 are its steps, h is what it leaves. A stage is the stream
    itself, a write (what a component adds to the stream) or a copy (normalised, for a component to read). "Would say" is the logit lens: the
    last norm and the unembedding at that stage. Shares say how much of the stream each component wrote; they add up to 1.

    Parameters
    ----------
    model
        A model's file or folder, in any format that Headwater reads; a run's folder; the name of one of ours; or, without a text, a file that explain --save wrote.
    text
        What the model reads; - reads it from standard input.
    norms
        The same weights with their norms before each component (pre) or in the stream after each write (post); they were trained for the other.
    position
        Where to look, counted from 0, or from the end with -1, -2 …; the last one unless told otherwise.
    token
        The token whose probability and rank to show, as text or as #id; the one that comes next unless told otherwise.
    top
        How many predictions to show at each stage.
    head
        Also what this head looks up here, such as L0H3, softly and hard.
    temperature
        At which temperatures to look up, such as 2 1 0.5; 1 is the model's own.
    locality
        Also which components move information between positions: replace one token and see what changes elsewhere.
    json
        Print one JSON document instead of tables.
    html
        Write tables of this position and pictures of all positions to one page.
    svg
        Draw all positions to a file: .svg, .png or .pdf.
    """
    from headwater.cli.pictures import check_pictures

    check_pictures(html, svg)
    if temperature is not None and head is None:
        raise InputError("--temperature without --head", "the head that looks something up", "add --head L0H0")
    use_cores()
    asked = Asked(str(model), read_run(model, text, ids, norms), position, token, top)
    said = Said(
        asked.view(everywhere=False),
        asked.lookup(head, temperature) if head is not None else None,
        asked.locality() if locality else None,
    )
    if json:
        show_json(said.plain(asked))
    else:
        said.show()
        if not locality:
            note("which components move information between positions: add --locality")
    if html is not None or svg is not None:
        _draw(asked, said, html, svg)


@dataclass(frozen=True)
class Asked:
    """What a person wants to see."""

    name: str
    run: "Run"
    position: int | None
    token: str | None
    top: int

    @property
    def at(self) -> int:
        """The position to look at."""
        return -1 if self.position is None else self.position

    def view(self, *, everywhere: bool) -> "StreamView":
        """The stream there, or at all positions."""
        from headwater.trace.view.stream import stream as view

        token = find_token(self.run, self.token)
        with watched("stream") as tell:
            return view(self.run, positions=None if everywhere else [self.at], token=token, top=self.top, tell=tell)

    def lookup(self, head: str, temperatures: list[float] | None) -> "Lookup":
        """What a head looks up."""
        from headwater.trace.view.lookup import BETAS, head_lookup

        wrong = [each for each in temperatures or [] if not 0 < each < float("inf")]
        if wrong:
            raise InputError(f"--temperature {wrong[0]:g}", "numbers above zero", "write --temperature 2 1 0.5")
        betas = [1 / each for each in temperatures] if temperatures else BETAS
        names = [f"{place} {self.run.words(int(token))}" for place, token in enumerate(self.run.tokens[0])]
        return head_lookup(self.run, head, self.at, betas, sources=names)

    def locality(self) -> "Locality":
        """What changes where when a token is replaced: the one asked about, or one with others on both sides."""
        from headwater.trace.view.locality import locality

        middle = self.run.tokens.shape[1] // 2
        with working("replacing a token"):
            return locality(self.run.weights, self.run.tokens, middle if self.position is None else self.position)


@dataclass(frozen=True)
class Said:
    """What there is to say."""

    view: "StreamView"
    lookup: "Lookup | None"
    locality: "Locality | None"

    def tables(self) -> "list[Table]":
        """All of it, in tables."""
        more = [each.tables() for each in (self.lookup, self.locality) if each is not None]
        return [*self.view.tables(), *(table for tables in more for table in tables)]

    def show(self) -> None:
        """On stdout."""
        for number, table in enumerate(self.tables()):
            show_table(table.columns, table.rows, title="\n" * bool(number) + table.title)
        if self.locality is not None:
            say(self.locality.remark())

    def plain(self, asked: Asked) -> "dict[str, object]":
        """For programs."""
        return {
            "model": asked.name,
            **self.view.plain(),
            "lookup": self.lookup and self.lookup.plain(),
            "locality": self.locality and self.locality.plain(),
        }


def _draw(asked: Asked, said: Said, html: Path | None, svg: Path | None) -> None:
    from headwater.cli.pictures import write_pictures

    view = asked.view(everywhere=True)
    curves = [*view.curves(asked.at), *(said.lookup.curves() if said.lookup else ())]
    remarks = [said.locality.remark()] if said.locality else []
    title = f"the stream of {asked.name}"
    write_pictures([*said.tables(), *curves, *view.grids()], title, html=html, svg=svg, remarks=remarks)
