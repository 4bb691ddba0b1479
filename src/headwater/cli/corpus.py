"""``headwater corpus``: text in tokens, on disk."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from headwater.cli.terminal import Flag, Whole, note, show_json, show_table, working
from headwater.errors import InputError

if TYPE_CHECKING:
    from headwater.text.corpus import Corpus
    from headwater.text.sources import TextSource
    from headwater.text.tokenizer import Tokenizer

corpus = App(name="corpus", help="Turn text into tokens on disk, and show what stands in them.")


@corpus.command
def build(  # noqa: PLR0913  (each is one choice a person makes on the command line)
    *sources: Annotated[str, Parameter(name="SOURCE", allow_leading_hyphen=True)],
    out: Path,
    tokenizer: Path | None = None,
    vocab: Whole | None = None,
    words: Flag = False,
    characters: Flag = False,
    bytes: Flag = False,  # noqa: A002
    held_out: float = 0.05,
    seed: Whole = 0,
    overwrite: Flag = False,
    json: Flag = False,
) -> None:
    """Turn text into tokens on disk.

    The text may be larger than memory. A corpus is there as a whole or not at all.

    Parameters
    ----------
    sources
        Files (also .gz), folders or patterns; - for standard input; standard-library for the source text of Python's own library.
    out
        The folder to write.
    tokenizer
        A tokenizer.json to use. Without it, one is made from the text.
    vocab
        Learn so many pieces of words (byte-level BPE); 4096 where nothing else is asked for.
    words
        One token for each different word.
    characters
        One token for each different character.
    bytes
        One token for each of the 256 bytes.
    held_out
        The share of the text that is kept for evaluation.
    seed
        Of the lots that decide which passages these are.
    overwrite
        Replace a corpus that is already there.
    json
        Print one JSON document.
    """
    from headwater.text.corpus import build_corpus

    source = _source(sources)
    kinds = [kind for kind, chosen in (("words", words), ("characters", characters), ("bytes", bytes)) if chosen]
    if len(kinds) + (tokenizer is not None) + (vocab is not None) > 1:
        raise InputError("several tokenizers", "one", "choose --tokenizer, --vocab, --words, --characters or --bytes")
    chosen = _tokenizer(source, tokenizer, (kinds or ["bpe"])[0], 4096 if vocab is None else vocab)
    with progress_in_bytes("encoding") as progress:
        built = build_corpus(source, chosen, out, held_out=held_out, seed=seed, overwrite=overwrite, progress=progress)
    if not json:
        note(f"written to {out}")
    _show(built, 10, json=json)


@corpus.command
def show(
    folder: Path,
    /,
    *,
    top: Whole = 10,
    verify: Flag = False,
    json: Flag = False,
) -> None:
    """Show how much there is in a corpus and what is most frequent.

    Parameters
    ----------
    folder
        A corpus.
    top
        How many tokens and pairs to list.
    verify
        Read every byte and compare it with what was written.
    json
        Print one JSON document.
    """
    from headwater.text.corpus import open_corpus

    with working(f"reading {folder}"):
        opened = open_corpus(folder, verify=verify)
    _show(opened, top, json=json)


def _source(sources: tuple[str, ...]) -> "TextSource":
    from headwater.text.sources import Files, StandardInput, StandardLibrary

    named = {"-": StandardInput(), "standard-library": StandardLibrary()}
    match sources:
        case []:
            raise InputError("no source", "a text", "give files, folders or patterns, - or standard-library")
        case [name] if name in named:
            return named[name]
        case _ if named.keys() & set(sources):
            raise InputError(
                f"{' and '.join(sources)}", "one kind of source", "give files alone, or - or standard-library alone"
            )
        case _ if any(source.startswith("-") for source in sources):
            option = next(source for source in sources if source.startswith("-"))
            raise InputError(f"{option!r:.80}", "an option that exists, or a path", "see --help; write ./-name for such a file")
        case _:
            return Files(paths=sources)


def _tokenizer(source: "TextSource", path: Path | None, kind: Any, size: int) -> "Tokenizer":
    from headwater.text.tokenizer import read_tokenizer
    from headwater.text.training import make_tokenizer

    if path is not None:
        return read_tokenizer(path / "tokenizer.json" if path.is_dir() else path)
    with working("making a tokenizer from the text"):
        return make_tokenizer(source, kind, size)


@contextmanager
def progress_in_bytes(message: str) -> Generator[Callable[[int, int | None], None]]:
    """A bar on stderr, told of bytes that are done and, where it is known, of how many there are."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(message, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _show(shown: "Corpus", top: int, *, json: bool) -> None:
    document = _document(shown, top)
    if json:
        show_json(document)
        return
    counts, entropies = document["counts"], document["entropy"]
    rows = [[name, *(f"{counts[part][name]:,}" for part in ("train", "held_out"))] for name in ("tokens", "bytes", "passages")]
    show_table(["", "train#", "held out#"], rows)
    show_table(
        ["", ""],
        [
            ("corpus", str(shown.folder)),
            ("documents", f"{shown.manifest.documents:,}"),
            ("vocabulary", f"{shown.vocab:,} tokens, of which {document['vocabulary_seen']:,} occur in train"),
            ("entropy of a token", f"{entropies['unigrams']:z.4f} nats"),
            ("…given the one before", f"{entropies['bigrams']:z.4f} nats, over {len(shown.bigrams.count):,} different pairs"),
        ],
    )
    display = shown.tokenizer.display
    rows = [[display(row["id"]), f"{row['count']:,}"] for row in document["tokens"]]
    show_table(["token", "in train#"], rows, title="\nfrequent")
    rows = [[display(row["first"]), display(row["second"]), f"{row['count']:,}"] for row in document["pairs"]]
    show_table(["token", "and the next", "in train#"], rows, title="\nfrequent pairs")


def _document(shown: "Corpus", top: int) -> dict[str, Any]:
    import numpy as np

    from headwater.settings import to_plain
    from headwater.text.counts import conditional_entropy, entropy

    unigrams, pairs = shown.unigrams, shown.bigrams
    frequent = [token for token in np.argsort(-unigrams, kind="stable")[: max(0, top)].tolist() if unigrams[token]]
    together: list[int] = np.argsort(-pairs.count, kind="stable")[: max(0, top)].tolist()
    plain = to_plain(shown.manifest)
    return {
        "path": str(shown.folder),
        "source": plain["source"],
        "tokenizer": shown.manifest.tokenizer,
        "documents": shown.manifest.documents,
        "counts": {"train": plain["train"], "held_out": plain["held_out"]},
        "vocabulary": shown.vocab,
        "vocabulary_seen": int((unigrams > 0).sum()),
        "entropy": {"unigrams": entropy(unigrams), "bigrams": conditional_entropy(pairs.first, pairs.count)},
        "tokens": [{"id": token, "text": _text(shown, token), "count": int(unigrams[token])} for token in frequent],
        "pairs": [
            {
                "first": int(pairs.first[place]),
                "second": int(pairs.second[place]),
                "text": [_text(shown, int(pairs.first[place])), _text(shown, int(pairs.second[place]))],
                "count": int(pairs.count[place]),
            }
            for place in together
        ],
    }


def _text(shown: "Corpus", token: int) -> str:
    """The exact text of a token; where it is only a piece of a character, its bytes."""
    try:
        return shown.tokenizer.token_bytes(token).decode()
    except UnicodeDecodeError:
        return shown.tokenizer.display(token)
