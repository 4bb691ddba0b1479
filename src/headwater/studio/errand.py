"""``python -P -m headwater.studio.errand``: what a studio lets a process of its own do. It prints lines of JSON, which ``headwater.studio.errands`` passes on.

==================================  =====================================================
atlas MODEL OUT                     build the atlas of a model, held against its own text
claims DOCUMENT LANG [MODEL NAME]   measure the statements of a document, or of all
==================================  =====================================================
"""

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headwater.errors import HeadwaterError, InputError

NICENESS = 10
EVERY = 0.005
"""Of the whole: how much further it must be before it is said again."""


def say(event: dict[str, Any]) -> None:
    """One event, at once."""
    sys.stdout.write(json.dumps(event, allow_nan=False) + "\n")
    sys.stdout.flush()


def telling() -> Callable[[str, float], None]:
    """A listener of progress that tells what is new: another step, or a share that has grown visibly."""
    last = ("", -1.0)

    def tell(what: str, share: float) -> None:
        nonlocal last
        if what != last[0] or share - last[1] >= EVERY:
            last = (what, share)
            say({"what": what, "share": share})

    return tell


def atlas(model: str, out: str) -> None:
    """Build an atlas, or finish one that was begun there."""
    from headwater.atlas.build import build_atlas
    from headwater.model.sources import look
    from headwater.train.own_text import HELD_OUT, Wanted, corpus_for

    tell = telling()
    tell("reading", 0.0)
    if look(model).words is None:
        # Nothing could be read to it: an atlas of its weights alone.
        build_atlas(model, out, progress=tell)
        say({"done": out})
        return
    with corpus_for(Path(model), Wanted(None, None, HELD_OUT), tell) as corpus:
        build_atlas(model, out, corpus=corpus, progress=tell)
    say({"done": out})


def claims(document: str, lang: str, model: str | None = None, name: str | None = None) -> None:
    """Measure statements."""
    from headwater.studio.errand_claims import Wanted, measure_claims

    measure_claims(Wanted(document or None, "pt" if lang == "pt" else "en", model, name), say)


ERRANDS: dict[str, Callable[..., None]] = {"atlas": atlas, "claims": claims}


def main(arguments: list[str]) -> int:
    """Do one errand; what goes wrong is an event like others."""
    threading.Thread(target=_end_with_the_studio, daemon=True).start()
    if hasattr(os, "nice"):
        # Questions come first: somebody is looking at the screen.
        os.nice(NICENESS)
    try:
        if not arguments or arguments[0] not in ERRANDS:
            raise InputError(f"the errand {arguments[:1]}", f"one of {', '.join(ERRANDS)}", "name one")
        ERRANDS[arguments[0]](*arguments[1:])
    except HeadwaterError as error:
        say({"error": {"given": error.given, "needed": error.needed, "do": error.do}})
        return 2
    return 0


def _end_with_the_studio() -> None:
    """The studio holds the other end of stdin: it closes when the studio ends, however it ends."""
    # Not by sys.stdin: whoever waits in it holds a lock that Python needs when it ends.
    while os.read(0, 4096):
        pass
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
