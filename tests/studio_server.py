"""A real studio in a process of its own, for tests that speak HTTP with it or open it in a browser."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx


def chromium_place():
    """Where Chromium is: as the variable CHROMIUM says, else as systems call it."""
    named = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    found = os.environ.get("CHROMIUM") or next(filter(None, named), None)
    assert found, "no Chromium: make test-studio installs it, or says how"
    return found


@dataclass(frozen=True)
class Running:
    """A studio that answers."""

    address: str
    """``http://127.0.0.1:PORT``"""
    token: str
    process: subprocess.Popen
    said: list = field(default_factory=list)
    """Lines that it has printed, and those that it prints."""

    @property
    def door(self):
        """The address that was printed: with the token."""
        return f"{self.address}/?token={self.token}"

    def client(self, **options):
        """Somebody who has the token."""
        headers = {"authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=self.address, headers=headers, timeout=60, **options)

    def get(self, route, **query):
        """An answer in JSON; an error is one of the test."""
        with self.client() as client:
            answer = client.get(route, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()


@contextmanager
def studio(*models, folder: Path, atlases=(), environment=None, options=("--port", "0")):
    """Start it on some models, in a folder that it may write to, and end it."""
    given = [*(["--atlas", *map(str, atlases)] if atlases else []), *options]
    process = subprocess.Popen(
        [sys.executable, "-m", "headwater", "studio", *map(str, models), *given, "--no-browser"],
        cwd=folder,
        env={**os.environ, "HEADWATER_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield _running(process)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _running(process):
    said = []
    for line in process.stdout:
        said.append(line)
        found = re.search(r"(http://[\w.]+:\d+)/\?token=(\S+)", line)
        if found:
            # Or it would wait for somebody to read what it says.
            threading.Thread(target=said.extend, args=(process.stdout,), daemon=True).start()
            return Running(found[1], found[2], process, said)
    raise AssertionError("no studio: " + "".join(said))
