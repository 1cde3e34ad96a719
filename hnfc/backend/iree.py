"""IREE: a module compiled for the processor of this machine, and its functions run on arrays."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from torch_mlir import ir

from hnfc.backend.stablehlo import emit_stablehlo, kept_operations
from hnfc.backend.torch_mlir import emit_bytecode
from hnfc.backend.unfolded import unfold
from hnfc.core.errors import ModelError, first_line

Array: TypeAlias = "np.ndarray[Any, Any]"
_FLAGS = ["--iree-llvmcpu-target-cpu=host", "--iree-input-demote-f64-to-f32=false"]
_ERROR = re.compile(r"error: (.*)")
_CONFIGS: list[Any] = []
"""IREE's devices: one for all runs of a process."""


def compile_iree(module: ir.Module) -> bytes:
    """IREE's compiled form (`.vmfb`) of a torch-dialect module. Raises ModelError where IREE is missing or cannot compile it."""
    try:
        from iree import compiler
    except ImportError:
        raise ModelError("this takes IREE's compiler, which is not here: `pip install iree-base-compiler`") from None
    # operations of StableHLO that torch lacks are compiled by IREE's own front end for them
    stays = next(kept_operations(module), None) is not None
    source = emit_stablehlo(module).encode() if stays else emit_bytecode(_unfolded(module))
    try:
        return bytes(
            compiler.compile_str(source, input_type="stablehlo" if stays else "torch", target_backends=["llvm-cpu"], extra_args=_FLAGS)
        )
    except compiler.CompilerToolError as error:
        found = _ERROR.search(str(error))
        raise ModelError(f"IREE cannot compile the model: {found[1] if found else first_line(error)}") from None


def _unfolded(module: ir.Module) -> ir.Module:
    copy = ir.Module.parse(emit_bytecode(module), module.context)
    unfold(copy)
    return copy


def run_iree(compiled: bytes, function: str, inputs: Sequence[Array]) -> list[Array]:
    """The results of a function of compiled code. Raises ModelError where IREE's runtime is missing or refuses them."""
    try:
        from iree import runtime
    except ImportError:
        raise ModelError("this takes IREE's runtime, which is not here: `pip install iree-base-runtime`") from None
    if not _CONFIGS:
        _CONFIGS.append(runtime.Config("local-task"))
    context = runtime.SystemContext(config=_CONFIGS[0])
    loaded = runtime.VmModule.copy_buffer(_CONFIGS[0].vm_instance, compiled)
    context.add_vm_module(loaded)
    try:
        results = context.modules[loaded.name][function](*(np.ascontiguousarray(array).reshape(array.shape) for array in inputs))
    except (RuntimeError, ValueError, TypeError, KeyError) as error:
        raise ModelError(f"IREE cannot run `{function}`: {first_line(error)}") from None
    returned = results if isinstance(results, list | tuple) else [results]
    # what IREE hands out lies in memory that its next run may use
    return [np.array(result.to_host()) for result in returned if result is not None]
