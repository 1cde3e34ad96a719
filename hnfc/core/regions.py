"""Operations of MLIR that lie in regions of others."""

from __future__ import annotations

from collections.abc import Iterator

from torch_mlir import ir

CONTROL = ("stablehlo.if", "stablehlo.case", "stablehlo.while")
"""Branches and loops of StableHLO, whose bodies take and hand on builtin tensors."""
REGION_ENDS = ("torch.prim.If.yield", "torch.prim.Loop.condition", "torch.operator_terminator")
"""Operations that end a region and hand on its values."""


def operations_within(root: ir.Operation) -> Iterator[ir.Operation]:
    """Every operation in the regions of one, in order."""
    for region in root.regions:
        for block in region.blocks:
            for view in block.operations:
                yield view.operation
                yield from operations_within(view.operation)


def used_within(region: ir.Region) -> list[ir.Value]:
    """The values that operations of a region use and that are made outside of it."""
    inside, used = set[ir.Value](), dict[ir.Value, None]()
    pending = list(region.blocks)
    while pending:
        block = pending.pop(0)
        inside.update(block.arguments)
        for view in block.operations:
            inside.update(view.operation.results)
            used.update(dict.fromkeys(view.operation.operands))
            pending += [inner for within in view.operation.regions for inner in within.blocks]
    return [value for value in used if value not in inside]


def body_end(operation: ir.Operation, region: ir.Region) -> ir.Operation | None:
    """The operation by which a body of a branch or a loop hands on its values; None where a region ends otherwise."""
    if len(region.blocks) != 1 or not len(region.blocks[0].operations):
        return None
    last: ir.Operation = list(region.blocks[0].operations)[-1].operation
    return last if last.name in REGION_ENDS or (operation.name in CONTROL and last.name == "stablehlo.return") else None


def taken_in(block: ir.Block) -> dict[ir.Value, ir.Value]:
    """The tensor of torch that each argument of a body of StableHLO is cast to at its beginning."""
    found: dict[ir.Value, ir.Value] = {}
    for view in block.operations:
        operation = view.operation
        if operation.name != "torch_c.from_builtin_tensor" or operation.operands[0] not in block.arguments:
            break
        found.setdefault(operation.operands[0], operation.results[0])
    return found


def has_unknown_sizes(operation: ir.Operation) -> bool:
    """Return whether a tensor in the regions of an operation has a size that is known only when the model runs."""
    blocks = [block for region in operation.regions for block in region.blocks]
    values = [value for block in blocks for value in block.arguments]
    for inner in operations_within(operation):
        values += inner.results
        values += [value for region in inner.regions for block in region.blocks for value in block.arguments]
    return any(isinstance(value.type, ir.RankedTensorType) and not ir.ShapedType(value.type).has_static_shape for value in values)
