"""Parts of StableHLO that torch-mlir writes badly, or not at all, put in before and behind its pipeline."""

from __future__ import annotations

import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo

from hnfc.backend.stablehlo_remainders import REMAINDERS, write_remainder
from hnfc.backend.unfolded import unfold
from hnfc.core.regions import operations_within
from hnfc.core.torch_emitter import Emitter
from hnfc.frontend import weights

_CHLO = {
    "torch.aten.lgamma": "chlo.lgamma", "torch.aten.digamma": "chlo.digamma", "torch.aten.special_erfinv": "chlo.erf_inv",
    "torch.aten.special_erfc": "chlo.erfc",
}  # fmt: skip
"""Functions that the torch dialect has no operation of its own for."""
_WITH_BODIES = ("stablehlo.reduce", "stablehlo.sort")
_KEPT = "hnfc.kept"
"""On operations that were StableHLO before: their bodies are the user's."""
_FLOATS = ("f16", "bf16", "f32", "f64")


def prepare(module: ir.Module) -> None:
    """Changes a module in the torch dialect so that torch-mlir lowers it: what it lacks becomes functions of CHLO or others."""
    unfold(module)
    for operation in operations_within(module.operation):
        if operation.name in _WITH_BODIES:
            operation.attributes[_KEPT] = ir.UnitAttr.get(module.context)
    emitter = Emitter(module.context, _unresolved, {})
    for operation in list(operations_within(module.operation)):
        if operation.name == "torch.operator":
            emitter.move(ir.InsertionPoint(operation), operation.location)
            _write_function(emitter, operation)
        elif operation.name in REMAINDERS:
            emitter.move(ir.InsertionPoint(operation), operation.location)
            write_remainder(emitter, operation)


def _write_function(emitter: Emitter, operation: ir.Operation) -> None:
    name = _CHLO.get(ir.StringAttr(operation.attributes["name"]).value)
    if name is None:
        return
    kind = str(operation.results[0].type)
    sizes, _, element = kind.removeprefix("!torch.vtensor<[").removesuffix(">").partition("],")
    if str(operation.operands[0].type) != kind or element not in _FLOATS:
        return
    builtin = f"tensor<{''.join(f'{size}x' for size in sizes.split(',') if size)}{element}>"
    x = emitter.create("torch_c.to_builtin_tensor", [operation.operands[0]], builtin)[0]
    made = emitter.create("torch_c.from_builtin_tensor", emitter.create(name, [x], builtin), kind)
    operation.results[0].replace_all_uses_with(made[0])
    operation.erase()


def keep_bytes(module: ir.Module) -> None:
    """Writes literals of unsigned bytes, which torch-mlir cannot lower, as cast constants; it makes literals of those of their own type."""
    emitter = Emitter(module.context, _unresolved, {})
    for operation in list(operations_within(module.operation)):
        kind = str(operation.results[0].type) if operation.name == "torch.vtensor.literal" else ""
        if kind.endswith("ui8>"):
            emitter.move(ir.InsertionPoint(operation), operation.location)
            array = weights.read(operation.attributes["value"])
            value = ir.DenseElementsAttr.get(np.ascontiguousarray(array.astype(np.int32)).reshape(array.shape), context=module.context)
            wide = emitter.create("stablehlo.constant", [], str(value.type), attributes={"value": value})
            made = emitter.create("stablehlo.convert", wide, str(value.type).replace("i32>", "ui8>"))
            operation.results[0].replace_all_uses_with(emitter.create("torch_c.from_builtin_tensor", made, kind)[0])
            operation.erase()


def _unresolved(value: object) -> ir.Value:
    raise ValueError(f"{value} has no torch value")


def tidy(module: ir.Module) -> None:
    """Puts right what torch-mlir's pipeline made: order and extremes of NaN as torch has them, and a = b for not a ≠ b."""
    for operation in list(operations_within(module.operation)):
        if _KEPT in operation.attributes:
            del operation.attributes[_KEPT]
        elif operation.name == "stablehlo.reduce" and len(operation.operands) == 4:
            _first_nan_wins(operation.regions[0].blocks[0])
        elif operation.name == "stablehlo.sort":
            operation.attributes["is_stable"] = ir.BoolAttr.get(True, module.context)
            _nan_is_greatest(operation.regions[0].blocks[0])
        elif operation.name == "stablehlo.not":
            _equal(operation)


def _first_nan_wins(block: ir.Block) -> None:
    """In a reduction of elements and their indices to the greatest or least."""
    first = next(iter(block.operations)).operation
    x = block.arguments[0]
    if _direction(first) in ("GE", "LE") and list(first.operands) == [x, block.arguments[2]]:
        _unless(first, "or", _compared(first, "NE", x, x))


def _nan_is_greatest(block: ir.Block) -> None:
    """In the comparison of a sort, which is by one operation in what torch-mlir makes."""
    operations = [view.operation for view in block.operations]
    a, b = list(block.arguments)[:2]
    if len(operations) != 2 or list(operations[0].operands) != [a, b] or _direction(operations[0]) not in ("LT", "GT"):
        return
    late, soon = (b, a) if _direction(operations[0]) == "LT" else (a, b)
    only = _joined(operations[0], "and", _compared(operations[0], "NE", late, late), _compared(operations[0], "EQ", soon, soon))
    _unless(operations[0], "or", only)


def _direction(operation: ir.Operation) -> str:
    """Direction of a comparison of floats; empty for other operations."""
    if operation.name != "stablehlo.compare" or not isinstance(ir.ShapedType(operation.operands[0].type).element_type, ir.FloatType):
        return ""
    return str(_stablehlo.ComparisonDirectionAttr(operation.attributes["comparison_direction"]).value)


def _compared(model: ir.Operation, direction: str, a: ir.Value, b: ir.Value) -> ir.Operation:
    """A comparison like another, behind it."""
    attributes = {named: model.attributes[named] for named in model.attributes}
    attributes["comparison_direction"] = _stablehlo.ComparisonDirectionAttr.get(direction, model.context)
    return _behind(model, "stablehlo.compare", [a, b], attributes)


def _joined(model: ir.Operation, name: str, a: ir.Operation, b: ir.Operation) -> ir.Operation:
    return _behind(model, f"stablehlo.{name}", [a.results[0], b.results[0]], {})


def _unless(first: ir.Operation, name: str, other: ir.Operation) -> None:
    """Whatever uses the first result uses it joined with another."""
    users = [(use.owner, use.operand_number) for use in first.results[0].uses]
    joined = _joined(first, name, first, other)
    for user, place in users:
        user.operands[place] = joined.results[0]


def _behind(model: ir.Operation, name: str, operands: list[ir.Value], attributes: dict[str, ir.Attribute]) -> ir.Operation:
    """An operation with the result type of another, in front of the first that used that one."""
    return ir.Operation.create(
        name,
        results=[model.results[0].type],
        operands=operands,
        attributes=attributes,
        loc=model.location,
        ip=ir.InsertionPoint(_user(model)),
    )


def _user(model: ir.Operation) -> ir.Operation:
    users = {use.owner for use in model.results[0].uses}
    return next(view.operation for view in model.block.operations if view.operation in users)


def _equal(negation: ir.Operation) -> None:
    source = getattr(negation.operands[0].owner, "operation", negation.operands[0].owner)
    if not isinstance(source, ir.Operation) or _direction(source) != "NE":
        return
    attributes = {named: source.attributes[named] for named in source.attributes}
    attributes["comparison_direction"] = _stablehlo.ComparisonDirectionAttr.get("EQ", source.context)
    made = ir.Operation.create(
        "stablehlo.compare", results=[negation.results[0].type], operands=list(source.operands), attributes=attributes,
        loc=negation.location, ip=ir.InsertionPoint(negation),
    )  # fmt: skip
    negation.results[0].replace_all_uses_with(made.results[0])
    negation.erase()
    if next(iter(source.results[0].uses), None) is None:
        source.erase()
