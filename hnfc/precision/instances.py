"""A proved rule with parameters on a product of torch tensors: its right side, with chosen values for the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import torch
from torch import fx

from hnfc.core.errors import ModelError
from hnfc.core.verdicts import verdicts
from hnfc.dialects.facts import NoFormula
from hnfc.dsl import core
from hnfc.dsl.rulebook import shipped

_NEAR = 1e-5
"""Largest difference of h·hᵀ and the identity for a matrix that is called orthogonal, whose entries are rounded."""


@dataclass(frozen=True)
class BlockMatrix:
    """A square matrix with one block, again and again, along its diagonal."""

    block: Any

    @property
    def mT(self) -> BlockMatrix:
        return BlockMatrix(self.block.mT)

    def behind(self, x: Any, size: int) -> Any:
        """The product x·h; size: of the block."""
        return (x.unflatten(-1, (-1, size)) @ self.block).flatten(-2)


ParameterValue: TypeAlias = torch.Tensor | BlockMatrix


@dataclass(frozen=True)
class TensorMath:
    """Operations that the right sides of rules of products are made of, on tensors or on nodes of a graph. sizes: those of blocks."""

    size: int

    def const(self, value: Any) -> Any:
        return float(value)

    def matmul(self, a: Any, b: Any) -> Any:
        if isinstance(b, BlockMatrix):
            return b.behind(a, self.size)
        return self.matmul(b.mT, a.mT).mT if isinstance(a, BlockMatrix) else a @ b

    def transpose(self, x: Any, perm: Any) -> Any:
        if perm != "last_two":
            raise NoFormula("a permutation of axes")
        return x.mT


@dataclass(frozen=True)
class ProductRule:
    """A rule of a product of two captures whose right side is a product too, of one operand with each of them."""

    rule: core.Rule
    left: core.Expr
    right: core.Expr

    @property
    def operands(self) -> tuple[str, str]:
        """The names of what is multiplied."""
        assert isinstance(self.rule.pattern, core.Apply)
        x, w = self.rule.pattern.operands
        assert isinstance(x, core.Capture) and isinstance(w, core.Capture)
        return x.name, w.name

    def check(self, values: Mapping[str, ParameterValue], inner: int) -> None:
        """Raises ModelError for values that do not meet the rule's conditions. inner: the size that the operands share."""
        for part in core.conjuncts(self.rule.where):
            if not self._holds(part, values, inner):
                raise ModelError(f"rule `{self.rule.name}`: the values of its parameters do not meet its conditions")

    def _holds(self, part: core.Condition, values: Mapping[str, ParameterValue], inner: int) -> bool:
        x, _ = self.operands
        match part:
            case core.Property(core.ORTHOGONAL, (core.Capture(name),)) if name in values:
                value = values[name]
                block = (value.block if isinstance(value, BlockMatrix) else value).double()
                whole = inner % len(block) == 0 if isinstance(value, BlockMatrix) else inner == len(block)
                return whole and bool((block @ block.mT - torch.eye(len(block), dtype=torch.float64)).abs().max() <= _NEAR)
            case core.Comparison("gt", core.Capture(name), core.Literal(bound)) if isinstance(given := values.get(name), torch.Tensor):
                return bool((given > float(bound)).all()) and bool(given.isfinite().all())
            case core.Free(core.Capture(name), (-2,)) if isinstance(given := values.get(name), torch.Tensor):
                return given.ndim < 2 or given.shape[-2] == 1
            case core.SameSize(core.Capture(name), core.Capture(other), (-1,)) if isinstance(given := values.get(name), torch.Tensor):
                return other == x and given.shape[-1] == inner
        return False

    def weight(self, w: torch.Tensor, values: Mapping[str, ParameterValue]) -> torch.Tensor:
        """The second operand of the right side, of the same in the left one's."""
        found = computed(self.right, {**values, self.operands[1]: w}, _size(values))
        assert isinstance(found, torch.Tensor)
        return found

    def graph(self, values: Mapping[str, ParameterValue]) -> fx.GraphModule:
        """The first operand of the right side as a function of the same in the left one's, and of the parameters that it needs."""
        graph = fx.Graph()
        tracer = fx.proxy.GraphAppendingTracer(graph)
        names = self.needed
        proxies = {name: fx.Proxy(graph.placeholder(name), tracer) for name in (self.operands[0], *names)}
        given = {name: BlockMatrix(proxy) if isinstance(values.get(name), BlockMatrix) else proxy for name, proxy in proxies.items()}
        graph.output(computed(self.left, given, _size(values)).node)
        return fx.GraphModule(torch.nn.Module(), graph)

    @property
    def needed(self) -> tuple[str, ...]:
        """Parameters of the first operand, in their order."""
        used = core.captures(self.left)
        return tuple(name for name in self.rule.parameters if name in used)


def _size(values: Mapping[str, ParameterValue]) -> int:
    return max((len(value.block) for value in values.values() if isinstance(value, BlockMatrix)), default=1)


def computed(expression: core.Expr, given: Mapping[str, Any], size: int) -> Any:
    """The expression on tensors, by the meanings of its operations."""
    match expression:
        case core.Capture(name):
            return given[name]
        case core.Literal(value):
            return float(value)
        case core.Apply(operation, operands) if operation.FACTS.real is not None:
            return operation.FACTS.real(TensorMath(size), *(computed(x, given, size) for x in operands), **dict(expression.attributes))
    raise NoFormula("no formula on tensors")


@cache
def product_rule(name: str) -> ProductRule:
    """The shipped rule of that name. Raises ModelError where it is not proved, or is no rule of a product."""
    rule = shipped().named(name)
    if rule is None or not verdicts([rule])[name].proved:
        raise ModelError(f"there is no proved rule `{name}`; `hnfc check rules/quantisation.hnf` says why")
    pattern, replacement = rule.pattern, rule.replacement
    if isinstance(pattern, core.Apply) and isinstance(replacement, core.Apply) and pattern.name == replacement.name == "matmul":
        names = [x.name for x in pattern.operands if isinstance(x, core.Capture)]
        left, right = replacement.operands
        if len(names) == 2 and names[0] not in core.captures(right) and names[1] not in core.captures(left):
            return ProductRule(rule, left, right)
    raise ModelError(f"rule `{name}` does not make a product of a product")
