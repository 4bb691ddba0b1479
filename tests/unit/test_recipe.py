"""Recipes: ours are sound, settings can be changed, mistakes are told."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import ConfigError, InputError
from headwater.model.config import PreNorm, RMSNorm
from headwater.train.recipe import Keeping, read_recipe, recipe_names, write_recipe
from headwater.train.words import prepare_corpus
from tiny import tiny_recipe


@pytest.mark.parametrize("name", recipe_names())
def test_each_of_our_recipes_is_called_by_its_name_and_survives_being_written(name: str, tmp_path: Path) -> None:
    recipe = read_recipe(name)
    (tmp_path / "again.toml").write_bytes(write_recipe(recipe))
    assert recipe.name == name
    assert recipe.about
    assert read_recipe(tmp_path / "again.toml") == recipe


def test_the_recipes_that_were_promised_are_there() -> None:
    promised = {"zero-layer", "one-layer", "two-layer", "block", "block-post", "planted", "one-layer-en", "one-layer-pt"}
    assert promised <= set(recipe_names())


def test_settings_can_be_changed() -> None:
    changes = [
        "model.layers=2",
        "training.learning_rate=1e-4",
        "text.tokenizer=bytes",
        'model.norm={kind="pre-norm"}',
        "name=other",
    ]
    recipe = read_recipe("one-layer", changes)
    assert (recipe.model.layers, recipe.training.learning_rate, recipe.text.tokenizer, recipe.name) == (
        2,
        1e-4,
        "bytes",
        "other",
    )
    assert recipe.model.norm == PreNorm()


def test_a_word_for_an_alternative_gives_way_to_its_table(tmp_path: Path) -> None:
    path = tmp_path / "short.toml"
    path.write_bytes(write_recipe(read_recipe("one-layer")).replace(b'[model.norm]\nkind = "no-norm"\n', b""))
    path.write_text(path.read_text().replace("[model]\n", '[model]\nnorm = "pre-norm"\n'))
    changed = read_recipe(path, ["model.norm.norm=rms-norm"]).model.norm
    assert changed == PreNorm(norm=RMSNorm())


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ("training.stpes=5", "steps"),
        ("modle.layers=2", "model"),
        ("text.tokenizer=byts", "bytes"),
        ("text.source.kind=standard-libary", "standard-library"),
        ("keeping.evaluate_evry=5", "evaluate_every"),
    ],
)
def test_a_misspelt_setting_is_refused_with_a_suggestion(change: str, hint: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_recipe("zero-layer", [change])
    assert f"did you mean {hint}" in str(error.value)


@pytest.mark.parametrize(
    "change", ["training.steps", "=5", "training.=5", ".steps=1", "training.steps.x=5", "training.steps=4\nx=3"]
)
def test_a_change_that_is_not_one_setting_is_refused(change: str) -> None:
    with pytest.raises(InputError, match="--set"):
        read_recipe("zero-layer", [change])


@pytest.mark.parametrize(
    "change",
    [
        "training.steps=0", "training.batch=0", "training.learning_rate=0", "training.warmup=-1", "training.final_rate=2",
        "training.beta_1=1", "training.clip=0", "training.seed=-1", "training.pieces=3", "training.steps=1.5",
        "training.learning_rate=nan", "keeping.log_every=0", "keeping.evaluation_tokens=-5", "text.repeats.share=0", 'text.repeats={share=1, shortest=9, longest=8}',
        "training.compiled=1",
    ],
)  # fmt: skip
def test_numbers_that_make_no_training_are_refused(change: str) -> None:
    with pytest.raises(ConfigError):
        read_recipe("zero-layer", [change])


def test_an_unknown_recipe_is_refused_with_a_suggestion() -> None:
    with pytest.raises(InputError, match="one-layer"):
        read_recipe("one-layre")


@pytest.mark.parametrize("content", [b"name = ", b"\xff\xfe", b"[a" * 10, b"x = " + b"[" * 5000])
def test_a_file_that_is_no_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=r"bad\.toml"):
        read_recipe(tmp_path / "bad.toml")


def test_a_recipe_that_waits_for_a_text_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--text FILE"):
        prepare_corpus(read_recipe("one-layer-pt"), tmp_path / "corpus")


def test_a_text_may_be_given_to_any_recipe(tmp_path: Path) -> None:
    tiny_recipe(tmp_path)
    files = (str(tmp_path / "text.txt"),)
    recipe = read_recipe("one-layer-en", ["text.tokenizer=characters", "model.vocab=60", "text.held_out=0.2"], files=files)
    corpus = prepare_corpus(recipe, tmp_path / "corpus")
    assert corpus.vocab < 60
    assert corpus.manifest.train.bytes + corpus.manifest.held_out.bytes == (tmp_path / "text.txt").stat().st_size


def test_a_vocabulary_too_small_for_its_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.vocab is 200"):
        prepare_corpus(read_recipe(tiny_recipe(tmp_path), ["model.vocab=200"]), tmp_path / "corpus")


@given(st.integers(1, 10_000), st.integers(1, 8))
def test_snapshots_are_evenly_spaced_on_a_logarithmic_scale(steps: int, many: int) -> None:
    marks = Keeping(snapshots_per_doubling=many).snapshots(steps)
    assert marks == sorted(set(marks))
    assert marks[0] == 0
    assert marks[-1] == steps
    assert all(power in marks for power in (2**k for k in range(14)) if power <= steps)
    assert all(later <= earlier * 2 ** (1 / many) + 1 for earlier, later in itertools.pairwise(marks[1:]))
