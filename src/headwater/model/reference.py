"""The small trained models that come with Headwater: ``headwater.load("one-layer")``."""

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "reference"


def reference_models() -> dict[str, Path]:
    """Their names, and where they lie."""
    there = sorted(FOLDER.iterdir()) if FOLDER.is_dir() else []
    return {path.name: path for path in there if (path / "config.json").exists()}
