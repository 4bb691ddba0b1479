"""``python -m errand_of_tests``: an errand that does what a test wants, in the place of ``headwater.studio.errand``."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def say(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(how, *rest):
    say(json.dumps({"what": "begun", "share": 0.0}))
    if how == "done":
        say(json.dumps({"done": rest[0]}))
    elif how == "crash":
        sys.exit(3)
    elif how == "noise":
        say("not JSON")
    elif how == "quiet":
        time.sleep(0.5)
        say(json.dumps({"done": "late"}))
    elif how == "imports":
        import numpy as np

        asked = [sys.executable, "-c", "import numpy; print(numpy.__file__)"]
        other = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
        say(json.dumps({"done": [np.__file__, other]}))
    elif how == "forever":
        other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path(tempfile.mkdtemp(), "put aside").write_text("much")
        Path(rest[0]).write_text(f"{os.getpid()} {other.pid} {tempfile.gettempdir()}")
        time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
