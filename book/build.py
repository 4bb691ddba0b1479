"""The book: pages of docs/, the executed documents, the reference; then the site. ``make docs`` runs this.

It ends with exit code 1 when a verdict is not the recorded one: such a book is not true.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from executed import write_documents
from headwater.claims.given import Given
from headwater.claims.registry import all_claims
from headwater.claims.verdicts import ask
from headwater.cli.terminal import use_cores, watched
from reference import write_reference
from texts import with_formulas

HERE = Path(__file__).parent
PAGES, BUILT = HERE.parent / "docs", HERE / "built"


def main() -> int:
    """Gather the pages, then let Zensical lay them out."""
    use_cores()
    shutil.rmtree(BUILT, ignore_errors=True)
    gather_pages()
    with Given() as given:
        with watched("claims") as tell:
            answers = list(ask(list(all_claims().values()), given, tell))
        write_documents(answers, given, BUILT)
    wrong = [answer.claim.id for answer in answers if not answer.ok]
    if wrong:
        sys.stderr.write(f"not as recorded: {', '.join(wrong)}\n")
        return 1
    return lay_out()


def gather_pages() -> None:
    """What is written by hand, and what the code says of itself."""
    shutil.copytree(PAGES, BUILT / "en", ignore=shutil.ignore_patterns("pt"))
    shutil.copytree(PAGES / "pt", BUILT / "pt")
    for language in ("en", "pt"):
        shutil.copy(HERE / "book.css", BUILT / language / "book.css")
        for page in (BUILT / language).glob("*.md"):
            page.write_text(with_formulas(page.read_text()))
    write_reference(BUILT / "en")


def lay_out() -> int:
    """The site, English first: the Portuguese one lies within it."""
    for language in ("en", "pt"):
        command = [
            Path(sys.executable).parent / "zensical",
            "build",
            "--clean",
            "--strict",
            "--config-file",
            HERE / f"{language}.toml",
        ]
        if code := subprocess.run(command, check=False, env={**os.environ, "NO_COLOR": "1"}).returncode:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
