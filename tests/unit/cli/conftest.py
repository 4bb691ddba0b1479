import io
import sys
from types import SimpleNamespace

import pytest

from headwater.cli.main import main


@pytest.fixture
def headwater(capfd, monkeypatch):
    """The command in this process: torch takes seconds to import, and once is enough."""

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
