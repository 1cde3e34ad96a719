"""Operations of MLIR that lie in regions of others."""

from __future__ import annotations

from collections.abc import Iterator

from torch_mlir import ir

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
