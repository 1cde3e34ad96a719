"""A `.mlir` or `.mlirbc` file of the torch dialect → a module of the `num` dialect beside it.

torch-mlir's bindings do the parsing; the module they give stays, and `Imported` relates its values to those of `num`.
Weights never leave the MLIR context. Nothing here needs torch.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from torch_mlir import ir
from xdsl.dialects.builtin import ComplexType, FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from hnfc.core.notebook import cell_of
from hnfc.core.regions import REGION_ENDS, body_end, taken_in, used_within
from hnfc.dialects.num.constant import ConstantOp, WeightOp
from hnfc.dialects.torch import TorchType
from hnfc.dialects.types import ELEMENT_TYPES, TypeMismatch
from hnfc.frontend import weights
from hnfc.frontend.builder import ImportBuilder
from hnfc.frontend.conversions import CONVERSIONS
from hnfc.frontend.convert_elementwise import cast
from hnfc.frontend.stablehlo_translation import element_of, shape_of

_PLACE = re.compile(r'"([^"]*)":(\d+):(\d+)')
_MODULE = re.compile(r'^loc\("([^"]+)"\(')
_NAME = re.compile(r'^loc\("([^"]+)"(?:\("[^"]*"\))?\)$')
"""A name alone, or that of a node of ONNX with its operator behind it."""
GRADIENT = "gradient: "
"""Before the path of a module where an operation is of the backward pass."""


@dataclass
class Recorded:
    """An operation of the original module and what its operands were in `num` (constants as Python values)."""

    operation: ir.Operation
    operands: list[Any]
    anchor: ir.Operation
    """The operation itself, or the one of the function's body that it lies in."""


@dataclass
class Imported:
    """A `num` module and the torch module that it was made from.

    values: the torch value of every num value that has one. origin: the torch operation that a num value was imported for.
    inner: for the result of an operation that became several, the num values between its operands and it.
    operands: what each num operation's operands were at import. recorded: the torch operations, in order.
    """

    torch: ir.Module
    module: ModuleOp = field(default_factory=lambda: ModuleOp([]))
    values: dict[SSAValue, ir.Value] = field(default_factory=dict)
    origin: dict[SSAValue, ir.Operation] = field(default_factory=dict)
    inner: dict[SSAValue, tuple[SSAValue, ...]] = field(default_factory=dict)
    operands: dict[Operation, tuple[SSAValue, ...]] = field(default_factory=dict)
    recorded: list[Recorded] = field(default_factory=list)
    weight_attributes: dict[str, ir.Attribute] = field(default_factory=dict)
    bodies: dict[FuncOp, str] = field(default_factory=dict)
    """Functions of the num module that are regions of operations: bodies of branches and loops, each with its title."""
    rebased: set[SSAValue] = field(default_factory=set)
    """Values that `rebase` gave the torch value of another: it holds as long as nothing that they are computed from changes."""

    @cached_property
    def located(self) -> bool:
        """Return whether the module came with locations of its own; MLIR's parser gives every operation the place in the file it read."""
        if "unknown" not in str(self.torch.operation.location):
            return False
        functions = [f for f in self.torch.body.operations if f.operation.name == "func.func"]
        first = [op for f in functions[:1] for region in f.regions for block in region.blocks for op in list(block.operations)[:20]]
        return any("unknown" not in str(op.location) for op in first)

    def rebase(self, renamed: Mapping[SSAValue, SSAValue], made: Mapping[Operation, Operation]) -> None:
        """Takes bit-exact changes of the module as if it had been imported so.

        renamed: what stands for each value that is gone. made: each new operation, and the one in whose place it stands.
        """
        for operation, old in made.items():
            for result in operation.results:
                self.rebased.add(result)
                if old.results and old.results[0] in self.origin:
                    self.origin[result] = self.origin[old.results[0]]
        for old_value, new_value in renamed.items():
            if old_value in self.values:
                self.values.setdefault(new_value, self.values[old_value])
        for record in self.recorded:
            record.operands = [_renamed(entry, renamed) for entry in record.operands]
        self.operands = {op: tuple(op.operands) for function in self.module.ops for region in function.regions
                         for block in region.blocks for op in block.ops}  # fmt: skip

    def location(self, operation: Operation) -> str:
        """Source location of `operation`: `file:line` if MLIR knows it, after the path of the module that it is in, else its name in
        the model, else the torch operation and its results' names."""
        for result in operation.results:
            original = self.origin.get(result)
            if original is not None:
                text = str(original.location)
                found, module = _PLACE.search(text), _MODULE.match(text)
                if found is not None and found[1] != "-":
                    place = f"{shortened(found[1])}:{found[2]}"
                    return f"{module[1]} ({place})" if module else place
                named = _NAME.match(text)
                if named is not None:  # a node of ONNX has a name and no place
                    return named[1]
                names = ", ".join(result.get_name(self._names) for result in original.results)
                return f"{original.name.removeprefix('torch.')} {names}"
        return operation.name

    @cached_property
    def _names(self) -> ir.AsmState:
        """The names of all values: numbering a function anew for each of them takes quadratic time."""
        return ir.AsmState(self.torch.operation)

    def weight(self, name: str) -> np.ndarray[Any, Any]:
        """The elements of `num.weight @name`."""
        return weights.read(self.weight_attributes[name])


def shortened(path: str) -> str:
    """A path as a reader looks for it: within its package, from the working directory, or a cell of a notebook."""
    if cell := cell_of(path):
        return cell
    if "/site-packages/" in path:
        return path.rpartition("/site-packages/")[2]
    here = f"{os.getcwd()}{os.sep}"
    return path.removeprefix(here)


def _renamed(entry: Any, renamed: Mapping[SSAValue, SSAValue]) -> Any:
    if isinstance(entry, list):
        return [_renamed(part, renamed) for part in entry]
    while isinstance(entry, SSAValue) and entry in renamed:
        entry = renamed[entry]
    return entry


def import_module(module: ir.Module, bodies: bool = False) -> Imported:
    """Every function of `module` in the `num` dialect; what the dialect lacks becomes `num.opaque`.

    bodies: regions of branches and loops become functions too, behind the others; arguments stand for what one uses of the values
    around it.
    """
    imported = Imported(module)
    body = imported.module.body.block
    for operation in module.body.operations:
        if operation.operation.name == "func.func" and len(operation.regions[0].blocks) == 1:
            body.add_op(_import_function(imported, operation.operation, bodies))
    for made in imported.bodies:
        body.add_op(made)
    return imported


def _import_function(imported: Imported, function: ir.Operation, bodies: bool) -> FuncOp:
    source = function.regions[0].blocks[0]
    builder = ImportBuilder(imported.weight_attributes)
    name = ir.StringAttr(function.attributes["sym_name"]).value
    arguments = list(source.arguments)
    block = Block(arg_types=[builder.type_of(argument) for argument in arguments])
    for argument, value in zip(arguments, block.args, strict=True):
        builder.entries[argument] = value
        imported.values[value] = argument
    for view in source.operations:
        operation = view.operation
        if operation.name == "func.return":
            returned = [builder.tensor_or_opaque(operand) for operand in operation.operands]
            imported.recorded.append(Recorded(operation, returned, operation))
            builder.append(ReturnOp(*returned))
        else:
            _import_operation(imported, builder, operation)
            if bodies and len(operation.regions):
                _import_regions(imported, builder, operation, name)
    return _finished(imported, builder, block, name)


def _finished(imported: Imported, builder: ImportBuilder, block: Block, name: str) -> FuncOp:
    block.add_ops(builder.operations)
    for made in builder.operations:
        imported.operands[made] = tuple(made.operands)
    for constant, (torch_value, defining) in builder.opaque_origins.items():
        imported.values.setdefault(constant, torch_value)
        imported.origin.setdefault(constant, defining)
    returns = [value.type for value in builder.operations[-1].operands] if builder.operations else []
    return FuncOp(name, FunctionType.from_lists([a.type for a in block.args], returns), Region(block))


def _import_regions(imported: Imported, outer: ImportBuilder, operation: ir.Operation, function: str) -> None:
    """Each region of an operation as a function; one that ends otherwise than by handing on values stays a wall."""
    for region in operation.regions:
        if body_end(operation, region) is not None:
            _import_region(imported, outer, operation, region, f"{function}.{len(imported.bodies)}")


def _import_region(imported: Imported, outer: ImportBuilder, operation: ir.Operation, region: ir.Region, name: str) -> None:
    source, end = region.blocks[0], body_end(operation, region)
    builder = ImportBuilder(imported.weight_attributes)
    cast = taken_in(source)
    arguments = [cast.get(argument, argument) for argument in source.arguments]
    block = Block(arg_types=[_type_in_body(builder, argument) for argument in arguments])
    for own, argument, value in zip(source.arguments, arguments, block.args, strict=True):
        builder.entries[own] = builder.entries[argument] = value
        imported.values[value] = argument
    for value in used_within(region):
        _take_in(imported, outer, builder, block, value)
    for view in source.operations:
        inner = view.operation
        if inner == end:
            entries = [builder.entries[operand] for operand in inner.operands]
            if inner.name in REGION_ENDS:
                imported.recorded.append(Recorded(inner, entries, inner))
            builder.append(ReturnOp(*(entry for entry in entries if isinstance(entry, SSAValue))))
        elif inner.name == "torch_c.to_builtin_tensor" and all(use.owner == end for use in inner.results[0].uses):
            # what a body of StableHLO hands on is what is cast for it
            builder.entries[inner.results[0]] = entry = builder.entries[inner.operands[0]]
            imported.recorded.append(Recorded(inner, [entry], inner))
        elif not (len(inner.results) and inner.results[0] in builder.entries):
            _import_operation(imported, builder, inner)
            if len(inner.regions):
                _import_regions(imported, builder, inner, name)
    made = _finished(imported, builder, block, name)
    imported.bodies[made] = operation_name(operation).rpartition(".")[2]


def _type_in_body(builder: ImportBuilder, argument: ir.Value) -> Attribute:
    """The type of an argument; that of a builtin tensor, which a body of StableHLO only hands on, as torch would have it."""
    element = element_of(argument.type)
    return builder.type_of(argument) if element is None else builder.tensor(ELEMENT_TYPES[element], shape_of(argument.type))


def _take_in(imported: Imported, outer: ImportBuilder, builder: ImportBuilder, block: Block, value: ir.Value) -> None:
    """Makes a value from around a region known inside: numbers and constants as they are, lists by their parts, others as arguments."""
    if value in builder.entries:
        return
    definition = outer.definitions.get(value)
    if definition is not None and not isinstance(outer.entries[value], SSAValue):
        builder.definitions[value] = definition
        for operand in definition.operands:
            _take_in(imported, outer, builder, block, operand)
    entry = outer.entries[value]
    if isinstance(entry, list) and definition is not None:
        builder.entries[value] = [builder.entries[operand] for operand in definition.operands]
    elif not isinstance(entry, SSAValue):
        builder.entries[value] = entry
    elif isinstance(entry.owner, ConstantOp | WeightOp):
        copy = entry.owner.clone()
        builder.append(copy)
        builder.entries[value] = copy.results[0]
        imported.values[copy.results[0]] = value
    else:
        builder.entries[value] = made = block.insert_arg(entry.type, len(block.args))
        imported.values[made] = value


def _import_operation(imported: Imported, builder: ImportBuilder, operation: ir.Operation) -> None:
    name = operation.name
    if builder.take_constant(name, operation):
        return
    operands = list(operation.operands)
    entries = [builder.entries[operand] for operand in operands]
    if name == "torch.prim.ListConstruct":
        imported.recorded.append(Recorded(operation, entries, operation))
        builder.entries[operation.results[0]] = entries
        builder.definitions[operation.results[0]] = operation
        return
    if name == "torch.operator":
        name = operation_name(operation)
    results = list(operation.results)
    before = len(builder.operations)
    types = [builder.type_of(result) for result in results]
    handler = CONVERSIONS.get(name)
    made = _converted(handler, builder, entries, types) if handler is not None else None
    if made is None or (type(made) is tuple and _lacks_used(made, results)):
        builder.rollback(before)
        made = builder.opaque(operation, operands, types)
    imported.recorded.append(Recorded(operation, entries, operation))
    if len(operation.regions):
        _record_nested(imported, builder, operation)
    new = builder.operations[before:]
    outputs = made if isinstance(made, tuple) else (made,)
    for result, value in zip(results, outputs, strict=True):
        if value is None:
            continue
        builder.entries[result] = value
        builder.definitions[result] = operation
        if isinstance(value, SSAValue):
            imported.values.setdefault(value, result)
    if len(new) == 1:
        for value in new[0].results:
            imported.origin[value] = operation
        return
    inner = tuple(value for op in new for value in op.results)
    for value in inner:
        imported.origin[value] = operation
        if value in outputs:
            imported.inner[value] = inner


def _converted(handler: Any, builder: ImportBuilder, entries: list[Any], types: list[Any]) -> Any:
    """Result of the handler, or None where an operand or result is no tensor of known rank, or not as torch's schema has it."""
    if not all(isinstance(kind, TensorType) or kind.text.data.startswith("!torch.list") for kind in types):
        return None
    if any(isinstance(entry, SSAValue) and isinstance(entry.type, TorchType) and "tensor" in entry.type.text.data for entry in entries):
        return None
    if handler is not cast and any(map(_is_complex, entries)) and not any(_is_complex(kind) for kind in types):
        return None  # as |z|, which is no function of the real part
    try:
        return handler(builder, entries, *types)
    except (TypeMismatch, ValueError, TypeError, AttributeError, IndexError):  # a schema of another version of torch
        return None


def _is_complex(entry: Any) -> bool:
    kind = entry.type if isinstance(entry, SSAValue) else entry
    return isinstance(kind, TensorType) and isinstance(kind.element_type, ComplexType)


def _lacks_used(made: tuple[SSAValue | None, ...], results: list[ir.Value]) -> bool:
    """Return whether a result that somebody uses is None: one that `num` has no operation for."""
    return any(value is None and next(iter(result.uses), None) is not None for value, result in zip(made, results, strict=True))


def operation_name(operation: ir.Operation) -> str:
    """The name of the torch operation, of one too that the dialect lacks and carries as `torch.operator`."""
    if operation.name != "torch.operator":
        return str(operation.name)
    return "torch." + str(ir.StringAttr(operation.attributes["name"]).value).removeprefix("torch.")


def _record_nested(imported: Imported, builder: ImportBuilder, anchor: ir.Operation) -> None:
    """Values of the function that regions of `anchor` use must follow replacements too."""
    pending = [operation.operation for region in anchor.regions for block in region.blocks for operation in block.operations]
    while pending:
        operation = pending.pop()
        entries = [builder.entries.get(operand) for operand in operation.operands]
        imported.recorded.append(Recorded(operation, entries, anchor))
        pending += [inner.operation for region in operation.regions for block in region.blocks for inner in block.operations]
