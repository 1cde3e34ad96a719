"""The precision sheaf: assignments of formats to values, what glues, and the reason where nothing does.

Pure mathematics on finite graphs: no module here knows of torch, of the IR, or of what a format is. What links it to models lies in
`hnfc.precision`, and is offered here too, under the names that the literature has for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hnfc.precision.computation import ComputationGraph as ComputationGraph
    from hnfc.precision.optimizer import PrecisionOptimizer as PrecisionOptimizer

_HOMES = {"ComputationGraph": "hnfc.precision.computation", "PrecisionOptimizer": "hnfc.precision.optimizer"}


def __getattr__(name: str) -> Any:
    # neither torch nor the IR is loaded for the mathematics
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'hnfc.sheaf' has no attribute {name!r}")
