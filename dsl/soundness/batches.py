"""Batches of matrices as single matrices: ranks that a rule leaves open, where every operation acts on each matrix of a batch alike.

Say that each captured tensor is a batch of matrices: any leading axes, then two. Pointwise operations, reductions along the last axes,
`matmul`, `transpose`, and axes of size 1 that come in or go among the last ones, give at a batch index β what they give of the operands'
matrices at β, where an operand that is broadcast along a leading axis has one matrix there for every β. So does every expression of
them, by induction, as long as the operands of a pointwise operation have their batch axes at the same places from the right: equally
many axes after these. Then a side of the rule has at (β, i) the value that it has at i for the matrices at β; it is defined there if it
is so for them, and `where` holds for them if it holds everywhere. A proof for all matrices is one for all batches.

No axis of a batch is lost on the left, so its batches fit each other, and those on the right as well. A tensor is a batch of matrices
if it is an operand of `matmul` (vectors, which `matmul` promotes, are left to who applies the rule, see `judge.shape_conditions`) or of
`transpose`; or if its rank is known to be at most 2: it is then one matrix for every β, of size 1 along the axes that it lacks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hnfc.dialects.facts import Access
from hnfc.dsl.core import AllOf, Apply, Capture, Comparison, Expr, Literal, Property, Rule, conjuncts
from hnfc.dsl.core import walk as walk_expression
from hnfc.dsl.soundness.scan import known_ranks, of_matrices, reshaping, rule_expressions, scalar_captures

MATRIX = 2

class NotByBatches(Exception):
    """An operation does not, or is not known to, act on each matrix alike."""


def single_matrices(rule: Rule) -> Rule:
    """The rule for single matrices, where it then holds for batches too; otherwise the rule itself."""
    if not any(reshaping(node) for node in rule_expressions(rule)):
        return rule
    ranks, scalars = known_ranks(rule), scalar_captures(rule)
    names = {n.name for n in rule_expressions(rule) if isinstance(n, Capture)} - scalars
    open_ranks = names - ranks.keys()
    sides = (rule.pattern, rule.replacement) if rule.both_ways else (rule.pattern,)
    if not open_ranks or not all(open_ranks <= set(_matrices(side)) for side in sides) or any(rank > MATRIX for rank in ranks.values()):
        return rule
    try:
        if depth(rule.pattern, scalars) != depth(rule.replacement, scalars):
            return rule
        for condition in conjuncts(rule.where):
            if isinstance(condition, Comparison):
                _common(condition.x, condition.y, scalars=scalars)
            elif not isinstance(condition, Property):
                return rule
    except NotByBatches:
        return rule
    fixed = tuple(Property("rank", (Capture(name),), ("eq", MATRIX)) for name in sorted(open_ranks))
    return replace(rule, where=AllOf((rule.where, *fixed)))


def _matrices(side: Expr) -> Iterator[str]:
    """The captures that must have two axes or more for the side to have a value."""
    for node in walk_expression(side):
        if of_matrices(node) and isinstance(node, Apply):
            yield from (x.name for x in node.operands if isinstance(x, Capture))


def depth(node: Expr, scalars: frozenset[str]) -> int | None:
    """Number of axes after those of the batch; None for a number. Raises NotByBatches."""
    match node:
        case Literal():
            return None
        case Capture(name):
            return None if name in scalars else MATRIX
        case Apply(attributes=()) if node.operation.FACTS.access is Access.ELEMENTWISE:
            return _common(*node.operands, scalars=scalars)
        case Apply(attributes=(("axes", tuple(axes)),)) if node.operation.FACTS.access is Access.REDUCTION:
            inner = _tensor(node.operands[0], scalars)
            if all(isinstance(axis, int) and -inner <= axis < 0 for axis in axes):
                return inner
        case Apply(attributes=()) if node.name == "matmul":
            if _tensor(node.operands[0], scalars) == _tensor(node.operands[1], scalars) == MATRIX:
                return MATRIX
        case Apply(attributes=(("perm", "last_two"),)) if node.name == "transpose":
            return _tensor(node.operands[0], scalars)
        case Apply() if (step := reshaping(node)) is not None:
            kind, place = step
            inner = _tensor(node.operands[0], scalars)
            if kind == "unsqueeze" and -place <= inner + 1:
                return inner + 1
            if kind == "squeeze" and -place <= inner:
                return inner - 1
    raise NotByBatches


def _common(*operands: Expr, scalars: frozenset[str]) -> int | None:
    """The one number of axes after those of the batch that these tensors have."""
    found = {inner for x in operands if (inner := depth(x, scalars)) is not None}
    if len(found) > 1:
        raise NotByBatches
    return found.pop() if found else None


def _tensor(node: Expr, scalars: frozenset[str]) -> int:
    inner = depth(node, scalars)
    if inner is None:
        raise NotByBatches
    return inner
