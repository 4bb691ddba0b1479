"""Profiles, threads, and nothing that a test would have to know about."""

import io
import os
import sys
from types import SimpleNamespace

import hypothesis
import pytest
import torch

torch.set_num_threads(1)

# At a desk every run explores anew; a gate gives the same answer for the same code.
IS_GATE = bool(os.environ.get("CI"))
hypothesis.settings.register_profile("quick", max_examples=20, deadline=None, derandomize=IS_GATE)
hypothesis.settings.register_profile("deep", max_examples=150, deadline=None)  # make reliability
hypothesis.settings.load_profile(os.environ.get("HEADWATER_PROFILE", "quick"))


@pytest.fixture
def headwater(capfd, monkeypatch):
    """The command in this process: torch takes seconds to import, and once is enough."""

    from headwater.cli.main import main

    def run(*arguments, stdin=""):
        data = stdin if isinstance(stdin, bytes) else stdin.encode()
        monkeypatch.setattr(sys, "argv", ["headwater", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        monkeypatch.setenv("HEADWATER_THREADS", "1")
        with pytest.raises(SystemExit) as ended:
            main()
        told = capfd.readouterr()
        return SimpleNamespace(returncode=ended.value.code, stdout=told.out, stderr=told.err)

    return run
