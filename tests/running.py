"""Runs a module of the torch dialect on the CPU, by IREE."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from iree import compiler, runtime
from torch_mlir import ir

_FLAGS = ["--iree-llvmcpu-target-cpu=generic", "--iree-opt-const-eval=false", "--mlir-disable-threading"]


def compile_torch_mlir(module: ir.Module | str) -> bytes:
    """IREE's compiled form of a module. Raises iree.compiler.CompilerToolError where IREE cannot lower it."""
    if isinstance(module, str):
        source: bytes = module.encode()
    else:
        stream = io.BytesIO()
        module.operation.write_bytecode(stream)
        source = stream.getvalue()
    return bytes(compiler.compile_str(source, input_type="torch", target_backends=["llvm-cpu"], extra_args=_FLAGS))


_INSTANCES: dict[str, Any] = {}


def run_torch_mlir(module: ir.Module | str, inputs: Sequence[Any], function: str = "main") -> list[np.ndarray[Any, Any]]:
    """The results of `function` on NumPy arrays (ml_dtypes for bf16)."""
    return run_compiled(compile_torch_mlir(module), inputs, function)


def run_compiled(binary: bytes, inputs: Sequence[Any], function: str = "main") -> list[np.ndarray[Any, Any]]:
    if not _INSTANCES:
        _INSTANCES["config"] = runtime.Config("local-sync")
    config = _INSTANCES["config"]
    context = runtime.SystemContext(config=config)
    vm_module = runtime.VmModule.copy_buffer(config.vm_instance, binary)
    context.add_vm_module(vm_module)
    results = context.modules[vm_module.name][function](*[_in(array) for array in inputs])
    found = results if isinstance(results, list | tuple) else [results]
    return [np.asarray(result.to_host() if hasattr(result, "to_host") else result) for result in found]


def _in(array: Any) -> Any:
    return array if isinstance(array, np.ndarray) else np.asarray(array)


