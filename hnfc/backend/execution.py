"""A model's function, what it takes, and how it is run on arrays: by torch or by IREE."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from torch_mlir import ir

from hnfc.backend.entries import TENSOR, Entry, Input, list_of
from hnfc.backend.iree import compile_iree, run_iree
from hnfc.backend.on_iree import written
from hnfc.backend.stablehlo import kept_operations
from hnfc.core.archives import read_arrays
from hnfc.core.errors import ModelError
from hnfc.dialects.types import DYNAMIC
from hnfc.frontend.weights import dtype_of, is_known

Array: TypeAlias = "np.ndarray[Any, Any]"
Runner: TypeAlias = "Callable[[Sequence[Array]], list[Array]]"
_PLACE = re.compile(r'"([^"]*)":(\d+):(\d+)')


def result_dtypes(module: ir.Module, function: str) -> list[np.dtype[Any] | None]:
    """The types of what a function returns; None for what is no tensor of a type that NumPy has."""
    for view in module.body.operations:
        operation = view.operation
        if operation.name == "func.func" and ir.StringAttr(operation.attributes["sym_name"]).value == function:
            last = list(operation.regions[0].blocks[0].operations)[-1].operation
            found = [TENSOR.fullmatch(str(operand.type)) for operand in last.operands]
            elements = [(match[2] or match[4]) if match is not None else "" for match in found]
            return [dtype_of(element) if is_known(element) else None for element in elements]
    return []


def _as(array: Array, dtype: np.dtype[Any] | None) -> Array:
    """The bytes as what they are: IREE's integers have no sign of their own."""
    return array if dtype is None or array.dtype.itemsize != dtype.itemsize else array.view(dtype)


# arrays


def arrays_for(wanted: Entry, path: str | None) -> list[Array]:
    """The arrays of an `.npz` file in the order and the types of the function's arguments. Raises ModelError."""
    given = read_arrays(path, "inputs") if path is not None else {}
    found, unused = [], set(given)
    names = [one.name for one in wanted.inputs]
    for one in wanted.inputs:
        own = (one.name,) if one.name and names.count(one.name) == 1 else ()
        key = next((name for name in (*own, f"arg{one.index}", f"arr_{one.index}") if name in given), None)
        if key is None:
            takes = "; ".join(map(str, wanted.inputs))
            holds = f"it holds {', '.join(given) or 'nothing'}" if path else "--inputs F.npz gives it"
            raise ModelError(f"there is no array for {one}; {holds}. The model takes {takes}", path)
        unused.discard(key)
        found.append(_fitted(given[key], one, key, path))
    if unused:
        takes = "; ".join(map(str, wanted.inputs)) or "nothing"
        raise ModelError(f"no input is called {', '.join(f'`{name}`' for name in sorted(unused))}. The model takes {takes}", path)
    _check_sizes(wanted, found, path)
    return found


def _fitted(array: Array, wanted: Input, key: str, path: str | None) -> Array:
    """The array in the input's type, if that keeps what it says."""
    if wanted.element is None:
        raise ModelError(f"arrays cannot be given for {wanted}", path)
    dtype = wanted.dtype
    if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize:
        array = array.view(dtype)  # NumPy stores the types of ml_dtypes as raw bytes
    if len(array.shape) != len(wanted.shape) or any(b not in (DYNAMIC, a) for a, b in zip(array.shape, wanted.shape, strict=True)):
        raise ModelError(f"`{key}` has shape {list_of(array.shape)}, but the model takes {list_of(wanted.shape)} for {wanted}", path)
    if array.dtype == dtype:
        return array
    source, target = _kind(array.dtype), _kind(dtype)
    allowed = source == target or (source, target) in (("int", "float"), ("float", "complex"), ("int", "complex"), ("bool", "int"))
    if not allowed or source == "other":
        raise ModelError(f"`{key}` is {array.dtype.name}, but the model takes {dtype.name} for {wanted}", path)
    with np.errstate(all="ignore"):
        cast = array.astype(dtype)
        lost = np.isfinite(array.astype(np.float64)) & ~np.isfinite(cast.astype(np.float64)) if target == "float" else False
        lost = lost | (cast != array) if target == "int" else lost
    if np.any(lost):
        raise ModelError(f"`{key}` holds numbers that {dtype.name} cannot: the model takes {wanted}", path)
    return np.asarray(cast)


def _kind(dtype: np.dtype[Any]) -> str:
    if dtype.name.startswith(("bfloat", "float")):
        return "float"
    return {"i": "int", "u": "int", "b": "bool", "c": "complex"}.get(dtype.kind, "other")


def _check_sizes(wanted: Entry, found: list[Array], path: str | None) -> None:
    if any(0 in array.shape and 0 not in one.shape for one, array in zip(wanted.inputs, found, strict=True)):
        raise ModelError("an array is empty", path)


# running


class IreeRunner:
    """IREE, for models that are compared before and after a rewrite. Rewritten ones get its forms of what it computes badly."""

    name = "IREE"
    adapts = True

    def rewritten(self, compiled: Any, native: bool) -> Callable[[str], Runner]:
        """Loader of the functions of a rewritten module, with IREE's forms."""
        return partial(self.load, written(compiled.export(native))[0])

    def load(self, module: ir.Module, function: str) -> Runner:
        """The function as one of arrays. Raises ModelError where IREE cannot compile it."""
        return runner(module, function, "iree")

    def wide(self, module: ir.Module, function: str) -> Runner | None:
        """None: torch-dialect modules are of one precision."""
        return None


def comparing(module: ir.Module, backend: str) -> Any:
    """Runner that measures errors for this backend; None if it is not installed, or torch lacks an operation of the module."""
    if backend == "iree":
        return IreeRunner()
    if next(kept_operations(module), None) is not None:
        return None
    try:
        import hnfc.backend.opaque_on_torch  # noqa: F401
        from hnfc.backend.on_torch import TorchRunner
    except ImportError:
        return None
    return TorchRunner()


def runner(module: ir.Module, function: str, backend: str) -> Runner:
    """The function as one of arrays: what it computes stays, whatever becomes of the module. Raises ModelError."""
    if backend == "iree":
        compiled, dtypes = compile_iree(module), result_dtypes(module, function)
        return lambda inputs: [_as(array, dtype) for array, dtype in zip(run_iree(compiled, function, inputs), dtypes, strict=True)]
    if backend == "onnx":
        try:
            from hnfc.backend.onnx import on_onnxruntime
        except ImportError as error:
            raise ModelError(f"--on onnx takes torch, which is not here ({error.name}): `pip install torch`") from None
        return on_onnxruntime(module, function)
    strange = next(kept_operations(module), None)
    if strange is not None:
        found = _PLACE.search(str(strange.location))
        place = (found[1], int(found[2]), int(found[3])) if found else ()
        raise ModelError(f"torch has no operation like `{strange.name}`, which the model uses here; --on iree runs it", *place)
    try:
        from hnfc.backend.on_torch import on_torch
    except ImportError as error:
        raise ModelError(f"this takes torch, which is not here ({error.name}): `pip install torch`, or use --on iree") from None
    return on_torch(module, function)
