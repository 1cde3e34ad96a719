"""Graphs of a function as plain data: its values in order, and for a report the graphs before and after all rewrites."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue

from hnfc.core.samples import Array
from hnfc.core.size_arithmetic import KNOWN
from hnfc.dialects.interval import Interval
from hnfc.dialects.num.base import NumOp
from hnfc.dialects.num.constant import ConstantOp, WeightOp
from hnfc.dialects.num.opaque import OpaqueOp
from hnfc.dialects.types import DYNAMIC, ELEMENT_NAMES
from hnfc.frontend.stablehlo_marks import wall_of
from hnfc.validation.differential import elements_of
from hnfc.validation.measurement import Error, Reference

MOST_MEASURED = 20_000_000
"""Elements of all values on all samples of a function whose values are all measured."""
_SHOWN = 60
"""Greatest length of an attribute that is shown."""


@dataclass(frozen=True)
class GraphNode:
    """A tensor of a function. kind: input, weight, constant, operation, or opaque. operands: positions of other nodes, in order."""

    kind: str
    operation: str
    detail: str
    type: str
    place: str
    operands: tuple[int, ...]


@dataclass(frozen=True)
class FunctionGraph:
    """The tensors of a function in the order of the program. index: the position of the node of each value."""

    name: str
    nodes: tuple[GraphNode, ...]
    outputs: tuple[int, ...]
    index: dict[SSAValue, int] = field(repr=False)


@dataclass(frozen=True)
class Spread:
    """Values of a tensor on samples: the finite ones lie in [low, high]."""

    low: float
    high: float
    not_finite: int
    elements: int

    @staticmethod
    def of(arrays: Iterable[Array]) -> Spread | None:
        """The values of all arrays together; None where they hold no real number."""
        parts = [np.asarray(a).astype(np.float64).reshape(-1) for a in arrays if np.asarray(a).dtype.kind != "c"]
        whole = np.concatenate(parts) if parts else np.zeros(0)
        finite = whole[np.isfinite(whole)]
        if not whole.size:
            return None
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (np.nan, np.nan)
        return Spread(low, high, int(whole.size - finite.size), int(whole.size))


@dataclass
class Drawing:
    """A function before and after its rewrites, for a report. Intervals are those by which conditions were decided.

    rewrites: for each, its position in `Compiled.applied`, the value of its root, and the value that stands in its place in the end.
    measured: whether all values were run on the samples.
    """

    before: FunctionGraph
    after: FunctionGraph | None = None
    rewrites: list[tuple[int, SSAValue, SSAValue]] = field(default_factory=list)
    intervals: dict[SSAValue, Interval] = field(default_factory=dict)
    spreads: tuple[dict[SSAValue, Spread], dict[SSAValue, Spread]] = field(default_factory=lambda: ({}, {}))
    errors: tuple[dict[SSAValue, Error], dict[SSAValue, Error]] = field(default_factory=lambda: ({}, {}))
    """By value, before and after: on the samples, in hnfc's own evaluation."""
    measured: bool = False

    def observe(self, reference: Reference, now: list[dict[SSAValue, Array]]) -> None:
        """Takes the values on the samples. A value that a rewrite made has an error where it stands in the place of an old one."""
        for known, values in zip(self.spreads, (reference.observed, now), strict=True):
            for value in {value: None for each in values for value in each}:
                spread = Spread.of(each[value] for each in values if value in each)
                if spread is not None:
                    known[value] = spread
        after = self.after.index if self.after is not None else {}
        stands_for = {new: old for _, old, new in self.rewrites if new in after} | {
            value: value for value in after if value in self.before.index
        }
        for value in self.before.index:
            if (error := reference.before(value)) is not None:
                self.errors[0][value] = error
        for new, old in stands_for.items():
            if (error := reference.after(old, new, now)) is not None:
                self.errors[1][new] = error


def is_affordable(block: Block, samples: int) -> bool:
    """Return whether all values may be kept on so many samples."""
    return samples * elements_of(block) <= MOST_MEASURED


def graph_of(block: Block, name: str, place: Callable[[Operation], str]) -> FunctionGraph:
    """The graph of a function."""
    nodes: list[GraphNode] = []
    index: dict[SSAValue, int] = {}
    for argument in block.args:
        if isinstance(argument.type, TensorType):
            index[argument] = len(nodes)
            nodes.append(GraphNode("input", f"arg{argument.index}", "", type_text(argument), "", ()))
    for operation in block.ops:
        if is_plumbing(operation):
            continue
        for number, value in enumerate(operation.results):
            if isinstance(value.type, TensorType):
                index[value] = len(nodes)
                nodes.append(_node(operation, number, value, place(operation), index))
    returned = block.last_op.operands if block.last_op is not None else ()
    return FunctionGraph(name, tuple(nodes), tuple(index[value] for value in returned if value in index), index)


def _node(operation: Operation, number: int, value: SSAValue, place: str, index: dict[SSAValue, int]) -> GraphNode:
    from_ = tuple(index[operand] for operand in operation.operands if operand in index)
    kind, name, detail = "operation", operation.name.removeprefix("num."), ""
    if isinstance(operation, OpaqueOp):
        kind, name = "opaque", opaque_name(operation).removeprefix("torch.")
    elif isinstance(operation, WeightOp):
        kind, detail = "weight", operation.weight_name
    elif isinstance(operation, ConstantOp):
        kind, detail = "constant", _short(operation.attributes_as_python()["value"])
    elif isinstance(operation, NumOp):
        detail = ", ".join(f"{key}={_short(given)}" for key, given in operation.attributes_as_python().items() if given is not None)
    if len(operation.results) > 1:
        name = f"{name}, result {number}"
    return GraphNode(kind, name, detail, type_text(value), place, from_)


def _short(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def type_text(value: SSAValue) -> str:
    """Sizes and element type, as in `2×8×8 f32`."""
    if not isinstance(value.type, TensorType):
        return ""
    element = ELEMENT_NAMES.get(value.type.element_type, str(value.type.element_type))
    sizes = "×".join("?" if size == DYNAMIC else str(size) for size in value.type.get_shape())
    return f"{sizes} {element}".strip()


_PLUMBING = ("torch.constant.", "torch.prim.ListConstruct", "torch.aten._assert", "torch_c.", *KNOWN)
"""Operands, sizes, casts and assertions of other operations: no mathematics of the model."""


def is_plumbing(op: Operation) -> bool:
    """Return whether an operation is no mathematics of the model."""
    return op.name == "num.opaque" and opaque_name(op).startswith(_PLUMBING)


def opaque_name(op: Operation) -> str:
    """The torch operation that it carries."""
    if isinstance(op, OpaqueOp) and op.operation.data == "torch.operator":
        carried = op.attributes_as_python()["carried"]
        return str(carried.get("name", op.operation.data)).strip('"')
    if isinstance(op, OpaqueOp) and op.operation.data == "stablehlo.custom_call":
        wall = wall_of(op.attributes_as_python()["carried"])
        return wall[2] if wall is not None else op.operation.data
    for attribute in op.properties.values():
        text = getattr(attribute, "data", None)
        if isinstance(text, str):
            return text
    return op.name
