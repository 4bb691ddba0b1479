"""A recipe's text, cut into tokens and written down as a corpus."""

from collections.abc import Callable
from pathlib import Path

from headwater.errors import ConfigError
from headwater.text.corpus import Corpus, build_corpus, open_corpus
from headwater.text.sources import Built, Files
from headwater.text.tokenizer import Tokenizer
from headwater.text.training import make_tokenizer
from headwater.train.recipe import Recipe


def prepare_corpus(
    recipe: Recipe, folder: Path, progress: Callable[[int, int | None], None] = lambda done, total: None
) -> Corpus:
    """The recipe's corpus: the one that is there, or a new one in ``folder``."""
    source = recipe.text.source
    if isinstance(source, Files) and not source.paths:
        raise ConfigError(f"the recipe {recipe.name} without a text", "files, folders or globs", "add --text FILE")
    if isinstance(source, Built):
        corpus = open_corpus(Path(source.folder), verify=True)
    elif folder.exists():
        corpus = open_corpus(folder, verify=True)
    else:
        tokenizer = make_tokenizer(source, recipe.text.tokenizer, recipe.model.vocab)
        _check_size(tokenizer, recipe)
        corpus = build_corpus(source, tokenizer, folder, held_out=recipe.text.held_out, progress=progress)
    _check_size(corpus.tokenizer, recipe)
    return corpus


def _check_size(tokenizer: Tokenizer, recipe: Recipe) -> None:
    if tokenizer.size > recipe.model.vocab:
        raise ConfigError(
            f"model.vocab is {recipe.model.vocab:,}", f"the tokenizer's {tokenizer.size:,} or more", "change model.vocab"
        )
