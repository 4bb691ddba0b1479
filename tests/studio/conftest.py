"""The studio over HTTP: but for the door and the lanes, which every run looks at, a group of its own (make test-studio)."""

from pathlib import Path

import pytest

ALWAYS = {"test_guard.py", "test_work.py"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.name not in ALWAYS:
            item.add_marker("studio")
