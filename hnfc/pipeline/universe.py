"""The `num` dialect, its passes and the torch dialect for `xdsl-opt` and other tools of xDSL, which find them by an entry point."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import Universe
from xdsl.utils.frontend import Frontend
from xdsl.utils.target import Target


def _num() -> Dialect:
    from hnfc.dialects.num import NUM

    return NUM


def load_pass(name: str) -> Callable[[], type[ModulePass]]:
    """Factory of the pass with this name."""

    def load() -> type[ModulePass]:
        from hnfc.pipeline.passes import PASSES

        return PASSES[name]

    return load


def _frontend() -> type[Frontend]:
    from hnfc.pipeline.torch_forms import TorchFrontend

    return TorchFrontend


def _target() -> type[Target]:
    from hnfc.pipeline.torch_forms import TorchTarget

    return TorchTarget


HNFC_UNIVERSE = Universe(
    all_dialects={"num": _num},
    all_passes={name: load_pass(name) for name in ("canonicalize-movement", "rewrite", "saturate", "erase-dead")},
    all_targets={"torch": _target},
    all_frontends={"torch": _frontend},
)
