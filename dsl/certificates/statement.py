"""A rule as a theorem of Coq: both sides by the meanings of their operations, and what the verdict assumes, as hypotheses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hnfc.dialects.facts import NoFormula
from hnfc.dsl.certificates.terms import CoqTerm, NoMeaning, TermMath, axis_list, axis_name, one_of
from hnfc.dsl.core import (
    ALL,
    AllOf,
    AnyOf,
    Apply,
    Capture,
    Comparison,
    Condition,
    DTypeOf,
    Expr,
    Free,
    Literal,
    Not,
    Property,
    Rule,
    SameSize,
    Size,
    conjuncts,
    walk,
)
from hnfc.dsl.soundness.formats import explicit_roundings
from hnfc.dsl.soundness.integers import variants
from hnfc.dsl.soundness.judge import FITTING, NONEMPTY
from hnfc.dsl.soundness.scan import boolean_captures, orthogonal_captures, reshaping, rule_expressions, scalar_captures, used_axes
from hnfc.dsl.soundness.verdict import Verdict


@dataclass(frozen=True)
class Statement:
    """A theorem in parts: names with their types, hypotheses, and the two sides."""

    binders: tuple[str, ...]
    definitions: tuple[tuple[str, str], ...]
    hypotheses: tuple[str, ...]
    left: str
    right: str
    both_ways: bool
    fitting: bool

    def claim(self) -> str:
        """The conclusion: the sides agree, and the right one has a type wherever the left one has (or it is assumed that it has)."""
        ways = [("left", "right"), ("right", "left")][: 2 if self.both_ways else 1]
        joint = " -> " if self.fitting else " /\\ "
        claims = [f"typed {a} -> typed {b}{joint}refines {a} {b}" for a, b in ways]
        return claims[0] if len(claims) == 1 else " /\\\n  ".join(f"({claim})" for claim in claims)

    def theorem(self, name: str) -> str:
        """The text of the theorem, without its proof."""
        lines = [f"Theorem {name} : forall {' '.join(self.binders)},"] if self.binders else [f"Theorem {name} :"]
        lines += [f"  let {key} := {value} in" for key, value in self.definitions]
        lines += [f"  let left := {self.left} in", f"  let right := {self.right} in"]
        lines += [f"  {hypothesis} ->" for hypothesis in self.hypotheses]
        return "\n".join([*lines, f"  {self.claim()}."])


def statement(rule: Rule, verdict: Verdict) -> Statement:
    """The theorem that the verdict claims. Raises NoMeaning for a rule with a part that the theory does not know."""
    if rule.within is not None:
        raise NoMeaning("a bound on an error")
    if orthogonal_captures(rule):
        raise NoMeaning("orthogonal matrices")
    if len(variants(rule)) != 1:
        raise NoMeaning("several element types")
    return StatementReader(explicit_roundings(rule)).statement(verdict)


class StatementReader:
    def __init__(self, rule: Rule) -> None:
        self.rule, self.math = rule, TermMath()
        self.booleans, self.scalars = boolean_captures(rule), scalar_captures(rule)
        self.memo: dict[Expr, CoqTerm] = {}

    def statement(self, verdict: Verdict) -> Statement:
        left, right = self.term(self.rule.pattern), self.term(self.rule.replacement)
        left, right = CoqTerm(left.number), CoqTerm(right.number)
        hypotheses = [text for part in conjuncts(self.rule.where) if (text := self.condition(part)) is not None]
        names = {n.name: n for n in rule_expressions(self.rule) if isinstance(n, Capture)}
        binders, definitions = [], []
        axes = sorted({a for a in used_axes(self.rule) if isinstance(a, str) and a != ALL})
        single = moved_axes(self.rule)
        if several := [axis for axis in axes if axis not in single]:
            binders.append(f"({' '.join(map(axis_name, several))} : list nat)")
        for axis in sorted(single):
            binders.append(f"({one_of(axis)} : nat)")
            definitions.append((axis_name(axis), f"[{one_of(axis)}]"))
        if axes:
            hypotheses.insert(0, f"NoDup ({' ++ '.join(map(axis_name, axes))})")
        for name in names:
            if name in self.scalars:
                binders.append(f"({name}_number : R)")
                definitions.append((variable(name), f"number {name}_number"))
                continue
            kind, make = ("bool", "mask_capture") if name in self.booleans else ("R", "capture")
            binders.append(f"({name}_shape : sizes) ({name}_value : index -> {kind})")
            definitions.append((variable(name), f"{make} {name}_shape {name}_value"))
            if NONEMPTY in verdict.shape_conditions:
                hypotheses.append(f"nonempty {name}_shape")
        return Statement(
            tuple(binders),
            tuple(definitions),
            tuple(hypotheses),
            left.text,
            right.text,
            self.rule.both_ways,
            # bounds are part of a type, and no verdict leaves them to whoever applies the rule
            FITTING in verdict.shape_conditions and not any(map(bounded, results(self.rule))),
        )

    def term(self, node: Expr) -> CoqTerm:
        for part in walk(node):
            if part not in self.memo:
                self.memo[part] = self.built(part)
        return self.memo[node]

    def built(self, node: Expr) -> CoqTerm:
        match node:
            case Capture(name):
                return CoqTerm(variable(name), truth=name in self.booleans and name not in self.scalars)
            case Literal(value):
                return self.math.const(value)
            case Size(operand, axes):
                return self.math.size(self.term(operand), axes)
            case Apply(operation, operands):
                step = reshaping(node)
                if step is not None:
                    return getattr(self.math, step[0])(self.term(operands[0]), step[1])  # type: ignore[no-any-return]
                if operation.FACTS.real is None or any(key in ("shape", "perm") and isinstance(v, Expr) for key, v in node.attributes):
                    raise NoMeaning(node.name)
                attributes = {key: self.attribute(value) for key, value in node.attributes}
                try:
                    return operation.FACTS.real(self.math, *map(self.term, operands), **attributes)  # type: ignore[no-any-return]
                except NoFormula as error:
                    raise NoMeaning(f"{node.name}: {error}") from None
        raise TypeError(f"no expression: {node!r}")

    def attribute(self, value: Any) -> Any:
        if isinstance(value, Capture | Literal | Apply | Size):
            return self.term(value)
        return str(value) if isinstance(value, DTypeOf) else value

    def condition(self, condition: Condition) -> str | None:
        """A hypothesis; None for what says nothing of values and shapes: without it the theorem claims more."""
        match condition:
            case Free(Capture(name), axes) if name not in self.scalars:
                return f"free {axis_list(axes)} {name}_shape"
            case Free(operand, axes):
                return f"free {axis_list(axes)} {self.shape(operand)}"
            case SameSize(x, y, axes) if ALL not in axes:
                return f"same_size {axis_list(axes)} {self.shape(x)} {self.shape(y)}"
            case SameSize(x, y, _):
                return f"(forall a, {self.shape(x)} a = {self.shape(y)} a)"
            case Comparison(predicate, x, y):
                return f"always {self.math.compare(predicate, self.term(x), self.term(y)).text}"
            case Property("rank", (operand,), ("eq" | "le", rank)):
                return f"rank_at_most {int(rank)} {self.shape(operand)}"
            case AllOf(parts):
                found = [self.condition(part) for part in parts]
                known = [f"({text})" for text in found if text is not None]
                return " /\\ ".join(known) if known else None
            case AnyOf(parts):
                options = [self.condition(part) for part in parts]
                return "(" + " \\/ ".join(map(str, options)) + ")" if options and None not in options else None
            case Not() | Property():
                return None
        raise TypeError(f"no condition: {condition!r}")

    def shape(self, operand: Expr) -> str:
        term = self.term(operand)
        return f"({'mshape' if term.truth else 'shape'} {term.text})"


def bounded(node: Expr) -> bool:
    """Return whether the operation moves elements along one axis, within bounds."""
    return isinstance(node, Apply) and "axis" in dict(node.attributes)


def results(rule: Rule) -> list[Expr]:
    """Every node of the sides that a program may be rewritten to."""
    return [*walk(rule.replacement), *(walk(rule.pattern) if rule.both_ways else ())]


def moved_axes(rule: Rule) -> set[str]:
    """The axis variables that stand for one axis, along which elements move."""
    places = (dict(node.attributes)["axis"] for node in rule_expressions(rule) if isinstance(node, Apply) and bounded(node))
    return {axis for axis in places if isinstance(axis, str)}


def variable(name: str) -> str:
    return f"{name}_"
