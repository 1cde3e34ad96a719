"""`num` → torch dialect. An imported module is patched in place, so what did not change comes out byte for byte as it went in."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from torch_mlir import ir
from torch_mlir.passmanager import PassManager
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

import hnfc.backend.special  # noqa: F401  (registers its forms)
from hnfc.backend.expansions import write
from hnfc.backend.native import write_natively
from hnfc.backend.unfolded import unfold
from hnfc.core.errors import ModelError
from hnfc.core.torch_emitter import Emitter
from hnfc.dialects.num.base import NumOp
from hnfc.dialects.num.constant import ConstantOp
from hnfc.frontend.conversions import CONVERSIONS
from hnfc.frontend.reading import new_context
from hnfc.frontend.torch_mlir import Imported, operation_name


def export(
    imported: Imported, replaced: Mapping[SSAValue, SSAValue], native: bool = False, plain: Collection[Operation] = ()
) -> ir.Module:  # fmt: skip
    """Patches `imported.torch` to compute what `imported.module` computes now, and returns it.

    `replaced` maps each num value that has been replaced to its replacement (chains are followed). Operands of num operations
    that were changed in place are found by themselves. native: what rules made becomes functions of torch with accurate derivatives,
    which only `raise_function` knows, but for those of `plain`.
    """
    patch = _Patch(imported, replaced, native, plain)
    if replaced or any(patch.edited()):
        patch.run()
    verify(imported.torch)
    return imported.torch


class _Patch:
    def __init__(self, imported: Imported, replaced: Mapping[SSAValue, SSAValue], native: bool, plain: Collection[Operation]) -> None:
        self.imported = imported
        self.replaced = replaced
        self.native = native
        self.plain = plain
        self.emitter = Emitter(imported.torch.context, self.value, imported.weight_attributes)
        self._stale: set[SSAValue] = set()
        self._dirty: dict[SSAValue, bool] = {}
        self._written: dict[SSAValue, ir.Value] = {}
        self._location: ir.Location | None = None

    def current(self, value: SSAValue) -> SSAValue:
        """Replacement of `value`."""
        seen = set()
        while value in self.replaced and value not in seen:
            seen.add(value)
            value = self.replaced[value]
        return value

    def edited(self) -> Iterator[Operation]:
        """The imported operations whose operands are neither what they were nor what replaced that."""
        for operation, before in self.imported.operands.items():
            if operation.parent is None:
                continue
            now = operation.operands
            if len(now) != len(before) or any(a is not b and a is not self.current(b) for a, b in zip(now, before, strict=True)):
                yield operation

    def run(self) -> None:
        """Sets every operand whose num value is computed otherwise now, then erases what only the old values needed."""
        imported = self.imported
        self._stale.update(result for operation in self.edited() for result in operation.results)
        changed = self._stale | set(self.replaced)
        for value, inner in imported.inner.items():
            if any(part in changed for part in inner if part is not value):
                self._stale.add(value)
        self._stale.update(value for value in imported.rebased if value in imported.values and self._is_dirty(value))
        dropped: list[ir.Value] = []
        for record in imported.recorded:
            if record.operation.name == "func.return":
                self._update_return(record, dropped)
                continue
            for index, entry in enumerate(record.operands):
                if isinstance(entry, SSAValue) and self._is_changed(entry) and self._is_there(entry):
                    self._replace(record, index, entry, dropped)
        _erase_unused([*dropped, *(result for operation in self.emitter.made for result in operation.results)])

    def _is_dirty(self, value: SSAValue) -> bool:
        """Return whether a rebased value is computed otherwise now than by the torch operation that it stands for."""
        stack = [value]
        while stack:
            current = stack[-1]
            if current in self._dirty:
                stack.pop()
                continue
            owner = current.owner
            if not isinstance(owner, Operation) or owner.parent is None:
                self._dirty[current] = False
                continue
            now = tuple(owner.operands)
            if self.imported.operands.get(owner) != now:
                self._dirty[current] = True
                continue
            made_here = [operand for operand in now if operand not in self.imported.values or operand in self.imported.rebased]
            missing = [operand for operand in made_here if operand not in self._dirty]
            if missing:
                stack += missing
            else:
                self._dirty[current] = any(self._dirty[operand] for operand in made_here)
        return self._dirty[value]

    def _is_there(self, value: SSAValue) -> bool:
        """False for a value that nothing needs any more: it left the num module, and so did what used it."""
        owner = self.current(value).owner
        return not isinstance(owner, Operation) or owner.parent is not None

    def _is_changed(self, value: SSAValue) -> bool:
        return value in self.replaced or value in self._stale

    def _replace(self, record: Any, index: int, entry: SSAValue, dropped: list[ir.Value]) -> None:
        old = record.operation.operands[index]
        origin = self.imported.origin.get(entry)
        self._location = origin.location if origin is not None else record.operation.location
        self.emitter.move(ir.InsertionPoint(record.anchor), self._location)
        new = self.value(self.current(entry))
        if new.type != old.type:
            new = self._retyped(new, old.type)
        if new != old:
            record.operation.operands[index] = new
            dropped.append(old)

    def _retyped(self, value: ir.Value, kind: ir.Type) -> ir.Value:
        """A replacement may know more or less of its shape than the value it replaces."""
        return self.emitter.create("torch.tensor_static_info_cast", [value], str(kind))[0]

    def _update_return(self, record: Any, dropped: list[ir.Value]) -> None:
        returns = next((op for op in self.imported.operands if isinstance(op, ReturnOp) and self._belongs(op, record)), None)
        entries = list(returns.operands) if returns is not None else record.operands
        for index, (entry, before) in enumerate(zip(entries, record.operands, strict=True)):
            if entry is not before or self._is_changed(before):
                self._replace_return(record, index, entry, before, dropped)

    def _replace_return(self, record: Any, index: int, entry: SSAValue, before: SSAValue, dropped: list[ir.Value]) -> None:
        origin = self.imported.origin.get(before)
        self._location = origin.location if origin is not None else record.operation.location
        self.emitter.move(ir.InsertionPoint(record.anchor), self._location)
        old, new = record.operation.operands[index], self.value(self.current(entry))
        if new.type != old.type:
            new = self._retyped(new, old.type)
        if new != old:
            record.operation.operands[index] = new
            dropped.append(old)

    def _belongs(self, returns: ReturnOp, record: Any) -> bool:
        return self.imported.operands[returns] == tuple(record.operands)

    def value(self, value: SSAValue) -> ir.Value:
        """The torch value of a num value; one that has none, or whose operation changed, is written here first."""
        stack = [value]
        while stack:
            owner = self._unwritten(stack[-1])
            if owner is None:
                stack.pop()
                continue
            missing = [operand for operand in owner.operands if self._unwritten(operand) is not None and not _is_leaf(operand)]
            if missing:
                stack += reversed(missing)
            else:
                self._write(owner)
        value = self.current(value)
        return self._written[value] if value in self._written else self.imported.values[value]

    def _unwritten(self, value: SSAValue) -> Operation | None:
        """The operation to write before `value` has a torch value."""
        value = self.current(value)
        if value in self._written or (value in self.imported.values and value not in self._stale):
            return None
        owner = value.owner
        if not isinstance(owner, Operation):
            raise ValueError("a block argument has no torch value")
        return owner

    def _write(self, owner: Operation) -> None:
        outer = self.emitter.location
        origin = next((self.imported.origin[result] for result in owner.results if result in self.imported.origin), None)
        if origin is not None:
            self.emitter.location = origin.location
        for result, made in zip(owner.results, self._operations(owner), strict=True):
            self._written[result] = made
        self.emitter.location = outer

    def _operations(self, owner: Operation) -> Sequence[ir.Value]:
        """The results of an operation; natively, if that is wanted, and a rule made it."""
        if self.native and owner not in self.imported.operands and owner not in self.plain and isinstance(owner, NumOp):
            made = write_natively(self.emitter, owner)
            if made is not None:
                return made
        return write(self.emitter, owner)


def _is_leaf(value: SSAValue) -> bool:
    """Return whether it is a number, which most writers put among the operands: it is written on demand."""
    return isinstance(value.owner, ConstantOp)


_METADATA = "torch.aten._assert_tensor_metadata"
_EFFECTS = ("torch.aten._assert", "torch.overwrite", "torch.prim.Raise", "torch.prim.Print", "torch.bind_symbolic")


def _erase_unused(values: Iterable[ir.Value]) -> None:
    """Erases the operations of `values` that nobody uses any more, and what only they used.

    An assertion on the element type of a value goes with it: it would keep alive what was fused away.
    """
    pending = _defining(values)
    while pending:
        key, operation = pending.popitem()
        if not _may_go(operation):
            continue
        uses = [use for result in operation.results for use in result.uses]
        if any(use.operand_number != 0 or use.owner.name != _METADATA for use in uses):
            continue
        for assertion in [use.owner.operation for use in uses]:
            pending.update(_defining(assertion.operands))
            assertion.erase()
        pending.update(_defining(operation.operands))
        pending.pop(key, None)
        operation.erase()


def _defining(values: Iterable[ir.Value]) -> dict[int, ir.Operation]:
    """The operations that make the values, by an identity that outlives them."""
    owners = (value.owner for value in values)
    operations = (getattr(owner, "operation", owner) for owner in owners if not isinstance(owner, ir.Block))
    return {hash(operation): operation for operation in operations}


def _may_go(operation: ir.Operation) -> bool:
    name = operation_name(operation)
    if operation.name == "torch.operator" and name not in CONVERSIONS:
        return False
    inplace = name.split(".")[2:3] and name.split(".")[2].endswith("_")
    return name.startswith("torch.") and not name.startswith(_EFFECTS) and not len(operation.regions) and not inplace


def build(module: ModuleOp, context: ir.Context | None = None, weights: Mapping[str, ir.Attribute] | None = None) -> ir.Module:
    """A torch module for `num` text that never had one. Weights that `weights` lacks become references by name."""
    context = context or new_context()
    with context, ir.Location.unknown():
        result = ir.Module.create()
        for operation in module.body.block.ops:
            if not isinstance(operation, FuncOp):
                raise ModelError(f"expected functions, but got {operation.name}")
            _build_function(result, operation, weights or {})
    verify(result)
    return result


def _build_function(module: ir.Module, function: FuncOp, weights: Mapping[str, ir.Attribute]) -> None:
    values: dict[SSAValue, ir.Value] = {}

    def value(wanted: SSAValue) -> ir.Value:
        """A value of the function, or of a form that an operation of it is written in."""
        if wanted not in values:
            values.update(zip(wanted.owner.results, write(emitter, wanted.owner), strict=True))  # type: ignore[union-attr,arg-type]
        return values[wanted]

    emitter = Emitter(module.context, value, weights)
    block = function.body.block
    inputs = [emitter.type(argument.type) for argument in block.args]
    returned = block.last_op
    outputs = [emitter.type(operand.type) for operand in returned.operands] if returned is not None else []
    signature = ir.TypeAttr.get(ir.FunctionType.get(inputs, outputs, module.context))
    name = ir.StringAttr.get(function.sym_name.data, module.context)
    location = ir.Location.unknown(module.context)
    made = ir.Operation.create(
        "func.func", attributes={"sym_name": name, "function_type": signature}, regions=1, loc=location, ip=ir.InsertionPoint(module.body)
    )
    body = made.regions[0].blocks.append(*inputs, arg_locs=[location] * len(inputs))
    values.update(zip(block.args, body.arguments, strict=True))
    emitter.move(ir.InsertionPoint(body), location)
    for operation in block.ops:
        if isinstance(operation, ReturnOp):
            emitter.create("func.return", [values[operand] for operand in operation.operands])
        else:
            values.update(zip(operation.results, write(emitter, operation), strict=True))


# what may be written to a file


def verify(module: ir.Module) -> None:
    """Raises ModelError where MLIR's verifier does not accept the module."""
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        message = "; ".join(diagnostic.message for diagnostic in error.error_diagnostics) or str(error.message)
        raise ModelError(f"the module is not valid: {message}") from None


def emit_torch(module: ir.Module, located: bool = False) -> str:
    """The module as text of the torch dialect; with the locations of its operations if they are worth something."""
    return str(module.operation.get_asm(enable_debug_info=located, assume_verified=True)).rstrip("\n") + "\n"


def emit_bytecode(module: ir.Module) -> bytes:
    """The module as MLIR bytecode."""
    stream = io.BytesIO()
    module.operation.write_bytecode(stream)
    return stream.getvalue()


_TO_BACKEND = "builtin.module(func.func(torch-match-quantized-custom-ops),torchdynamo-export-to-torch-backend-pipeline{extra-library=})"
_TO_LINALG = "builtin.module(torch-backend-to-linalg-on-tensors-backend-pipeline)"


def lower_to_torch_backend(module: ir.Module, prepare: Callable[[ir.Module], None] = unfold) -> ir.Module:
    """A copy of the module in torch-mlir's backend form, composite operations taken apart. Raises ModelError where that fails.

    prepare: changes the copy before that.
    """
    return _lowered(module, prepare, _TO_BACKEND)


def lower_to_linalg(module: ir.Module) -> ir.Module:
    """A copy of the module, lowered to linalg on tensors by torch-mlir's own pipelines. Raises ModelError where that fails."""
    return _lowered(module, unfold, _TO_BACKEND, _TO_LINALG)


def _lowered(module: ir.Module, prepare: Callable[[ir.Module], None], *pipelines: str) -> ir.Module:
    # bytes that were written just now need no trial
    copy = ir.Module.parse(emit_bytecode(module), module.context)
    prepare(copy)
    try:
        for pipeline in pipelines:
            PassManager.parse(pipeline, module.context).run(copy.operation)
    except ir.MLIRError as error:
        message = "; ".join(diagnostic.message for diagnostic in error.error_diagnostics) or str(error.message)
        raise ModelError(f"torch-mlir cannot lower the module: {message}") from None
    return copy


def emit_linalg(module: ir.Module) -> str:
    """The module as text of linalg on tensors."""
    return str(lower_to_linalg(module))
