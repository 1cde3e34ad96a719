"""The torch dialect → StableHLO, which JAX, XLA and IREE run; operations that came from StableHLO and stayed go back as they were."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo
from torch_mlir.passmanager import PassManager

from hnfc.backend.stablehlo_forms import keep_bytes, prepare, tidy
from hnfc.backend.stablehlo_sizes import pair_broadcasts, write_shapes
from hnfc.backend.torch_mlir import lower_to_torch_backend
from hnfc.core.errors import ModelError
from hnfc.core.regions import operations_within
from hnfc.frontend import weights
from hnfc.frontend.stablehlo import register

_TO_STABLEHLO = "builtin.module(torch-backend-to-stablehlo-backend-pipeline)"
_OF_QUANTISED = """builtin.module(
  func.func(convert-torch-to-stablehlo,chlo-legalize-to-stablehlo,convert-torch-to-arith,canonicalize,cse),
  torch-func-backend-type-conversion-for-stablehlo,func.func(canonicalize,torch-finalizing-backend-type-conversion-for-stablehlo),
  torch-verify-stablehlo-backend-contract,func.func(stablehlo-canonicalize-dynamism,canonicalize,stablehlo-legalize-deprecated-ops))"""
"""The same without the refinement of shapes, which ends the process at some operations on quantised types."""
_TIDY = """builtin.module(func.func(remove-shape-constraints,canonicalize,cse,shape-legalize-to-stablehlo,canonicalize,cse),
  inline,symbol-dce,func.func(chlo-legalize-to-stablehlo))"""
"""Sizes known at run time become arithmetic of StableHLO; torch-mlir leaves them to MLIR's shape dialect, which nobody runs."""


_HINTS = ("sdy.",)
"""Sharding attributes, in a dialect that a portable artifact cannot hold."""


def lower_to_stablehlo(module: ir.Module) -> ir.Module:
    """A copy of the module in StableHLO by torch-mlir's own pipeline. Raises ModelError where that fails."""
    register(module.context)
    copy = lower_to_torch_backend(module, prepare)
    keep_bytes(copy)
    try:
        PassManager.parse((_OF_QUANTISED if _is_quantised(copy) else _TO_STABLEHLO).replace("\n", ""), module.context).run(copy.operation)
        pair_broadcasts(copy)
        write_shapes(copy)
        PassManager.parse(_TIDY.replace("\n", ""), module.context).run(copy.operation)
    except ir.MLIRError as error:
        message = "; ".join(diagnostic.message for diagnostic in error.error_diagnostics) or str(error.message)
        raise ModelError(f"torch-mlir cannot lower the module to StableHLO: {message}") from None
    _replace_constants(copy)
    tidy(copy)
    return copy


def _is_quantised(module: ir.Module) -> bool:
    return any("!quant." in str(result.type) for operation in operations_within(module.operation) for result in operation.results)


def _replace_constants(module: ir.Module) -> None:
    """torch-mlir makes some of MLIR's own constants, which a portable artifact cannot hold."""
    for operation in list(operations_within(module.operation)):
        if operation.name == "arith.constant" and isinstance(operation.results[0].type, ir.RankedTensorType):
            made = ir.Operation.create(
                "stablehlo.constant", results=[operation.results[0].type], attributes={"value": operation.attributes["value"]},
                loc=operation.location, ip=ir.InsertionPoint(operation),
            )  # fmt: skip
            operation.results[0].replace_all_uses_with(made.results[0])
            operation.erase()


def _take_in_weights(module: ir.Module) -> None:
    """Resources become literals: a portable artifact holds no references."""
    for operation in operations_within(module.operation):
        value = _value_of(operation) if operation.name == "stablehlo.constant" else None
        if value is None or not str(value).startswith("dense_resource<"):
            continue
        array = np.ascontiguousarray(weights.read(value))
        plain = array if array.dtype.isbuiltin == 1 else array.view(f"i{array.dtype.itemsize}")
        kind = ir.ShapedType(value.type)
        operation.attributes["value"] = ir.DenseElementsAttr.get(plain, type=kind.element_type, shape=kind.shape, context=module.context)


def _value_of(constant: ir.Operation) -> ir.Attribute | None:
    """The elements of a constant; None for a literal of complex numbers, which MLIR's bindings have no class for."""
    try:
        return constant.attributes["value"]
    except TypeError:
        return None


def _operations(module: ir.Module) -> Iterator[ir.Operation]:
    for function in module.body.operations:
        for region in function.operation.regions:
            for block in region.blocks:
                yield from (view.operation for view in block.operations)


def emit_stablehlo(module: ir.Module, located: bool = False) -> str:
    """The module as text of StableHLO."""
    return str(lower_to_stablehlo(module).operation.get_asm(enable_debug_info=located, assume_verified=True)).rstrip("\n") + "\n"


def emit_portable(module: ir.Module) -> bytes:
    """The module as a portable artifact of StableHLO: bytecode that later versions read too. Raises ModelError."""
    lowered = lower_to_stablehlo(module)
    _take_in_weights(lowered)
    for operation in kept_operations(lowered):
        for named in [named for named in operation.attributes if named.startswith(_HINTS)]:
            del operation.attributes[named]
    requirement = _stablehlo.StablehloCompatibilityRequirement
    for compatible in (requirement.WEEK_12, requirement.NONE):
        version = _stablehlo.get_version_from_compatibility_requirement(compatible)
        try:
            return bytes(_stablehlo.serialize_portable_artifact(lowered, version))
        except (ValueError, RuntimeError, ir.MLIRError) as error:
            reason = str(error).splitlines()[0]
    raise ModelError(f"the module has no portable form: {reason}")


def kept_operations(module: ir.Module) -> Iterator[ir.Operation]:
    """The operations of StableHLO that stand in a function of the torch dialect."""
    return (operation for operation in _operations(module) if operation.name.startswith(("stablehlo.", "chlo.")))
