"""FPCore programs as terms, and terms as FPCore."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from xdsl.ir import SSAValue

from hnfc.accuracy.terms import Term, Terms, subterms
from hnfc.dialects.num.base import NumOp, as_tensor, element_name
from hnfc.dialects.num.constant import ConstantOp
from hnfc.frontend.fpcore import COMPARISONS, PLAIN, Form, Program

_SYMBOLS = {name: symbol for symbol, name in PLAIN.items()}
_PREDICATES = {name: symbol for symbol, name in COMPARISONS.items()}
_LOGIC = {"logical_and": "and", "logical_or": "or", "logical_not": "not", "where": "if", "neg": "-"}


class NotImproved(Exception):
    """Why a program is handed back as it came."""


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


def program_term(program: Program, terms: Terms) -> tuple[Term, list[Term]]:
    """The program's expression and its preconditions. Arguments are variables by their names."""
    names = {value: name for name, value in program.arguments.items()}
    return term_of(program.result, terms, names), [term_of(condition, terms, names) for condition in program.conditions]


def expression(term: Term, indent: int = 1) -> str:
    """The term as FPCore; what occurs more than once and is no leaf is named by `let*`."""
    uses: dict[Term, int] = {}
    for node in subterms(term):
        for a in node.args:
            uses[a] = uses.get(a, 0) + 1
    taken = {t.value for t in subterms(term) if t.op == "var"}
    names: dict[Term, str] = {}
    bound: list[tuple[str, str]] = []
    for node in subterms(term):
        if uses.get(node, 0) > 1 and node.args and node.op not in ("compare", "neg") and not node.op.startswith("logical"):
            if _below_branch(term, node):
                continue
            name = next(n for n in (f"t{i}" for i in range(len(bound), 10**6)) if n not in taken)
            bound.append((name, _written(node, names)))
            taken.add(name)
            names[node] = name
    body = _written(term, names)
    if not bound:
        return body
    space = " " * indent
    lines = "\n".join(f"{space}      [{name} {text}]" if i else f"[{name} {text}]" for i, (name, text) in enumerate(bound))
    return f"(let* ({lines})\n{space} {body})"


def _below_branch(term: Term, node: Term) -> bool:
    """Whether all uses of the node lie in branches: named in front, it would be computed even where it is not used."""
    if term.op != "where":
        return False
    return not any(node in set(subterms(t)) for t in (term.args[0],))


def _written(term: Term, names: dict[Term, str]) -> str:
    if term in names:
        return names[term]
    if term.op == "var":
        return str(term.value)
    if term.op == "const":
        return literal(term.value)
    symbol = _PREDICATES[term.value] if term.op == "compare" else _LOGIC.get(term.op) or _SYMBOLS[term.op]
    return f"({symbol} {' '.join(_written(a, names) for a in term.args)})"


def literal(value: Fraction) -> str:
    """A number as FPCore reads it: the same rational, or the double next to it where the quotient is long."""
    if value.denominator == 1 and abs(value) < 10**15:
        return str(value.numerator)
    near = float(value)
    if Fraction(near) == value:
        return repr(near)
    if abs(value.numerator) < 2**53 and value.denominator < 2**53:
        return f"{value.numerator}/{value.denominator}"
    return repr(near)


def form_text(form: Form) -> str:
    """A property's value as text."""
    if isinstance(form, str):
        return form
    return "(" + " ".join(map(form_text, form)) + ")"


def program_text(program: Program, body: str) -> str:
    """The FPCore with this body; its properties stay, except `:spec`-like ones that say nothing of the body are kept as they are."""
    arguments = " ".join(program.arguments)
    lines = [f"(FPCore ({arguments})"]
    for key, value in program.properties.items():
        lines.append(f" {key} {form_text(value)}")
    return "\n".join([*lines, f" {body})"]) + "\n"
