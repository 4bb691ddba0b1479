"""Headwater turns a transformer into an exact sum.

>>> import headwater as hw
>>> model = hw.load("one-layer")
>>> model.record([1, 2, 3])["L0.pattern"].shape
torch.Size([1, 8, 3, 3])

Names are imported when they are first used, so that ``import headwater`` costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

from headwater.errors import ConfigError, HeadwaterError, InputError, ModelFileError
from headwater.version import __version__

if TYPE_CHECKING:
    from headwater.api import Model, load
    from headwater.atlas.atlas import Atlas, open_atlas
    from headwater.atlas.build import AtlasChoices, build_atlas
    from headwater.atlas.patterns import Contains, Matches, Prefix
    from headwater.circuits.factored import Factored
    from headwater.circuits.head import Head
    from headwater.circuits.tables import Circuit
    from headwater.claims.verdicts import Answer, measure
    from headwater.model.config import (
        Attention,
        FeedForward,
        GatedFeedForward,
        LayerNorm,
        LearnedPositions,
        ModelConfig,
        NoNorm,
        NoPositions,
        PostNorm,
        PreNorm,
        RMSNorm,
        RotaryPositions,
        SinusoidalPositions,
        Unembedding,
    )
    from headwater.model.forward import forward
    from headwater.model.generate import Sampling
    from headwater.model.presets import named
    from headwater.model.record import Record, record
    from headwater.model.taps import Chain, Recorder, Tap
    from headwater.model.weights import Weights
    from headwater.text.corpus import Corpus, build_corpus, open_corpus
    from headwater.text.planted import PlantedLanguage
    from headwater.text.tokenizer import Tokenizer
    from headwater.trace.check import check
    from headwater.trace.edits import Freeze, Mean, Patch, Remove, Scale, Steer, Zero, ablate, resample
    from headwater.trace.effects import effect, effects
    from headwater.trace.parts import Part, Split
    from headwater.trace.places import Place, find_place
    from headwater.trace.run import Run, load_run
    from headwater.train.recipe import Recipe, read_recipe
    from headwater.train.run import Ways, run_recipe

_HOMES = {
    "headwater.api": ["Model", "load"],
    "headwater.atlas.atlas": ["Atlas", "open_atlas"],
    "headwater.atlas.build": ["AtlasChoices", "build_atlas"],
    "headwater.atlas.patterns": ["Contains", "Matches", "Prefix"],
    "headwater.circuits.factored": ["Factored"],
    "headwater.circuits.head": ["Head"],
    "headwater.circuits.tables": ["Circuit"],
    "headwater.claims.verdicts": ["Answer", "measure"],
    "headwater.model.config": [
        "Attention",
        "FeedForward",
        "GatedFeedForward",
        "LayerNorm",
        "LearnedPositions",
        "ModelConfig",
        "NoNorm",
        "NoPositions",
        "PostNorm",
        "PreNorm",
        "RMSNorm",
        "RotaryPositions",
        "SinusoidalPositions",
        "Unembedding",
    ],
    "headwater.model.forward": ["forward"],
    "headwater.model.generate": ["Sampling"],
    "headwater.model.presets": ["named"],
    "headwater.model.record": ["Record", "record"],
    "headwater.model.taps": ["Chain", "Recorder", "Tap"],
    "headwater.model.weights": ["Weights"],
    "headwater.text.corpus": ["Corpus", "build_corpus", "open_corpus"],
    "headwater.text.planted": ["PlantedLanguage"],
    "headwater.text.tokenizer": ["Tokenizer"],
    "headwater.trace.check": ["check"],
    "headwater.trace.edits": ["Freeze", "Mean", "Patch", "Remove", "Scale", "Steer", "Zero", "ablate", "resample"],
    "headwater.trace.effects": ["effect", "effects"],
    "headwater.trace.parts": ["Part", "Split"],
    "headwater.trace.places": ["Place", "find_place"],
    "headwater.trace.run": ["Run", "load_run"],
    "headwater.train.recipe": ["Recipe", "read_recipe"],
    "headwater.train.run": ["Ways", "run_recipe"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Answer",
    "Atlas",
    "AtlasChoices",
    "Attention",
    "Chain",
    "Circuit",
    "ConfigError",
    "Contains",
    "Corpus",
    "Factored",
    "FeedForward",
    "Freeze",
    "GatedFeedForward",
    "Head",
    "HeadwaterError",
    "InputError",
    "LayerNorm",
    "LearnedPositions",
    "Matches",
    "Mean",
    "Model",
    "ModelConfig",
    "ModelFileError",
    "NoNorm",
    "NoPositions",
    "Part",
    "Patch",
    "Place",
    "PlantedLanguage",
    "PostNorm",
    "PreNorm",
    "Prefix",
    "RMSNorm",
    "Recipe",
    "Record",
    "Recorder",
    "Remove",
    "RotaryPositions",
    "Run",
    "Sampling",
    "Scale",
    "SinusoidalPositions",
    "Split",
    "Steer",
    "Tap",
    "Tokenizer",
    "Unembedding",
    "Ways",
    "Weights",
    "Zero",
    "__version__",
    "ablate",
    "build_atlas",
    "build_corpus",
    "check",
    "effect",
    "effects",
    "find_place",
    "forward",
    "load",
    "load_run",
    "measure",
    "named",
    "open_atlas",
    "open_corpus",
    "read_recipe",
    "record",
    "resample",
    "run_recipe",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'headwater' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
