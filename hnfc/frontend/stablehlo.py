"""StableHLO, as JAX exports it → the torch dialect, in place; then everything else works on it as on a model of PyTorch.

torch-mlir's bindings know StableHLO, its portable artifacts too, so neither JAX nor a program of its own is needed. An operation
that torch lacks stays what it is, between casts: a wall that no rule crosses, and that `--emit stablehlo` hands back. So does a
branch or a loop, but for its bodies, which are in the torch dialect.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo
from torch_mlir.passmanager import PassManager

import hnfc.frontend.stablehlo_contraction
import hnfc.frontend.stablehlo_elementwise
import hnfc.frontend.stablehlo_movement
import hnfc.frontend.stablehlo_reduction
import hnfc.frontend.stablehlo_values  # noqa: F401  (register their handlers)
from hnfc.core.errors import ModelError, first_line
from hnfc.core.regions import CONTROL, has_unknown_sizes
from hnfc.dialects.types import TypeMismatch
from hnfc.frontend.stablehlo_marks import DETACH, MARK, Marks
from hnfc.frontend.stablehlo_translation import HANDLERS, Translation, element_of, shape_of, vtensor
from hnfc.frontend.trial import DEADLY, LARGE, outlived

_DIALECTS = ("stablehlo.", "chlo.")
_DROPPED = ("shape_assertion",)
"""Calls that only check sizes, which are in the types."""
_ON_BYTES = tuple(
    f"stablehlo.{name}"
    for name in (
        "convert",
        "reshape",
        "transpose",
        "broadcast_in_dim",
        "slice",
        "concatenate",
        "reverse",
        "optimization_barrier",
    )
)
"""Operations on unsigned bytes, as images have them: torch-mlir takes their arithmetic for that of signed ones."""
_IN_PLACE = ("stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice")
"""Operations that XLA does in place in a body, and torch only on the whole of an array, which would be so in every turn of a loop."""
_IDENTITIES = ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement")
"""Calls that say where a value lies."""


def register(context: ir.Context) -> None:
    """Makes the context read and verify StableHLO, CHLO, and the casts between torch's tensors and builtin ones."""
    _stablehlo.register_dialect(context)
    _register_passes()
    # the bindings register the other two for nobody, but a pass brings the dialects that it writes
    empty = ir.Module.parse("module {}", context).operation
    PassManager.parse("builtin.module(func.func(convert-torch-to-stablehlo))", context).run(empty)


_REGISTERED: list[bool] = []


def _register_passes() -> None:
    if not _REGISTERED:
        _stablehlo.register_stablehlo_passes()
        _REGISTERED.append(True)


def is_portable(data: bytes) -> bool:
    """Return whether the bytes are a portable artifact: bytecode of the versioned dialect that StableHLO is stored in."""
    return data[:4] == b"ML\xefR" and b"StableHLO_v" in data[:64]


def from_portable(data: bytes, context: ir.Context, name: str) -> ir.Module:
    """The StableHLO module in a portable artifact. Raises ModelError."""
    if b"sdy\x00" in data:
        what = "this portable StableHLO artifact says how arrays are sharded (the dialect `sdy`), which torch-mlir cannot read"
        raise ModelError(f"{what}; linear algebra and sharding constraints bring it, and hnfc.jax.optimize leaves these as they are", name)
    if len(data) < LARGE and not outlived(context, partial(_stablehlo.deserialize_portable_artifact, context, data)):
        raise ModelError(DEADLY, name)
    try:
        return _stablehlo.deserialize_portable_artifact(context, data)
    except (ValueError, RuntimeError, ir.MLIRError) as error:
        raise ModelError(f"this portable StableHLO artifact cannot be read: {first_line(error)}", name) from None


def is_stablehlo(module: ir.Module) -> bool:
    """Return whether there is a function of StableHLO alone."""
    return any(_is_foreign(function) for function in _functions(module))


def _is_foreign(function: ir.Operation) -> bool:
    """Return whether operations of StableHLO stand in a function, and none of torch: what hnfc wrote itself may have both."""
    names = [operation.name for operation in _operations(function)]
    return any(name.startswith(_DIALECTS) for name in names) and not any(name.startswith("torch") for name in names)


def _functions(module: ir.Module) -> list[ir.Operation]:
    return [view.operation for view in module.body.operations if view.operation.name == "func.func"]


def _operations(function: ir.Operation) -> Iterator[ir.Operation]:
    for block in function.regions[0].blocks:
        for view in block.operations:
            yield view.operation


def translate(module: ir.Module, name: str = "") -> ir.Module:
    """The module with its functions in the torch dialect; calls are put in line. Raises ModelError."""
    _inline(module, name)
    for function in _functions(module):
        if not _is_private(function) and (_is_foreign(function) or _is_empty(function)):
            _function(function, name)
    _run("symbol-dce", module, name)
    return module


def _inline(module: ir.Module, name: str) -> None:
    kept = ",".join(handler for handler in HANDLERS if handler.startswith("chlo."))
    composites = f"func.func(stablehlo-legalize-composite-to-call{{except={kept}}})"
    _run(f"{composites},inline,symbol-dce", module, name)


def _run(passes: str, module: ir.Module, name: str) -> None:
    try:
        PassManager.parse(f"builtin.module({passes})", module.context).run(module.operation)
    except ir.MLIRError as error:
        message = "; ".join(diagnostic.message for diagnostic in error.error_diagnostics) or str(error.message)
        raise ModelError(f"the functions of this module cannot be put in line: {message}", name) from None


def _is_empty(function: ir.Operation) -> bool:
    """Return whether a function only hands on its arguments, and they are builtin tensors."""
    operations = list(_operations(function))
    return len(operations) == 1 and all(isinstance(operand.type, ir.RankedTensorType) for operand in operations[0].operands)


def _is_private(function: ir.Operation) -> bool:
    return "sym_visibility" in function.attributes and ir.StringAttr(function.attributes["sym_visibility"]).value == "private"


def _function(function: ir.Operation, name: str) -> None:
    """Writes the function anew behind the old one, which goes."""
    if len(function.regions[0].blocks) != 1:
        raise ModelError(f"the function `{ir.StringAttr(function.attributes['sym_name']).value}` has control flow of MLIR's own", name)
    old = function.regions[0].blocks[0]
    context = function.context
    inputs = [_torch_type(argument.type) for argument in old.arguments]
    results = [_torch_type(operand.type) for operand in list(_operations(function))[-1].operands]
    attributes = {named: function.attributes[named] for named in function.attributes if named not in ("function_type", "sym_visibility")}
    attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results, context), context)
    made = ir.Operation.create("func.func", attributes=attributes, regions=1, loc=function.location, ip=ir.InsertionPoint(function))
    block = made.regions[0].blocks.append(*inputs, arg_locs=[argument.location for argument in old.arguments])
    _Function(context, block).run(function)
    function.erase()


def _torch_type(kind: ir.Type) -> ir.Type:
    """The torch type of a tensor; that of a value which torch has none for is what it was."""
    element = element_of(kind)
    return kind if element is None else ir.Type.parse(vtensor(element, shape_of(kind)), kind.context)


class _Function:
    """values: what stands for each value of the old function: a torch tensor, or a builtin value where torch has no such type."""

    def __init__(self, context: ir.Context, block: ir.Block) -> None:
        self.t = Translation(context)
        self.point = ir.InsertionPoint(block)
        self.block = block
        self.values: dict[ir.Value, ir.Value] = {}
        self.marks = Marks()
        self._builtin: dict[ir.Value, ir.Value] = {}
        self._is_body = False

    def run(self, function: ir.Operation) -> None:
        old = function.regions[0].blocks[0]
        self.t.emitter.move(self.point, function.location)
        for source, argument in zip(old.arguments, self.block.arguments, strict=True):
            self._set(source, argument)
        for operation in _operations(function):
            self.t.emitter.location = operation.location
            if operation.name == "func.return":
                self.t.emitter.create("func.return", [self._as_torch(self.values[o], _torch_type(o.type)) for o in operation.operands])
            elif not self._is_nothing(operation):
                self._operation(operation)
        _erase_unused(self.t.emitter.made)
        self.marks.write(self.block)

    def _set(self, source: ir.Value, made: ir.Value) -> None:
        self.values[source] = made
        if str(made.type).startswith("!torch.vtensor"):
            self.t.note(made, element_of(source.type) or "", shape_of(source.type))

    def _is_nothing(self, operation: ir.Operation) -> bool:
        """Return whether a call computes nothing; its results then are its operands."""
        if operation.name != "stablehlo.custom_call":
            return False
        target = ir.StringAttr(operation.attributes["call_target_name"]).value
        if target in _DROPPED and not len(operation.results):
            return True
        if target.startswith(MARK):
            self.marks.add(target.removeprefix(MARK), self.values[operation.operands[0]])
        elif target == DETACH:
            return self._detached(operation)
        if not (target in _IDENTITIES or target.startswith(MARK)) or len(operation.results) != len(operation.operands):
            return False
        if any(a.type != b.type for a, b in zip(operation.operands, operation.results, strict=True)):
            return False
        for operand, result in zip(operation.operands, operation.results, strict=True):
            self.values[result] = self.values[operand]
        return True

    def _detached(self, operation: ir.Operation) -> bool:
        value = self.values[operation.operands[0]]
        if value not in self.t.kinds:
            return False
        self._set(operation.results[0], self.t.emitter.create("torch.aten.detach", [value], str(value.type))[0])
        return True

    def _operation(self, operation: ir.Operation) -> None:
        self.marks.note(operation)
        made = self._translated(operation)
        results = list(operation.results)
        if made is None:
            if operation.name in CONTROL and not has_unknown_sizes(operation):
                self._control(operation)
            else:
                self._keep(operation)
            return
        for result, value in zip(results, made if isinstance(made, tuple) else (made,), strict=True):
            self._set(result, value)

    def _translated(self, operation: ir.Operation) -> Any:
        name = operation.name
        if name == "stablehlo.composite":
            name = ir.StringAttr(operation.attributes["name"]).value
        handler = HANDLERS.get(name)
        operands = [self.values[operand] for operand in operation.operands]
        if handler is None or (self._is_body and name in _IN_PLACE) or any(operand not in self.t.kinds for operand in operands):
            return None
        if any(_torch_type(result.type) == result.type for result in operation.results):
            return None
        values = (*operation.operands, *operation.results)
        if name not in _ON_BYTES and any(element_of(value.type) == "ui8" for value in values):
            return None
        before = len(self.t.emitter.made)
        try:
            made = handler(self.t, operation, operands)
        except (TypeMismatch, ValueError, TypeError, KeyError, IndexError, AttributeError):  # a form of another version
            made = None
        if made is None:
            for dead in reversed(self.t.emitter.made[before:]):
                dead.erase()
            del self.t.emitter.made[before:]
            self.t.emitter.move(self.point, operation.location)  # forgets numbers that have just gone
        return made

    def _keep(self, operation: ir.Operation) -> None:
        """The operation as it is, on builtin tensors."""
        self.marks.note_kept(operation)
        uses = [(way, index, self._as_builtin(value)) for way, index, value in _values_from_outside(operation)]
        made = operation.clone(self.point)
        for way, index, value in uses:
            target = made
            for region, block, place in way:
                target = list(target.regions[region].blocks[block].operations)[place].operation
            target.operands[index] = value
        for result, new in zip(operation.results, made.results, strict=True):
            # torch-mlir would make literals of cast constants, of types too that it has no literals of
            self._set(result, new if operation.name == "stablehlo.constant" else self._as_torch(new, _torch_type(result.type)))

    def _control(self, operation: ir.Operation) -> None:
        """A branch or a loop: it stays, on builtin tensors; its bodies are in the torch dialect between casts."""
        self.marks.note_kept(operation)
        operands = [self._as_builtin(operand) for operand in operation.operands]
        made = ir.Operation.create(
            operation.name, results=[result.type for result in operation.results], operands=operands,
            attributes={named: operation.attributes[named] for named in operation.attributes}, regions=len(operation.regions),
            loc=operation.location, ip=self.point,
        )  # fmt: skip
        for source, target in zip(operation.regions, made.regions, strict=True):
            self._body(source.blocks[0], target)
        self.t.emitter.move(self.point, operation.location)
        for result, new in zip(operation.results, made.results, strict=True):
            self._set(result, self._as_torch(new, _torch_type(result.type)))

    def _body(self, source: ir.Block, target: ir.Region) -> None:
        outside = self.t, self.point, self.marks, self._builtin, self._is_body
        block = target.blocks.append(*(a.type for a in source.arguments), arg_locs=[a.location for a in source.arguments])
        # what becomes known inside, sizes and casts, is not there outside
        self.t, self.point, self.marks, self._builtin = self.t.inside(), ir.InsertionPoint(block), Marks(), {}
        self._is_body = True
        self.t.emitter.move(self.point, target.owner.location)
        for argument, made in zip(source.arguments, block.arguments, strict=True):
            self._set(argument, self._as_torch(made, _torch_type(argument.type)))
            self._builtin[self.values[argument]] = made
        for view in source.operations:
            operation = view.operation
            self.t.emitter.location = operation.location
            if operation.name == "stablehlo.return":
                self.t.emitter.create("stablehlo.return", [self._as_builtin(operand) for operand in operation.operands])
            elif not self._is_nothing(operation):
                self._operation(operation)
        self.t, self.point, self.marks, self._builtin, self._is_body = outside

    def _as_builtin(self, source: ir.Value) -> ir.Value:
        value = self.values[source]
        if value.type == source.type:
            return value
        if value not in self._builtin:
            self._builtin[value] = self.t.emitter.create("torch_c.to_builtin_tensor", [value], str(source.type))[0]
        return self._builtin[value]

    def _as_torch(self, value: ir.Value, kind: ir.Type) -> ir.Value:
        return value if value.type == kind else self.t.emitter.create("torch_c.from_builtin_tensor", [value], str(kind))[0]


def _values_from_outside(operation: ir.Operation) -> list[tuple[list[tuple[int, int, int]], int, ir.Value]]:
    """Every operand, of operations in its regions too, that is made outside of it: the way to its operation, its number, the value."""
    inside: set[ir.Value] = set()
    uses: list[tuple[list[tuple[int, int, int]], int, ir.Value]] = []

    def visit(current: ir.Operation, way: list[tuple[int, int, int]]) -> None:
        uses.extend((way, index, operand) for index, operand in enumerate(current.operands))
        for r, region in enumerate(current.regions):
            for b, block in enumerate(region.blocks):
                inside.update(block.arguments)
                for place, view in enumerate(block.operations):
                    inside.update(view.operation.results)
                    visit(view.operation, [*way, (r, b, place)])

    visit(operation, [])
    return [use for use in uses if use[2] not in inside]


def _erase_unused(made: list[ir.Operation]) -> None:
    """Unused operations of a handler: broadcasts that torch does by itself, sizes."""
    for operation in reversed(made):
        if operation.name.startswith(("torch.", "torch_c.")) and not any(next(iter(r.uses), None) is not None for r in operation.results):
            operation.erase()
