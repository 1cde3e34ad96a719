"""Models larger than memory: their tensors stay in files, and one layer after another is mapped, measured, rewritten and written."""

from hnfc.sharded.analyzing import LayerErrors, ShardedErrors, analyze
from hnfc.sharded.checkpoint import Checkpoint
from hnfc.sharded.model import ShardedModel, open_folder
from hnfc.sharded.rewriting import RewrittenModel, optimize
from hnfc.sharded.solving import LayerFormats, ShardedPrecision, precision

__all__ = [
    "Checkpoint",
    "LayerErrors",
    "LayerFormats",
    "RewrittenModel",
    "ShardedErrors",
    "ShardedModel",
    "ShardedPrecision",
    "analyze",
    "open_folder",
    "optimize",
    "precision",
]
