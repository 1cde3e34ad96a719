"""Theorems for the normal form of a function, by the form of its operand."""

from __future__ import annotations

from collections.abc import Iterator

from hnfc.dsl.soundness.axioms import THEOREMS
from hnfc.dsl.soundness.claims import ClaimNode
from hnfc.dsl.soundness.monomial import BINDERS
from hnfc.dsl.soundness.term import Index, Mono, Rational


def theorems_of(node: ClaimNode) -> tuple[str, ...]:
    """Names from `axioms.THEOREMS`; none where the normal form is the function of its operands' normal forms, by definition."""
    if by_definition(node):
        return ()
    found = tuple(dict.fromkeys(_named(node)))
    return found or tuple(theorem.name for theorem in THEOREMS if theorem.relation == "=" and node.op.startswith(theorem.functions))


KINDS = {"largest": ("max",), "least": ("min",), "sqrt": ("root",), "pow": ("root", "pow")}


def by_definition(node: ClaimNode) -> bool:
    """Return whether the normal form is one atom: the same function, of the operands' normal forms."""
    lone = node.value.single()
    if lone is None or lone[1] != 1 or len(lone[0]) != 1:
        return False
    base, exponent = lone[0][0]
    if base.kind not in KINDS.get(node.op, (node.op,)):
        return False
    if base.kind in BINDERS:
        (bound, body), operand = base.args, node.operands[0].value
        return exponent == 1 and len(bound) == len(node.detail) and (len(body.num), body.level) == (len(operand.num), operand.level)
    if base.kind == "root":
        return bool(base.args[0] == node.operands[0].value)
    return exponent == 1 and base.args == tuple(operand.value for operand in node.operands)


def _named(node: ClaimNode) -> Iterator[str]:
    x = node.operands[0].value
    kinds = {base.kind for base in x.atoms}
    match node.op:
        case "exp":
            if len(x.num) > 1:
                yield "exp-of-sum"
            if any(_is_log(mono) for mono in x.num):
                yield "exp-of-log"
            if any(c != 1 and not _is_log(mono) for mono, c in x.num.items()):
                yield "exp-of-multiple"
        case "log":
            if len(x.atoms) != 1:
                yield "log-of-product"
            if "exp" in kinds:
                yield "log-of-exp"
            if "prod" in kinds:
                yield "log-of-prod"
            if any(e != 1 for terms in (x.num, x.den) for mono in terms for _, e in mono):
                yield "log-of-power"
            if not x.polynomial:
                yield "log-of-inverse"
        case "pow" if node.operands[1].value.constant() is None:
            yield "power-as-exp"
            yield "power-of-negative"
            yield "power-of-zero"
        case "sqrt" | "pow":
            if kinds & {"root", "exp"}:
                yield "power-of-power"
            if any(base.kind == "abs" for base in node.value.atoms - x.atoms):
                yield "root-of-square"
            yield "root-of-product" if node.op == "sqrt" else "power-of-product"
        case "sin" | "cos":
            if len(x.num) > 1:
                yield f"{node.op}-of-sum"
            if x.zero:
                yield f"{node.op}-at-zero"
            elif x.leading() < 0:
                yield "sin-odd" if node.op == "sin" else "cos-even"
        case "sum":
            yield from _of_sum(x, set(node.detail))
        case "prod":
            yield "product-of-positives" if any(base.kind == "exp" for base in node.value.atoms - x.atoms) else "product-of-product"
        case "largest" | "least":
            yield from _of_extreme(x, "max" if node.op == "largest" else "min", set(node.detail))


def _is_log(mono: Mono) -> bool:
    return len(mono) == 1 and mono[0][0].kind == "log" and mono[0][1] == 1


def _of_sum(x: Rational, bound: set[Index]) -> Iterator[str]:
    if len(x.num) > 1:
        yield "sum-of-sum"
    for mono, c in x.num.items():
        parts = [set(base.ixs & bound) for base, _ in mono]
        if c != 1 or set() in parts or not x.polynomial:
            yield "sum-of-multiple"
        if bound - set().union(*parts) - x.ixs:
            yield "sum-of-constant"
        if any(base.kind == "sum" and part for (base, _), part in zip(mono, parts, strict=True)):
            yield "sum-times-sum"
        if any(part and other and not part & other for part in parts for other in parts):
            yield "product-of-sums"


def _of_extreme(x: Rational, which: str, bound: set[Index]) -> Iterator[str]:
    if len(x.num) > 1 and any(not base.ixs & bound for mono in x.num for base, _ in mono):
        yield f"{which}-of-shift"
    lone = x.single()
    if lone is None:
        yield f"{which}-of-multiple"
        return
    if any(c < 0 for c in x.num.values()):
        yield "max-of-negative"
    if lone[1] != 1 or any(not base.ixs & bound for base, _ in lone[0]):
        yield f"{which}-of-multiple"
    for kind, name in (("exp", "max-of-exp"), ("log", "max-of-log"), ("root", "max-of-root"), ("max", "max-of-max"), ("min", "max-of-max")):
        if any(base.kind == kind for base, _ in lone[0]):
            yield name
