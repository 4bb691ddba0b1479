"""``headwater``: the verbs, how errors are told, and exit codes.

0: done. 1: done, and the answer is no. 2: something was wrong with what was given. 70: a bug of ours. 130: interrupted.
141: whoever read the output has gone.
"""

import inspect
import io
import os
import re
import sys
import traceback
from pathlib import Path
from typing import NoReturn

from cyclopts import App, CycloptsError

from headwater.cli.terminal import Screen
from headwater.errors import HeadwaterError
from headwater.version import __version__

app = App(
    name="headwater",
    help="Turns a transformer into an exact sum.",
    version=__version__,
    help_format="plaintext",
    result_action="return_value",
    suppress_keyboard_interrupt=False,
    exit_on_error=False,
    print_error=False,
    console=Screen(),
)
VERBS = {
    "demo": ("headwater.cli.demo:demo", "Run the main job on embedded defaults."),
    "corpus": ("headwater.cli.corpus:corpus", "Turn text into tokens on disk."),
    "train": ("headwater.cli.train:train", "Train a model by a recipe."),
    "eval": ("headwater.cli.eval:evaluate", "Measure a model's loss, and that of baselines."),
    "study": ("headwater.cli.study:study", "Experiments on training."),
    "check": ("headwater.cli.check:check", "Check that the parts add up to what a model says."),
    "explain": ("headwater.cli.explain:explain", "Follow a logit upstream to the tokens it came from."),
    "attend": ("headwater.cli.attend:attend", "Show why a head looks where it looks."),
    "stream": ("headwater.cli.stream:stream", "Show the stream at every stage of every block."),
    "ablate": ("headwater.cli.ablate:ablate", "Take parts away and see what becomes of a prediction."),
    "heads": ("headwater.cli.heads:heads", "Show what the weights say about each head."),
    "atlas": ("headwater.cli.atlas:atlas", "Write out every bigram and skip-trigram of a model, and search them."),
    "studio": ("headwater.cli.studio:studio", "Look at all of it in a browser."),
    "claims": ("headwater.cli.claims:claims", "Measure every statement of the source documents."),
    "bench": ("headwater.cli.bench:bench", "Measure speed and memory beside other libraries."),
    "inspect": ("headwater.cli.inspect:inspect", "Show a model's architecture, parameters and tensors."),
    "generate": ("headwater.cli.generate:generate", "Continue a text."),
    "convert": ("headwater.cli.convert:convert", "Write a model anew, here or for another library."),
}
# Each verb's module is imported when it is called; the one-line help stands here so that --help imports none of them.
for verb, (place, line) in VERBS.items():
    app.command(place, name=verb, help=line)

errors = Screen(stderr=True, highlight=False)


def main() -> NoReturn:
    """Run one command; every end of it is an exit code."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        # Closed by whoever called (>&-): there is nothing to read, and nobody to tell.
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115  (open until the end)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that cannot show a letter gets a question mark, not an error.
        sys.stdout.reconfigure(errors="replace")
    try:
        _tell_in_full(sys.argv[1:])
        status = app(sys.argv[1:])
        sys.stdout.flush()
        sys.exit(status if isinstance(status, int) else 0)
    except HeadwaterError as error:
        _tell(error.given, f"{error.needed}; {error.do}")
        sys.exit(2)
    except BrokenPipeError:
        # Whoever read our output has gone; Python must not complain about it again while it closes down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        _tell(str(error), "a place that can be read or written; check path, rights and room")
        sys.exit(2)
    except CycloptsError as error:
        _tell(str(error).strip(), f"see {' '.join(['headwater', *(error.command_chain or ())])} --help")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:  # noqa: BLE001  (a bug of ours keeps its traceback, and an exit code that is no answer)
        sys.exit(_unforeseen(error))


def _unforeseen(error: Exception) -> int:
    """A bug of ours with its traceback; but DuckDB calls Ctrl-C in the middle of a query an error of its own."""
    if str(error) == "Query interrupted":
        return 130
    traceback.print_exc()
    return 70


def _tell_in_full(arguments: list[str]) -> None:
    """Let the help of a verb, or of one below it, say all that its docstring says; folding is left to the terminal."""
    if not {"--help", "-h"} & set(arguments):
        return
    own = app
    for name in app.parse_commands([each for each in arguments if not each.startswith("-")])[0]:
        own = own[name]
    if own is not app and own.default_command is not None:
        about = re.split(r"\n\s*Parameters\n", inspect.getdoc(own.default_command) or "")[0]
        own.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in about.replace("``", "").split("\n\n"))


def _tell(first: str, second: str) -> None:
    errors.print("error:", style="bold red", end=" ")
    errors.print(first, markup=False, soft_wrap=True)
    errors.print(f"  {second}", markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
