"""``headwater train``: a model from a recipe."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from headwater.cli.terminal import Flag, note, show_json, show_table, use_cores

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from headwater.train.recipe import Recipe
    from headwater.train.run import Outcome, Progress, Reading, Report


def train(  # noqa: PLR0913  (each is one choice a person makes on the command line)
    recipe: str | None = None,
    /,
    *,
    out: Path | None = None,
    settings: Annotated[list[str] | None, Parameter(name="--set", negative="", consume_multiple=False)] = None,
    text: Annotated[list[str] | None, Parameter(negative="")] = None,
    resume: Flag = False,
    device: Literal["cpu", "cuda", "mps"] = "cpu",
    sharing: Literal["copies", "shards"] = "copies",
    json: Flag = False,
) -> int:
    """Train a model by a recipe.

    Stops after the current update on Ctrl-C and goes on from there with --resume; after being killed, too, the weights are in the end
    the same, bit for bit. Several processes: torchrun --nproc-per-node 2 -m headwater train RECIPE.

    Parameters
    ----------
    recipe
        The name of a recipe, or the path of a .toml file; without it the recipes are listed.
    out
        The run's folder; runs/NAME unless said otherwise.
    settings
        Change a setting: --set model.layers=2 --set training.steps=500.
    text
        Train on these files, folders or globs instead of the recipe's text.
    resume
        Go on with the run that is in the folder.
    device
        Where to calculate.
    sharing
        Of several processes: each a copy of the whole model (DDP), or a shard of every tensor (FSDP2).
    json
        Print one JSON document when all is done.
    """
    if recipe is None:
        return _list_recipes(json=json)
    from headwater.train.recipe import read_recipe
    from headwater.train.run import Ways, run_recipe

    use_cores()
    chosen = read_recipe(recipe, settings or (), files=tuple(text or ()))
    folder = out or Path("runs") / chosen.name
    if resume and not settings and not text and (folder / "recipe.toml").exists() and not recipe.endswith(".toml"):
        # The run's own recipe knows what was changed when it was begun.
        chosen = read_recipe(folder / "recipe.toml")
    with _watching(chosen) as (reading, report):
        ways = Ways(resume=resume, device=device, sharing=sharing, report=report, reading=reading)
        outcome = run_recipe(chosen, folder, ways)
    return _tell(chosen, folder, outcome, json=json)


def _list_recipes(*, json: bool) -> int:
    from headwater.train.recipe import read_recipe, recipe_names

    recipes = [read_recipe(name) for name in recipe_names()]
    if json:
        show_json({"recipes": [{"name": recipe.name, "about": recipe.about} for recipe in recipes]})
    else:
        show_table(["recipe", ""], [[recipe.name, recipe.about] for recipe in recipes])
    return 0


def _tell(recipe: "Recipe", folder: Path, outcome: "Outcome", *, json: bool) -> int:
    if not _is_first():
        return 0 if outcome.signal is None else 128 + outcome.signal
    if outcome.signal is not None:
        note(f"stopped after update {outcome.step:,} of {recipe.training.steps:,}; go on with --resume")
    if json:
        model = str(folder / "model") if outcome.signal is None else None
        show_json(
            {
                "folder": str(folder),
                "model": model,
                "step": outcome.step,
                "held_out": outcome.held_out,
                "bits_per_byte": outcome.bits_per_byte,
            }
        )
    elif outcome.signal is None:
        rows = [["model", str(folder / "model")], ["updates", f"{outcome.step:,}"]]
        if outcome.held_out is not None and outcome.bits_per_byte is not None:
            rows += [["held-out loss", f"{outcome.held_out:.4f} nats"], ["", f"{outcome.bits_per_byte:.4f} bits per byte"]]
        show_table(["", ""], rows)
    return 0 if outcome.signal is None else 128 + outcome.signal


def _is_first() -> bool:
    """Whether this process speaks for all."""
    from headwater.train.processes import place_in_world

    return place_in_world()[0] == 0


@contextmanager
def _watching(recipe: "Recipe") -> "Generator[tuple[Reading, Report]]":
    """Bars on stderr: the text while it is read, then the training. In other processes than the first, nothing."""
    from rich.console import Console
    from rich.progress import Progress as Bars

    console = Console(stderr=True, quiet=not _is_first())
    with Bars(*_columns(), console=console) as bars:
        text = bars.add_task("text", total=None, visible=False, said="")
        steps = bars.add_task("update", total=recipe.training.steps, visible=False, said="")

        def reading(done: int, total: int | None) -> None:
            bars.update(text, completed=done, total=total, visible=True, said=f"{done / 1e6:.1f} MB")

        def report(progress: "Progress") -> None:
            bars.update(text, visible=False)
            said = f"loss {progress.step.loss:.3f}"
            if progress.held_out is not None and progress.bits_per_byte is not None:
                said += f" · held out {progress.held_out:.3f} · {progress.bits_per_byte:.3f} bits/byte"
            said += f" · {progress.tokens_per_second:,.0f} tokens/s"
            bars.update(steps, completed=progress.step.number, visible=True, said=said)

        yield reading, report


def _columns() -> "list[ProgressColumn]":
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    return [
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[said]}"),
        TimeRemainingColumn(),
    ]
