"""FPCore programs as terms, and terms as FPCore."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from xdsl.ir import SSAValue

from hnfc.accuracy.terms import Term, Terms, subterms
from hnfc.backend.fpcore import application
from hnfc.dialects.num.base import NumOp, as_tensor, element_name
from hnfc.dialects.num.constant import ConstantOp
from hnfc.frontend.fpcore import FPCoreProgram


class NotImproved(Exception):
    """Reason why a program is returned unchanged."""


def term_of(value: SSAValue, terms: Terms, names: Mapping[SSAValue, str]) -> Term:
    """The term of a value of a program in binary64. Raises NotImproved for other formats."""
    made: dict[SSAValue, Term] = {}

    def visit(value: SSAValue) -> Term:
        if value not in made:
            made[value] = compute(value)
        return made[value]

    def compute(value: SSAValue) -> Term:
        if element_name(as_tensor(value.type)) not in ("f64", "bool", "i1"):
            raise NotImproved("only programs in binary64 throughout are improved")
        owner = value.owner
        if not isinstance(owner, NumOp):
            return terms.var(names[value])
        if isinstance(owner, ConstantOp):
            number = float(owner.attributes_as_python()["value"])
            if number != number or abs(number) == float("inf"):
                raise NotImproved("INFINITY and NAN have no value over the reals")
            return terms.const(Fraction(number))
        operands = [visit(operand) for operand in owner.operands]
        name = owner.name.removeprefix("num.")
        if name in ("add", "div") and all(isinstance(o.owner, ConstantOp) for o in owner.operands):
            # a literal that no double holds: the reader writes it so that it rounds once
            x, y = (t.value for t in operands)
            if name == "add" or y != 0:
                return terms.const(x + y if name == "add" else x / y)
        if name == "compare":
            return terms.make(name, *operands, value=owner.attributes_as_python()["predicate"])
        return terms.make(name, *operands)

    return visit(value)


def program_term(program: FPCoreProgram, terms: Terms) -> tuple[Term, list[Term]]:
    """The program's expression and its preconditions. Arguments are variables by their names."""
    names = {value: name for name, value in program.arguments.items()}
    return term_of(program.result, terms, names), [term_of(condition, terms, names) for condition in program.conditions]


def expression(term: Term, indent: int = 1) -> str:
    """The term as FPCore, its first line being indented already; what occurs more than once and is no leaf is named by `let*`."""
    names = {t: str(t.value) for t in subterms(term) if t.op == "var"}
    return _body(term, names, set(names.values()), indent)


def inline(term: Term) -> str:
    """The term as FPCore in one expression, without names for its parts."""
    return _written(term, {t: str(t.value) for t in subterms(term) if t.op == "var"})


def _body(term: Term, names: dict[Term, str], taken: set[str], indent: int) -> str:
    space = " " * indent
    if term.op == "where":
        condition = _written(term.args[0], names)
        branches = [_body(a, names, taken, indent + 2) for a in term.args[1:]]
        return f"(if {condition}\n{space}  {branches[0]}\n{space}  {branches[1]})"
    names, taken = dict(names), set(taken)
    bound = []
    for node in repeated(term):
        if node not in names:
            name = next(n for n in (f"t{i}" for i in range(10**6)) if n not in taken)
            bound.append(f"[{name} {_written(node, names)}]")
            taken.add(name)
            names[node] = name
    body = _written(term, names)
    if not bound:
        return body
    return f"(let* ({f'{chr(10)}{space}       '.join(bound)})\n{space}  {body})"


_UNNAMED = frozenset(("compare", "neg", "logical_and", "logical_or", "logical_not"))


def repeated(term: Term) -> list[Term]:
    """Operations that occur more than once, each behind those that it is made of; signs and truth values are left out."""
    uses: dict[Term, int] = {}
    nodes = list(subterms(term))
    for node in nodes:
        for operand in node.args:
            uses[operand] = uses.get(operand, 0) + 1
    return [node for node in nodes if node.args and uses.get(node, 0) > 1 and node.op not in _UNNAMED]


def _written(term: Term, names: dict[Term, str]) -> str:
    if term in names:
        return names[term]
    if term.op == "const":
        return literal(term.value)
    return application(term.op, [_written(a, names) for a in term.args], term.value)


def literal(value: Fraction) -> str:
    """A number as FPCore reads it: the same rational, or the double next to it where the quotient is long."""
    if value.denominator == 1 and abs(value) < 10**15:
        return str(value.numerator)
    found = doubles(value)
    return repr(found[0]) if len(found) == 1 else f"{value.numerator}/{value.denominator}"


def doubles(value: Fraction) -> tuple[float, ...]:
    """The double that the number is or is written as, or numerator and denominator where they are doubles; else the double next to it."""
    near = float(value)
    if value not in (Fraction(near), Fraction(repr(near))) and abs(value.numerator) < 2**53 and value.denominator < 2**53:
        return float(value.numerator), float(value.denominator)
    return (near,)
