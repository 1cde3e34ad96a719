"""Wrong variants of right rules: one node of one side changed, or one condition dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

from hnfc.dialects.num import OPERATIONS
from hnfc.dsl.core import AllOf, Apply, Capture, Comparison, Expr, Literal, Rule, Size, captures, condition_expressions

NEIGHBOURS = {
    "add": ("sub",),
    "sub": ("add",),
    "mul": ("div", "add"),
    "div": ("mul",),
    "exp": ("expm1",),
    "expm1": ("exp",),
    "log": ("log1p",),
    "log1p": ("log",),
    "maximum": ("minimum",),
    "minimum": ("maximum",),
    "max": ("min", "sum"),
    "min": ("max",),
    "sum": ("mean", "max"),
    "mean": ("sum",),
    "sigmoid": ("tanh",),
    "tanh": ("sigmoid",),
    "sqrt": ("rsqrt", "square"),
    "rsqrt": ("sqrt",),
    "abs": ("relu",),
    "sin": ("cos",),
    "cos": ("sin",),
    "softmax": ("log_softmax",),
    "square": ("sqrt",),
    "prod": ("sum",),
    "sign": ("relu",),
}


def mutants(rule: Rule) -> Iterator[tuple[str, Rule]]:
    """The mutants with what was changed, but for those that speak of a tensor that their left side does not bind: no file may hold them."""
    names = captures(rule.pattern)
    for side in ("replacement", "pattern"):
        original: Expr = getattr(rule, side)
        for what, changed in _changed(original, names):
            mutant = replace(rule, **{side: changed, "name": f"{rule.name}/{what}"})
            if changed != original and _spoken_of(mutant) <= captures(mutant.pattern).keys():
                yield f"{side}: {what}", mutant
    if isinstance(rule.where, AllOf):
        parts: tuple = rule.where.parts
    else:
        parts = (rule.where,)
    for i, part in enumerate(parts):
        yield f"without {part}", replace(rule, where=AllOf(parts[:i] + parts[i + 1 :]), name=f"{rule.name}/where {i}")
        if isinstance(part, Comparison):
            weaker = {"gt": "ge", "lt": "le", "ge": "ne", "le": "ne"}.get(part.predicate)
            if weaker is not None:
                weakened = Comparison(weaker, part.x, part.y)
                yield f"weakened {part}", replace(rule, where=AllOf((*parts[:i], weakened, *parts[i + 1 :])), name=f"{rule.name}/weak {i}")
            flipped = Comparison({"gt": "lt", "ge": "le", "lt": "gt", "le": "ge", "eq": "ne", "ne": "eq"}[part.predicate], part.x, part.y)
            yield f"flipped {part}", replace(rule, where=AllOf((*parts[:i], flipped, *parts[i + 1 :])), name=f"{rule.name}/flip {i}")


def _spoken_of(rule: Rule) -> set[str]:
    return {name for root in (rule.replacement, *condition_expressions(rule.where)) for name in captures(root)}


def _changed(node: Expr, names: dict[str, Capture]) -> Iterator[tuple[str, Expr]]:
    match node:
        case Literal(Fraction() as value):
            yield f"{value} + 1", Literal(value + 1)
            if value:
                yield f"-({value})", Literal(-value)
                yield f"2·{value}", Literal(2 * value)
        case Capture(name):
            for other in names.values():
                if other.name != name:
                    yield f"{other.name} for {name}", other
        case Size(operand, axes):
            for what, new in _changed(operand, names):
                yield what, Size(new, axes)
        case Apply():
            yield from _changed_application(node)
            for i, operand in enumerate(node.operands):
                for what, new in _changed(operand, names):
                    yield what, replace(node, operands=(*node.operands[:i], new, *node.operands[i + 1 :]))


def _changed_application(node: Apply) -> Iterator[tuple[str, Expr]]:
    if node.name in ("exp", "mul", "div", "sum", "max", "log", "matmul", "add", "sub"):
        yield f"-{node.name}", Apply(OPERATIONS["neg"], (node,))
    for key, value in node.attributes:
        if isinstance(value, Literal) and isinstance(value.value, Fraction):
            changed = Literal(value.value + 1)
            yield f"{key} + 1", replace(node, attributes=tuple((k, changed if k == key else v) for k, v in node.attributes))
        if isinstance(value, Apply | Size | Capture) and key in ("start", "stop", "low", "high", "size"):
            more = Apply(OPERATIONS["add"], (value, Literal(Fraction(1))))
            yield f"{key} + 1", replace(node, attributes=tuple((k, more if k == key else v) for k, v in node.attributes))
        if key == "perm" and isinstance(value, Apply):
            turned = replace(value, operands=value.operands[::-1])
            yield "order swapped", replace(node, attributes=tuple((k, turned if k == key else v) for k, v in node.attributes))
    if node.name in ("sub", "div", "matmul", "pow", "xlogy", "concat"):
        yield f"{node.name} swapped", replace(node, operands=node.operands[::-1])
    if node.name == "where":
        yield "branches swapped", replace(node, operands=(node.operands[0], node.operands[2], node.operands[1]))
    if node.name in ("neg", "abs", "transpose", "relu", "sqrt", "reverse", "cast"):
        yield f"{node.name} dropped", node.operands[0]
    if node.name == "compare":
        attributes = tuple(
            (k, {"gt": "lt", "lt": "gt", "eq": "ne", "ne": "eq", "ge": "le", "le": "ge"}[v] if k == "predicate" else v)
            for k, v in node.attributes
        )
        yield "comparison flipped", replace(node, attributes=attributes)
    for other in NEIGHBOURS.get(node.name, ()):
        if other in OPERATIONS:
            yield f"{other} for {node.name}", replace(node, operation=OPERATIONS[other])
    for key, value in node.attributes:
        if key == "axes":
            for new in _other_axes(value):
                yield f"axes {new}", replace(node, attributes=tuple((k, new if k == "axes" else v) for k, v in node.attributes))


def _other_axes(axes: tuple) -> Iterator[tuple]:
    if len(axes) > 1:
        yield axes[:1]
        yield axes[1:]
    if -1 in axes:
        yield (-2,)


Mutate = Callable[[Rule], Iterator[tuple[str, Rule]]]
