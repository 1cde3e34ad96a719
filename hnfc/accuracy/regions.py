"""Pointwise regions of a tensor program as terms: what computes a value element by element, and the values that this starts from.

Whatever the shapes are, each element of the region's value is one function of the elements at its index. A reduction, a product of
matrices or a cast ends a region: its result is a variable of the term.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from hnfc.accuracy.terms import Term, Terms
from hnfc.dialects.facts import Access, Result
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.base import NumOp
from hnfc.dialects.num.constant import ConstantOp
from hnfc.dialects.num.elementary import DetachOp
from hnfc.dialects.types import ELEMENT_NAMES, FORMATS
from hnfc.dsl import core

MOST_OPERATIONS = 40
MOST_LEAVES = 4
_PREDICATE = "predicate"


@dataclass(frozen=True)
class PointwiseRegion:
    """A value as a term, and as the pattern that finds it. leaves: the values that variables stand for, by their names."""

    root: SSAValue
    leaves: dict[str, SSAValue]
    term: Term
    pattern: core.Expr
    operations: frozenset[Operation]

    @property
    def element(self) -> str:
        return element_of(self.root) or ""


def element_of(value: SSAValue) -> str | None:
    return ELEMENT_NAMES.get(value.type.element_type) if isinstance(value.type, TensorType) else None


def region_at(root: SSAValue, terms: Terms, walls: Collection[SSAValue] = ()) -> PointwiseRegion | None:
    """The region that ends at a value; None where there is none, or it has too many operations or leaves. walls: values that end it."""
    if not _is_inner(root) or element_of(root) not in FORMATS:
        return None
    element = element_of(root)
    made: dict[SSAValue, tuple[Term, core.Expr]] = {}
    leaves: dict[str, SSAValue] = {}
    stack = [root]
    while stack:
        value = stack[-1]
        if value in made:
            stack.pop()
            continue
        if not _is_inner(value) or value in walls or (element_of(value) not in (element, "i1")):
            number = _number(value)
            if number is not None:
                made[value] = terms.const(number), core.Literal(number)
            elif element_of(value) != element or len(leaves) == MOST_LEAVES:
                return None
            else:
                name = f"x{len(leaves)}"
                leaves[name] = value
                made[value] = terms.var(name), core.Capture(name)
            continue
        operation = value.owner
        assert isinstance(operation, NumOp)
        missing = [operand for operand in operation.operands if operand not in made]
        if missing:
            stack += missing
            continue
        if len(made) > MOST_OPERATIONS:
            return None
        made[value] = _made(operation, [made[operand] for operand in operation.operands], terms)
    term, pattern = made[root]
    inside = frozenset(v.owner for v in made if v not in leaves.values() and isinstance(v.owner, Operation))
    return PointwiseRegion(root, leaves, term, pattern, inside) if leaves and isinstance(pattern, core.Apply) and term.args else None


def _made(operation: NumOp, operands: list[tuple[Term, core.Expr]], terms: Terms) -> tuple[Term, core.Expr]:
    name = operation.name.removeprefix("num.")
    attributes = operation.attributes_as_python()
    term = _term(name, [t for t, _ in operands], attributes.get(_PREDICATE), terms)
    return term, core.Apply(type(operation), tuple(e for _, e in operands), tuple(attributes.items()))


def _term(name: str, operands: list[Term], predicate: str | None, terms: Terms) -> Term:
    """The operation in those that identities are written in."""
    match name:
        case "square":
            return terms.make("mul", operands[0], operands[0])
        case "reciprocal":
            return terms.make("div", terms.one, operands[0])
        case "rsqrt":
            return terms.make("div", terms.one, terms.make("sqrt", operands[0]))
    return terms.make(name, *operands, value=predicate)


def _is_inner(value: SSAValue) -> bool:
    """Return whether the value comes from an operation that can be inside a region."""
    operation = value.owner
    if not isinstance(operation, NumOp) or operation.FACTS.access is not Access.ELEMENTWISE or isinstance(operation, DetachOp):
        return False
    if operation.FACTS.real is None or operation.FACTS.evaluate is None or operation.FACTS.result is Result.ATTRIBUTE:
        return False
    if len(operation.results) != 1 or not operation.properties.keys() <= {_PREDICATE}:
        return False
    return element_of(value) in FORMATS or element_of(value) == "i1"


def _number(value: SSAValue) -> Fraction | None:
    """The finite number that a constant holds."""
    if not isinstance(value.owner, ConstantOp):
        return None
    number = float(value.owner.attributes_as_python()["value"])
    return Fraction(number) if number - number == 0 else None


def term_of(expression: core.Expr, terms: Terms) -> Term | None:
    """A side of a rule as a term, each operation by itself; None where it is not pointwise."""
    match expression:
        case core.Capture(name):
            return terms.var(name)
        case core.Literal(value) if isinstance(value, Fraction):
            return terms.const(value)
        case core.Apply(operation, operands, attributes):
            facts = operation.FACTS
            if facts.access is not Access.ELEMENTWISE or facts.real is None or facts.evaluate is None or facts.result is Result.ATTRIBUTE:
                return None
            made = [term_of(operand, terms) for operand in operands]
            known = [term for term in made if term is not None]
            if len(known) < len(made) or not {name for name, _ in attributes} <= {_PREDICATE}:
                return None
            return _term(expression.name, known, dict(attributes).get(_PREDICATE), terms)
    return None


def condition_of(condition: core.Condition, terms: Terms) -> tuple[Term, ...] | None:
    """A condition as terms that are all true where it holds; None where it is not one on elements."""
    match condition:
        case core.AllOf(parts):
            found = [condition_of(part, terms) for part in parts]
            return None if None in found else tuple(term for part in found for term in part or ())
        case core.Comparison(predicate, left, right):
            sides = [term_of(side, terms) for side in (left, right)]
            return None if None in sides else (terms.make("compare", *(s for s in sides if s is not None), value=predicate),)
    return None


def expression_of(term: Term) -> core.Expr:
    """The term as the right side of a rule; what occurs more than once is one node."""
    known: dict[Term, core.Expr] = {}

    def visit(t: Term) -> core.Expr:
        if t not in known:
            match t.op:
                case "var":
                    known[t] = core.Capture(str(t.value))
                case "const":
                    known[t] = core.Literal(Fraction(t.value))
                case _:
                    attributes = (("predicate", t.value),) if t.op == "compare" else ()
                    known[t] = core.Apply(OPERATIONS[t.op], tuple(map(visit, t.args)), attributes)
        return known[t]

    return visit(term)
