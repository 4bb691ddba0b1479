"""The description of all routes, from which the page's types are made: ``python -m headwater.studio.describe FILE``."""

import json
import sys
from pathlib import Path

from headwater.files.atomic import write_file
from headwater.studio.app import describe


def main(place: Path) -> None:
    """Write it; where it is there already, nothing that depends on it has to be made again."""
    told = json.dumps(describe().openapi(), indent=1).encode() + b"\n"
    if not place.is_file() or place.read_bytes() != told:
        write_file(place, told)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
