"""Parquet files: written from arrays and read back as arrays, by DuckDB in memory; neither pandas nor pyarrow is needed.

Equal arrays give equal bytes (under one version of DuckDB), and a file is there as a whole or not at all.
"""

import atexit
import functools
import os
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError, ModelFileError
from headwater.files.atomic import new_file
from headwater.files.plain import file_size

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Column: TypeAlias = NDArray[Any] | Sequence[str | None]
NUMBERS = ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64")
"""What a column of numbers may be; every other one is of texts."""
GROUP = 122_880
"""Rows of a row group, unless the caller knows better: what is skipped or read as one."""
LITTLE = 2_048
"""A row group holds a multiple of this: DuckDB works on so many rows at once."""
MEMORY = "1GB"


def write_table(path: Path, columns: Mapping[str, Column], *, groups: int = GROUP) -> int:
    """Write columns of one length as a Parquet file, rows in the order given; returns how many rows these are.

    A column is an array of numbers, or texts of which some may be None. What is masked in a masked array becomes NULL, and so does NaN.
    ``groups`` is how many rows a reader takes or skips as one.
    """
    given, group = _checked(columns), max(LITTLE, groups - groups % LITTLE)
    settings = f"FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {group}"
    return write_query(path, f"FROM given SELECT {_selected(given)}", settings, given)


def write_query(path: Path, query: str, settings: str, given: Mapping[str, NDArray[Any]]) -> int:
    """Write what a query finds to a file; returns how many rows these are.

    ``settings`` are those of DuckDB's COPY, and ``given`` is what the query finds under that name.
    """
    cursor = _database().cursor()
    try:
        cursor.register("given", given)
        with new_file(path) as temporary, _as_ours(path, "written"):
            found = cursor.execute(f"COPY ({query}) TO {_quoted(temporary)} ({settings}, USE_TMP_FILE false)").fetchone()
    except OSError as reason:
        raise _not_written(path, reason.strerror or str(reason)) from reason
    finally:
        cursor.close()
    assert found is not None, "it tells how many rows it wrote"
    return found[0]


def read_table(
    path: Path | Sequence[Path], columns: Sequence[str] | None = None, *, between: tuple[str, int, int] | None = None
) -> dict[str, NDArray[Any]]:
    """The columns of a Parquet file, or of several with the same columns one after the other.

    ``between`` names a column of whole numbers, and the least and the largest of it that rows are wanted for.

    Texts come as an array of objects, None where there is none; NULL among floats is NaN; other numbers with NULLs are a masked array.
    """
    paths = [path] if isinstance(path, Path) else list(path)
    for each in paths:
        file_size(each)
    names = "*" if columns is None else ", ".join(map(_name, columns))
    cursor = _database().cursor()
    try:
        with _as_ours(paths[0] if len(paths) == 1 else paths[0].parent, "read"):
            where = "" if between is None else f" WHERE {_name(between[0])} BETWEEN {int(between[1])} AND {int(between[2])}"
            cursor.execute(f"FROM {parquet(*paths)} SELECT {names}{where}")
            return arrays(cursor)
    finally:
        cursor.close()


def arrays(answer: "DuckDBPyConnection") -> dict[str, NDArray[Any]]:
    """What a query found, as ``read_table`` gives it."""
    return {name: _plain(column) for name, column in cast(dict[str, NDArray[Any]], answer.fetchnumpy()).items()}


def parquet(*paths: Path) -> str:
    """A clause for FROM that reads Parquet files; nothing in a path is taken for a pattern."""
    return f"read_parquet([{', '.join(_quoted(_literal(path)) for path in paths)}])"


def connect(folder: Path, *, threads: int = 1, memory: str = MEMORY) -> "DuckDBPyConnection":
    """An in-memory database that can reach the files in one folder and nothing else: no network, no extensions, no other settings."""
    database = _connected(threads, memory)
    # The second spelling is for a path in which a letter would be taken for a pattern.
    allowed = {str(folder.absolute()), _literal(folder)}
    database.execute(f"SET allowed_directories = [{', '.join(map(_quoted, sorted(allowed)))}]")
    database.execute("SET enable_external_access = false")
    database.execute("SET lock_configuration = true")
    return database


@contextmanager
def damaged_if_refused(path: Path) -> Generator[None]:
    """What DuckDB says against a file, in our words."""
    with _as_ours(path, "read"):
        yield


def _connected(threads: int, memory: str) -> "DuckDBPyConnection":
    import duckdb

    settings: dict[str, Any] = {
        "threads": threads,
        "memory_limit": memory,
        # Nothing is put aside on disk where nobody looks for it.
        "temp_directory": "",
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    return duckdb.connect(":memory:", config=settings)


def _database() -> "DuckDBPyConnection":
    return _database_of(os.getpid())


@functools.cache
def _database_of(process: int) -> "DuckDBPyConnection":
    """One for each process, since none survives a fork; one thread, since with several the bytes would depend on who is first."""
    del process
    # Gone before Python takes down what it is made of, or DuckDB complains about it.
    atexit.register(_database_of.cache_clear)
    return _connected(1, MEMORY)


def _checked(columns: Mapping[str, Column]) -> dict[str, NDArray[Any]]:
    """Arrays as DuckDB takes them: numbers of a known kind, side by side, or objects that are texts."""
    given = {name: _array(name, column) for name, column in columns.items()}
    lengths = {len(column) for column in given.values()}
    if len(lengths) != 1:
        raise InputError(f"columns of {sorted(lengths)} rows", "one length for all of them", "give as many values in each")
    return given


def _array(name: str, column: Column) -> NDArray[Any]:
    if not isinstance(column, np.ndarray) or column.dtype.kind in "OUT":
        return _texts(name, column)
    if column.ndim != 1 or str(column.dtype) not in NUMBERS:
        given = f"the column {name} is {column.dtype} with {column.ndim} axes"
        raise InputError(given, f"one axis of {', '.join(NUMBERS)} or texts", "convert it first")
    return column if isinstance(column, np.ma.MaskedArray) else np.ascontiguousarray(column)


def _texts(name: str, column: Column) -> NDArray[Any]:
    texts = np.empty(len(column), dtype=object)
    texts[:] = list(column)
    odd = next((text for text in texts if text is not None and not isinstance(text, str)), None)
    if odd is not None:
        raise InputError(f"the column {name} holds {odd!r:.60}", "texts or None", "convert it first")
    return texts


def _selected(given: Mapping[str, NDArray[Any]]) -> str:
    """All columns; texts are called so even where each of them is None."""
    kinds = ((_name(name), column.dtype.kind) for name, column in given.items())
    return ", ".join(f"CAST({name} AS VARCHAR) AS {name}" if kind == "O" else name for name, kind in kinds)


def _plain(column: NDArray[Any]) -> NDArray[Any]:
    if not isinstance(column, np.ma.MaskedArray):
        return column
    masked = cast("np.ma.MaskedArray[Any, Any]", column)
    if masked.dtype == object:
        texts = masked.data.copy()
        texts[np.ma.getmaskarray(masked)] = None
        return texts
    return np.asarray(masked.filled(np.nan)) if masked.dtype.kind == "f" else masked


def _name(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,60}", name):
        raise InputError(f"a column called {name!r:.80}", "small letters, digits and _", "rename it")
    return f'"{name}"'


def _literal(path: Path) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in str(path.absolute()))


def _quoted(text: Path | str) -> str:
    return "'" + str(text).replace("'", "''") + "'"


@contextmanager
def _as_ours(path: Path, doing: str) -> Generator[None]:
    import duckdb

    try:
        yield
    except duckdb.Error as reason:
        if isinstance(reason, duckdb.InternalException | duckdb.FatalException):
            # A damaged file may take the whole database with it: the next one to ask gets a new one.
            _database_of.cache_clear()
        words = _told(reason)
        if doing == "written":
            raise _not_written(path, words) from None
        raise ModelFileError(
            f"{path} cannot be read ({words:.160})", "a whole Parquet file", "build the atlas again, or fetch the file again"
        ) from None


def _told(reason: Exception) -> str:
    """What DuckDB says; some of its errors are JSON."""
    words = str(reason).split("\n")[0]
    found = re.search(r'"exception_message":"((?:[^"\\]|\\.)*)"', words)
    return found[1].replace('\\"', '"') if found else words


def _not_written(path: Path, reason: str) -> InputError:
    return InputError(
        f"{path} cannot be written ({reason:.160})", "a place with room and rights", "make room, or choose another folder"
    )
