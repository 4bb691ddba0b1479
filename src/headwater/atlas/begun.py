"""What was begun in a folder, and whether a build may go on there: ``plan.json`` is written first and says what all other files are."""

import json
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from headwater.atlas import against_text
from headwater.atlas.manifest import LEFT, MANIFEST, PLAN, WORK
from headwater.atlas.order import Order, Plan
from headwater.errors import HeadwaterError, InputError
from headwater.files.atomic import write_file
from headwater.files.lock import NAME as LOCK
from headwater.files.lock import held
from headwater.files.plain import read_json
from headwater.settings import from_plain, to_plain

TABLES = ("vocab", "bigrams", "strongest")
FOLDERS = ("says", "seeks", "sought", "said", "lines", "trigrams")
OURS = {MANIFEST, PLAN, WORK, "heads.json", *(f"{name}.parquet" for name in TABLES), *FOLDERS, *against_text.FILES}
"""What an atlas' folder holds; nothing else is ever removed from one."""


def plan_in(folder: Path) -> Plan | None:
    """The plan of what was begun there; None if there is none, or none that can be read."""
    try:
        return from_plain(Plan, read_json(folder / PLAN))
    except HeadwaterError:
        return None


@contextmanager
def begun(order: Order, *, overwrite: bool) -> Generator[None]:
    """A folder for this order and no other process until the block ends; another atlas there is refused, or removed with ``overwrite``."""
    folder = Path(order.folder)
    try:
        _check_folder(folder)
        _goes_on(order, overwrite=overwrite)
        with held(folder / WORK, "a folder of its own for each atlas that is being built"):
            _begin(order, overwrite=overwrite)
            yield
    except OSError as reason:
        if reason.strerror is None:
            raise
        do = "make room or choose another folder; what is whole there is kept, and the same command goes on"
        raise InputError(f"{folder} cannot be written ({reason.strerror})", "a place with room and rights", do) from reason


def _check_folder(folder: Path) -> None:
    """Before anything is made there: an atlas that was begun, or a new folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"{folder} is a file or lies under one", "a folder", "choose another name") from None
    there = sorted(path.name for path in folder.iterdir() if path.name != WORK and not LEFT.fullmatch(path.name))
    if there and PLAN not in there:
        raise InputError(f"{folder} holds {there[0]!r:.80}", "a new folder, or one with an atlas", "choose another name")


def _begin(order: Order, *, overwrite: bool) -> None:
    """Write down what is to be built, or go on with it."""
    if _goes_on(order, overwrite=overwrite):
        return
    if order.path(PLAN).exists():
        _clear(Path(order.folder))
    write_file(order.path(PLAN), json.dumps(to_plain(order.plan), indent=1).encode() + b"\n")


def _goes_on(order: Order, *, overwrite: bool) -> bool:
    """Whether what was begun is what is asked for; something else is refused, unless it may be removed."""
    before = plan_in(Path(order.folder))
    if order.path(PLAN).exists() and before != order.plan and not overwrite:
        raise InputError(
            f"{order.folder} holds {_difference(before, order.plan)}",
            "an atlas of this model with these settings",
            "give another --out, or --overwrite to build it anew",
        )
    return before == order.plan and not (overwrite and order.path(MANIFEST).exists())


def _clear(folder: Path) -> None:
    """Remove an atlas; killed in between, it is one whose plan cannot be read, and goes when the same is asked again."""
    others = sorted(path.name for path in folder.iterdir() if path.name not in OURS and not LEFT.fullmatch(path.name))
    if others:
        raise InputError(f"{folder} holds {others[0]!r:.80} too", "a folder with nothing but an atlas", "move it away first")
    (folder / MANIFEST).unlink(missing_ok=True)
    write_file(folder / PLAN, b"{}\n")
    for inner in [*folder.iterdir(), *(folder / WORK).iterdir()]:
        if inner.name not in (PLAN, WORK, LOCK):
            shutil.rmtree(inner) if inner.is_dir() else inner.unlink()


def _difference(before: Plan | None, now: Plan) -> str:
    """What is stale about another plan, in words."""
    if before is None:
        return "an atlas whose plan cannot be read"
    if before.model != now.model:
        return f"an atlas of other weights ({before.model[:12]}…, these are {now.model[:12]}…)"
    for name in ("words", "corpus", "libraries"):
        if getattr(before, name) != getattr(now, name):
            return f"an atlas made with another {({'words': 'tokenizer', 'libraries': 'version of a library'}).get(name, name)}"
    ours, theirs = to_plain(now.settings), to_plain(before.settings)
    changed = [f"{name} {theirs.get(name)} instead of {ours.get(name)}" for name in ours if ours.get(name) != theirs.get(name)]
    return f"an atlas with {', '.join(changed)[:160] or 'other settings'}"
