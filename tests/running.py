"""Runs a module of the torch dialect on the CPU.

`run_torch_mlir` uses torch-mlir's own lowering to linalg, LLVM's JIT and the C library's functions, which are within an ulp
(IREE's polynomials lose up to five digits of sin near multiples of π). `run_iree` checks that IREE takes the module too.
"""

from __future__ import annotations

import ctypes
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from iree import compiler, runtime
from torch_mlir import ir
from torch_mlir.execution_engine import ExecutionEngine
from torch_mlir.passmanager import PassManager

from hnfc.backend.torch_mlir import lower_to_linalg
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.frontend.reading import read
from hnfc.frontend.weights import element_type

_PASSES = """builtin.module(
  func.func(linalg-generalize-named-ops),func.func(linalg-fuse-elementwise-ops),convert-shape-to-std,inline,
  func.func(refback-generalize-tensor-pad),func.func(refback-generalize-tensor-concat),func.func(tm-tensor-bufferize),
  one-shot-bufferize{copy-before-write bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map},
  refback-mlprogram-bufferize,func.func(tm-tensor-to-loops),func.func(convert-linalg-to-loops),func.func(lower-affine),
  convert-scf-to-cf,math-expand-ops{ops=rsqrt,fpowi},convert-math-to-libm,func.func(arith-expand{include-bf16=true}),
  func.func(convert-math-to-llvm),expand-strided-metadata,finalize-memref-to-llvm,lower-affine,
  convert-bufferization-to-memref,finalize-memref-to-llvm,func.func(convert-arith-to-llvm),convert-vector-to-llvm,
  convert-func-to-llvm,convert-cf-to-llvm,convert-complex-to-llvm,reconcile-unrealized-casts)"""
_IREE_FLAGS = ["--iree-llvmcpu-target-cpu=generic", "--iree-input-demote-f64-to-f32=false", "--mlir-disable-threading"]


def run_torch_mlir(module: ir.Module | str, inputs: Sequence[Any], function: str = "main") -> list[np.ndarray[Any, Any]]:
    """The results of `function` on NumPy arrays (ml_dtypes for bf16). Raises ModelError where torch-mlir cannot lower it.

    IREE runs what LLVM's JIT has no library function for, and attention, whose mask torch-mlir's loops ignore.
    """
    original = read(module.encode()) if isinstance(module, str) else module
    if "scaled_dot_product_attention" in original.operation.get_asm(large_elements_limit=4):
        return run_iree(original, inputs, function)
    lowered = lower_to_linalg(original)
    try:
        return _run_jit(lowered, inputs, function)
    except (RuntimeError, ir.MLIRError):
        return run_iree(original, inputs, function)


def _run_jit(lowered: ir.Module, inputs: Sequence[Any], function: str) -> list[np.ndarray[Any, Any]]:
    (target,) = [op.operation for op in lowered.body.operations if op.operation.attributes["sym_name"].value == function]
    kinds = [ir.ShapedType(kind) for kind in ir.FunctionType(target.attributes["function_type"].value).results]
    results = [(len(kind.shape), np.dtype(NUMPY_TYPES[element_type(kind)])) for kind in kinds]
    with lowered.context:
        target.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()
        PassManager.parse(_PASSES.replace("\n", "")).run(lowered.operation)
        engine = ExecutionEngine(lowered, opt_level=1)
    engine.raw_register_runtime("memrefCopy", ctypes.cast(_COPY, ctypes.c_void_p))
    returned = (ctypes.c_int64 * max(1, sum(3 + 2 * rank for rank, _ in results)))()
    arrays = [np.ascontiguousarray(array) for array in inputs]
    arguments = [ctypes.pointer(returned), *(ctypes.pointer(_descriptor(array)) for array in arrays)]
    if not results:
        del arguments[0]
    slots = [ctypes.pointer(ctypes.cast(argument, ctypes.c_void_p)) for argument in arguments]
    engine.invoke(function, *slots)
    found, at = [], 0
    for rank, dtype in results:
        found.append(_copied(returned[at : at + 3 + 2 * rank], rank, dtype))
        at += 3 + 2 * rank
    return found


def _descriptor(array: np.ndarray[Any, Any]) -> Any:
    """An MLIR memref: two pointers, an offset, sizes and strides in elements."""
    fields = [array.ctypes.data, array.ctypes.data, 0, *array.shape, *(stride // array.itemsize for stride in array.strides)]
    return (ctypes.c_int64 * len(fields))(*fields)


def _copied(fields: list[int], rank: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    sizes, strides = fields[3 : 3 + rank], fields[3 + rank :]
    span = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    if 0 in sizes:
        return np.zeros(sizes, dtype)
    memory = ctypes.string_at(fields[1] + fields[2] * dtype.itemsize, span * dtype.itemsize)
    flat = np.frombuffer(memory, dtype)
    return np.lib.stride_tricks.as_strided(flat, sizes, [stride * dtype.itemsize for stride in strides]).copy()


def _view(rank: int, descriptor: int, width: int) -> np.ndarray[Any, Any]:
    """The elements that a memref descriptor at an address describes, as bytes."""
    fields = (ctypes.c_int64 * (3 + 2 * rank)).from_address(descriptor)
    sizes, strides = list(fields[3 : 3 + rank]), list(fields[3 + rank :])
    span = 1 + sum(max(size - 1, 0) * stride for size, stride in zip(sizes, strides, strict=True))
    memory = (ctypes.c_uint8 * (span * width)).from_address(fields[1] + fields[2] * width)
    flat = np.frombuffer(memory, np.dtype(f"V{width}"))
    return np.lib.stride_tricks.as_strided(flat, sizes, [stride * width for stride in strides], writeable=True)


class _Unranked(ctypes.Structure):
    _fields_ = (("rank", ctypes.c_int64), ("descriptor", ctypes.c_void_p))


def _copy(width: int, source: Any, target: Any) -> None:
    """MLIR's runtime function `memrefCopy`."""
    origin = _view(source.contents.rank, source.contents.descriptor, width)
    if origin.size:
        _view(target.contents.rank, target.contents.descriptor, width)[...] = origin


_COPY = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.POINTER(_Unranked), ctypes.POINTER(_Unranked))(_copy)

_CONFIGS: list[Any] = []


def compile_iree(module: ir.Module) -> bytes:
    """IREE's compiled form. Raises iree.compiler.CompilerToolError where IREE cannot lower the module."""
    stream = io.BytesIO()
    module.operation.write_bytecode(stream)
    return bytes(compiler.compile_str(stream.getvalue(), input_type="torch", target_backends=["llvm-cpu"], extra_args=_IREE_FLAGS))


def run_iree(module: ir.Module, inputs: Sequence[Any], function: str = "main") -> list[np.ndarray[Any, Any]]:
    """The results of `function` as IREE computes them."""
    if not _CONFIGS:
        _CONFIGS.append(runtime.Config("local-sync"))
    context = runtime.SystemContext(config=_CONFIGS[0])
    compiled = runtime.VmModule.copy_buffer(_CONFIGS[0].vm_instance, compile_iree(module))
    context.add_vm_module(compiled)
    results = context.modules[compiled.name][function](*inputs)
    return [np.asarray(result.to_host()) for result in (results if isinstance(results, list | tuple) else [results])]
