"""Values of e-classes on samples: computed once for each class, in float64, by the first of its members that gives finite numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import SSAValue

from hnfc.core.interpreter import WeightReader, compute
from hnfc.dialects.num.base import NumOp
from hnfc.dialects.num.constant import WeightOp
from hnfc.egraph.graph import EGraph, ENode

Array: TypeAlias = "np.ndarray[Any, Any]"
_MOST_TRIED = 40


@dataclass
class ClassValues:
    """samples: arrays by leaf. Costs ask for values by those of the e-graph; equal ones have equal arrays. truth: what roots are, as far
    as that is known better than float64 tells it."""

    graph: EGraph
    samples: Sequence[Mapping[SSAValue, Array]] = ()
    weights: WeightReader | None = None
    truth: dict[int, list[Array]] = field(default_factory=dict)
    _known: dict[int, list[Array] | None] = field(default_factory=dict)
    _depths: dict[int, int] = field(default_factory=dict)
    _exact: dict[int, bool] = field(default_factory=dict)
    _deepest: int = 0

    def arrays(self, value: SSAValue) -> list[Array] | None:
        if not self.samples:
            return None
        number = self.graph.class_of(value)
        stack = [number]
        while stack:
            current = stack[-1]
            if current in self._known:
                stack.pop()
                continue
            nodes = self._first(current)
            missing = [c for node in nodes for c in map(self.graph.find, node.children) if c not in self._known and c != current]
            missing = [child for child in missing if child not in stack]
            if missing:
                stack += missing
                continue
            stack.pop()
            self._known[current] = self._computed(nodes)
        return self._known[number]

    def exact(self, value: SSAValue) -> bool:
        number = self.graph.class_of(value)
        if number not in self._exact:
            # what is being asked about is no input of itself
            self._exact[number] = False
            self._exact[number] = any(self._is_exact(node) for node in self._first(number))
        return self._exact[number]

    def _is_exact(self, node: ENode) -> bool:
        operation = node.operation
        if operation is None or not isinstance(operation, NumOp):
            return not node.children
        return operation.FACTS.exact and all(self.exact(self.graph.of(child).leader) for child in node.children)

    def depth(self, value: SSAValue) -> float:
        if not self._depths:
            for number, _ in list(self.graph.classes()):
                self._deepest = max(self._deepest, self._depth(number))
        return self._depth(self.graph.class_of(value)) / max(self._deepest, 1)

    def _depth(self, number: int) -> int:
        stack = [number]
        while stack:
            current = stack[-1]
            first = self._first(current)[0]
            missing = [child for child in map(self.graph.find, first.children) if child not in self._depths and child != current]
            if current in self._depths or not missing:
                stack.pop()
                below = [self._depths[child] for child in map(self.graph.find, first.children) if child in self._depths]
                self._depths.setdefault(current, 1 + max(below, default=-1))
            else:
                stack += missing
        return self._depths[number]

    def _first(self, number: int) -> list[ENode]:
        """The members in the order in which they were made: the first of all needs only older ones."""
        return sorted(self.graph.members(number), key=lambda node: node.serial)[:_MOST_TRIED]

    def _computed(self, nodes: Sequence[ENode]) -> list[Array] | None:
        best: list[Array] | None = None
        for node in nodes:
            found = self._of_node(node)
            if found is not None and all(np.isfinite(array).all() for array in found if array.dtype.kind == "f"):
                return found
            best = best if best is not None else found
        return best

    def _of_node(self, node: ENode) -> list[Array] | None:
        operation = node.operation
        if operation is None:
            arrays = [sample.get(node.result) for sample in self.samples]
            return None if any(a is None for a in arrays) else [_wide(a) for a in arrays if a is not None]
        if isinstance(operation, WeightOp):
            return [_wide(self.weights(operation.weight_name))] * len(self.samples) if self.weights else None
        columns = [self._known.get(self.graph.find(child)) for child in node.children]
        known = [column for column in columns if column is not None]
        if len(known) < len(columns) or not isinstance(operation, NumOp):
            return None
        results = []
        for index in range(len(self.samples)):
            made = compute(operation, [column[index] for column in known], wide=True)
            if made is None:
                return None
            results.append(made[0])
        return results


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind in "fV" or array.dtype.name.startswith(("bf", "float")) else array
