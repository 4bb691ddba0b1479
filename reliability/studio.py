"""A running studio: its files are cut, overwritten, replaced, removed while people ask; and fifty people ask for minutes."""

import os
import random
import re
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from headwater.studio.limits import RUNS_BYTES
from studio_server import studio
from tally import Tally
from tiny_atlas import build_here, save_model

ASKED = {
    "model": ("/api/tokens", {"model": "tiny", "text": "line 7"}),
    "atlas": ("/api/atlas/search", {"atlas": "tiny"}),
}
MIGHT_BE_TOLD = (409, 503)
"""It has changed since it was opened; it cannot be had now."""


def _truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 3)


def _overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        size = path.stat().st_size
        file.seek(size // 2)
        file.write(os.urandom(min(4_000, size // 2)))


def _replace(path: Path) -> None:
    """By the file of another model or atlas, as a download does it."""
    another = Path(str(path).replace("/tiny/", "/other/"))
    shutil.copy(another, path.with_name("new"))
    path.with_name("new").replace(path)


DAMAGES: tuple[Callable[[Path], None], ...] = (_truncate, _overwrite, _replace, Path.unlink)


def changing_files(rounds: int) -> list[Tally]:
    """Every damage to a model and to an atlas, so many times, each under a studio of its own with eight clients."""
    tallies = {kind: Tally(f"files of {name} changed under a running studio") for kind, name in _NAMES.items()}
    with tempfile.TemporaryDirectory() as place:
        for seed, name in enumerate(("tiny", "other")):
            save_model(Path(place) / name / "model", seed=seed)
            build_here(Path(place) / name, Path(place) / name / "atlas", with_text=False)
        for number in range(rounds):
            for damage in DAMAGES:
                for kind, tally in tallies.items():
                    tally.count(_changed(Path(place), kind, damage, random.Random(number)))
    return list(tallies.values())


_NAMES = {"model": "a model", "atlas": "an atlas"}


def _changed(place: Path, kind: str, damage: Callable[[Path], None], lots: random.Random) -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("tiny", "other"):
            shutil.copytree(place / name, Path(folder) / name)
        pattern = "*.safetensors" if kind == "model" else "trigrams/**/*.parquet"
        path = lots.choice(sorted((Path(folder) / "tiny" / kind).glob(pattern)))
        route, query = ASKED[kind]
        changed, answers, moment = threading.Event(), list[tuple[bool, httpx.Response]](), lots.randrange(20, 60)

        def ask(number: int) -> None:
            if number == moment:
                damage(path)
                changed.set()
            was_changed = changed.is_set()
            with running.client() as client:
                answers.append((was_changed, client.get(route, params=query)))

        with studio("tiny/model", folder=Path(folder), atlases=["tiny/atlas"]) as running:
            ids = running.get("/api/shelf")
            query = {**query, kind: ids["models" if kind == "model" else "atlases"][0]["id"]}
            right = running.get(route, **query)
            with ThreadPoolExecutor(8) as asking:
                list(asking.map(ask, range(120)))
            ended = running.process.poll()
        where = f"{damage.__name__.strip('_')} {path.name}"
        return _complaint(where, answers, right) or (f"{where}: the studio ended with {ended}" if ended is not None else None)


def _complaint(where: str, answers: list[tuple[bool, httpx.Response]], right: Any) -> str | None:
    for was_changed, answer in answers:
        if answer.status_code == httpx.codes.OK:
            if was_changed:
                return f"{where}: an answer from what was no longer there"
            if _numbers(answer.json()) != _numbers(right):
                return f"{where}: another answer than before"
        elif answer.status_code not in MIGHT_BE_TOLD or set(answer.json()) != {"given", "needed", "do"}:
            return f"{where}: {answer.status_code} {answer.text[:200]}"
    return None if any(answer.status_code != httpx.codes.OK for _, answer in answers) else f"{where}: nobody was told"


def _numbers(plain: Any) -> Any:
    """All of an answer but for how long it took."""
    if isinstance(plain, dict):
        return {key: _numbers(value) for key, value in plain.items() if key not in ("seconds", "took", "ms")}
    return [_numbers(each) for each in plain] if isinstance(plain, list) else plain


WORDS = ("for", "line", "in", "open", "(", "self", "return", "def", "import", "None", "if", "x", "=", "print")


def load(clients: int, seconds: float) -> list[Tally]:
    """People who ask, read the answer for a second on average, and ask the next thing; all screens in turn."""
    tally, took, sizes = Tally(f"{clients} clients of one studio for {seconds:.0f} s"), list[float](), list[float]()
    with tempfile.TemporaryDirectory() as place, studio("one-layer", "two-layer", folder=Path(place)) as running:
        for name in ("one-layer", "two-layer"):
            running.get("/api/river", model=name, text="for line in open(")
        _ask_for(running, 4, min(30.0, seconds / 4), Tally(""), [])
        sizes.append(_resident(running.process.pid))
        for _ in range(2):
            _ask_for(running, clients, seconds / 2, tally, took)
            sizes.append(_resident(running.process.pid))
    quantiles = statistics.quantiles(took, n=100)
    half, most, nearly_all = (quantiles[each - 1] * 1000 for each in (50, 95, 99))
    tally.notes.append(
        f"{len(took) / seconds:.0f} answers a second; half of them within {half:.0f} ms, 95% within {most:.0f}, 99% within {nearly_all:.0f}"
    )
    kept = f"of which runs that stay at hand for the next question may take {RUNS_BYTES / 2**20:.0f}"
    tally.notes.append(
        f"memory {sizes[0]:.0f} MB before, {sizes[1]:.0f} MB after half of the time, {sizes[2]:.0f} MB at the end, {kept}"
    )
    return [tally]


def _ask_for(running: Any, clients: int, seconds: float, tally: Tally, took: list[float]) -> None:
    ends, lock = time.monotonic() + seconds, threading.Lock()

    def one(number: int) -> None:
        lots = random.Random(f"{number} {ends}")
        with running.client() as client:
            client.headers["x-tab"] = f"tab {number}"
            while time.monotonic() < ends:
                route, query = _question(lots)
                began = time.monotonic()
                answer = client.get(route, params=query)
                spent = time.monotonic() - began
                with lock:
                    took.append(spent)
                    tally.count(
                        None if answer.status_code == httpx.codes.OK else f"{route} {answer.status_code} {answer.text[:200]}"
                    )
                time.sleep(lots.expovariate(1.0))

    with ThreadPoolExecutor(clients) as asking:
        list(asking.map(one, range(clients)))


def _question(lots: random.Random) -> tuple[str, dict[str, str]]:
    text = " ".join(lots.choices(WORDS, k=lots.randrange(3, 30)))
    query = {"model": lots.choice(("one-layer", "two-layer")), "text": text}
    route = lots.choice(("tokens", "river", "river/totals", "attention", "attention/why", "stream", "shelf"))
    if route == "attention/why":
        query["head"] = "L0H1"
    return f"/api/{route}", {} if route == "shelf" else query


def _resident(process: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    assert found
    return int(found[1]) / 1024
