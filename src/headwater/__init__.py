"""Headwater turns a transformer into an exact sum.

>>> import headwater as hw
>>> model = hw.Model(hw.Weights.draw(hw.named("one-layer"), seed=0))
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
    from headwater.model.config import ModelConfig
    from headwater.model.forward import forward
    from headwater.model.generate import Sampling
    from headwater.model.presets import named
    from headwater.model.record import Record, record
    from headwater.model.weights import Weights

_HOMES = {
    "Model": "headwater.api",
    "ModelConfig": "headwater.model.config",
    "Record": "headwater.model.record",
    "Sampling": "headwater.model.generate",
    "Weights": "headwater.model.weights",
    "forward": "headwater.model.forward",
    "load": "headwater.api",
    "named": "headwater.model.presets",
    "record": "headwater.model.record",
}

__all__ = [
    "ConfigError",
    "HeadwaterError",
    "InputError",
    "Model",
    "ModelConfig",
    "ModelFileError",
    "Record",
    "Sampling",
    "Weights",
    "__version__",
    "forward",
    "load",
    "named",
    "record",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'headwater' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
