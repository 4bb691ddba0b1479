"""``headwater atlas``: the tables that a model's weights contain, on disk."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from headwater.cli.atlas_show import tell_files
from headwater.cli.terminal import Flag, Whole, note, use_cores, watched
from headwater.errors import InputError

if TYPE_CHECKING:
    from headwater.text.corpus import Corpus

atlas = App(name="atlas", help="Write out the tables that a model's weights contain, and search them.")
VERBS = {
    "search": ("headwater.cli.atlas_search:search", "Find skip-trigrams by source, dest, out and head."),
    "quote": ("headwater.cli.atlas_search:quote", "Read places where skip-trigrams fire in held-out text."),
    "bugs": ("headwater.cli.atlas_bugs:bugs", "Show skip-trigrams that nothing but factorisation raises."),
    "export": ("headwater.cli.atlas_search:export", "Write a table as Parquet, CSV or JSON lines."),
    "verify": ("headwater.cli.atlas_search:verify", "Read every byte and find what has changed."),
    "show": ("headwater.cli.atlas_show:show", "Show what an atlas holds, and what it says of each head."),
    "diff": ("headwater.cli.atlas_timeline:diff", "Compare two atlases: what appeared, what vanished."),
    "timeline": ("headwater.cli.atlas_timeline:timeline", "Show when each head became what it is."),
}
for verb, (place, line) in VERBS.items():
    atlas.command(place, name=verb, help=line)


@atlas.command
def build(  # noqa: PLR0913  (each is one choice a person makes on the command line)
    model: Path,
    /,
    *,
    out: Path | None = None,
    corpus: Path | None = None,
    text: Annotated[list[str] | None, Parameter(negative="", consume_multiple=True)] = None,
    k: Whole = 16,
    triples: Whole = 1000,
    each: Whole = 4,
    others: Whole | None = None,
    basis: Literal["tokens", "effective-tokens"] = "tokens",
    offset: Whole = 0,
    windows: Whole = 256,
    part: Literal["held-out", "train"] = "held-out",
    rows: Whole = 65_536,
    engine: Literal["local", "dask", "ray"] = "local",
    address: str | None = None,
    workers: Whole | None = None,
    device: str = "cpu",
    overwrite: Flag = False,
    json: Flag = False,
) -> None:
    """Write out every table of a model: bigrams, what each head looks for and says, skip-trigrams by lift.

    A build that was stopped, however it was, goes on when the same is asked again, and ends in the same bytes.

    Parameters
    ----------
    model
        A model's file or folder, in any format that Headwater reads; a run's folder; or the name of one of ours.
    out
        The folder to write; by default the model's name with -atlas after it, here.
    corpus
        The folder of a corpus in the model's tokens. How often tokens occur is from it, and norms' scales; skip-trigrams are held against its held-out text.
    text
        Files to take for a corpus, or standard-library; encoded first.
    k
        Entries of every line that are listed.
    triples
        How many of each head's skip-trigrams are listed that raise an output most, and as many that lower one.
    each
        Joined rows, ready for a search, for each source, each dest and each out.
    others
        Among how many other tokens a source stands; by default one less than the model's context.
    basis
        What stands for a token at layers above the first: its embedding, or what block 0's feed-forward layer makes of it.
    offset
        Under rotary positions: how many tokens back the sources are that scores are told for.
    windows
        Windows of text that the evidence is from, each as long as the model's context.
    part
        Which part of the text they are of; bugs are looked for in the training part.
    rows
        Lines of one task: smaller tasks for more workers.
    engine
        Who does the work: threads here, Dask or Ray.
    address
        Of a Dask scheduler or a Ray cluster; without it, one is started here.
    workers
        How many tasks are done at once; a cluster at an address has its own.
    device
        Where torch calculates, such as cuda.
    overwrite
        Build anew, over an atlas of another model, with other settings, or one that is finished.
    json
        Print one JSON document.
    """
    from headwater.atlas.build import AtlasChoices, build_atlas
    from headwater.atlas.engines import engine_named

    use_cores()
    chosen = AtlasChoices(
        k=k,
        triples=triples,
        each=each,
        others=others,
        basis=basis,
        offset=offset,
        rows=rows,
        windows=windows,
        part=part,
        device=device,
    )
    folder = out or Path(f"{model.stem or model.absolute().stem}-atlas")
    who = engine_named(engine, address, workers)
    with _ended_at_once(engine), watched("atlas") as tell, _text(model, corpus, text, tell) as held:
        found = build_atlas(model, folder, chosen, corpus=held, engine=who, overwrite=overwrite, progress=tell)
    tell_files(found, folder, json=json)


@contextmanager
def _ended_at_once(engine: str) -> Generator[None]:
    """Let Ctrl-C end the process although threads are in the middle of a task; the same command goes on."""
    try:
        yield
    except KeyboardInterrupt:
        if engine == "local":
            note("stopped; the same command goes on")
            os._exit(130)
        raise


@contextmanager
def _text(
    model: Path, corpus: Path | None, text: list[str] | None, tell: Callable[[str, float], None]
) -> "Generator[Corpus | None]":
    """The text that an atlas is held against, if any."""
    from headwater.train.own_text import HELD_OUT, Wanted, corpus_for

    if corpus is None and text is None:
        yield None
        return
    if text is not None and "standard-library" in text:
        if len(text) > 1:
            raise InputError(f"--text {' '.join(text)}", "one kind of source", "give files alone, or standard-library alone")
        text = []
    with corpus_for(model, Wanted(text, corpus, HELD_OUT), tell) as found:
        yield found
