"""``headwater claims``: every statement of the five source documents, measured."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from headwater.cli.terminal import Flag, note, show_json, use_cores, watched
from headwater.errors import InputError

if TYPE_CHECKING:
    from headwater.claims.claim import Claim, Language
    from headwater.claims.given import Given
    from headwater.show.looks import Theme

THEMES: "dict[str, tuple[Theme, ...]]" = {"light": ("light",), "dark": ("dark",), "both": ("light", "dark")}


def claims(  # noqa: PLR0913  (each is one choice a person makes on the command line)
    *ids: str,
    document: str | None = None,
    verdict: str | None = None,
    model: str | None = None,
    lang: Literal["en", "pt"] = "en",
    json: Flag = False,
    figures: Path | None = None,
    theme: Literal["light", "dark", "both"] = "both",
    format: Literal["svg", "png"] = "svg",  # noqa: A002  (what people call it)
) -> int:
    """Measure the statements of the five source documents, and say of each whether it holds.

    All 276 are measured, or those of some ids, of a document or of a verdict. A claim that is asked for by its id is shown in full:
    what the document says, the verdict and why, the numbers, and the code that measured them. Exit code 1 says that a verdict is not
    the recorded one. Of a model of yours, what cannot be asked of it is listed with what that would need.

    Parameters
    ----------
    ids
        Such as 000-L1.
    document
        One of 000, 001, 002, 003, 004.
    verdict
        Those that were found to be one of: holds, conditions, false, empirical, definition, question, figure.
    model
        A model of yours to measure on, instead of the reference model of its kind: a file, a folder or the name of one of ours.
    lang
        English or Portuguese.
    json
        Print one JSON document.
    figures
        A folder to write the figures to, each as 000-FIG1.en.light.svg; only they are measured then.
    theme
        Of the figures: light, dark or both.
    format
        Of the figures' files: svg or png.
    """
    from headwater.claims.given import Given
    from headwater.claims.registry import chosen
    from headwater.claims.verdicts import Refusal, ask
    from headwater.cli.claim_texts import plain, show_all, show_each, show_refused

    wanted = chosen(ids, document=document, verdict=verdict)
    if figures is not None:
        wanted = _drawings(wanted, figures)
    if not wanted:
        raise InputError("no claim that is all of these", "some", "leave one of the options out")
    use_cores()
    refused: list[Refusal] = []
    with Given(model) as given:
        with watched("claims") as tell:
            answers = list(ask(wanted, given, tell, refused=refused))
        if not answers:
            raise refused[0].why
        if figures is not None:
            _draw([answer.claim for answer in answers], given, figures, [(lang, name) for name in THEMES[theme]], format)
    if json:
        show_json(plain(answers, lang, refused))
    elif ids and figures is None:
        show_each(answers, lang)
    else:
        show_all(answers, lang)
    if refused and not json:
        show_refused(refused, lang)
    return 0 if all(answer.ok for answer in answers) else 1


def _drawings(wanted: "Sequence[Claim]", folder: Path) -> "list[Claim]":
    """The figures among some claims, and a folder that they can go to."""
    drawings = [claim for claim in wanted if claim.verdict == "figure"]
    if not drawings:
        raise InputError("--figures, and no figure among these claims", "figures", "name none, or some such as 000-FIG1")
    if not folder.is_dir() and (folder.exists() or folder.is_symlink()):
        raise InputError(f"--figures {folder}", "a folder", "this is a file, or a link to nothing: choose another name")
    folder.mkdir(parents=True, exist_ok=True)
    return drawings


def _draw(
    wanted: "Sequence[Claim]",
    given: "Given",
    folder: Path,
    looks: "Sequence[tuple[Language, Theme]]",
    kind: Literal["svg", "png"],
) -> None:
    from headwater.claims.figures.drawings import drawing_of
    from headwater.files.atomic import write_file
    from headwater.show.looks import Look

    with watched("figures") as tell:
        for number, claim in enumerate(wanted):
            tell(claim.id, number / len(wanted))
            for language, theme in looks:
                file = folder / f"{claim.id}.{language}.{theme}.{kind}"
                write_file(file, drawing_of(claim.id).file(given, Look(language, theme), kind))
    count = len(wanted) * len(looks)
    note(f"{count} file{'s' * (count > 1)} written to {folder}")
