"""Consequences of known rules: equality saturation by egglog.

A rule with a condition fires where the condition is known: of captures by the candidate's own condition, of other terms by the
signs that their operations have at the points. This decides which rules are listed, never which are true.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
from egglog.bindings import EggSmolError, EGraph

from hnfc.dialects.num import COMMUTATIVE
from hnfc.dialects.num.arithmetic import AddOp, MulOp
from hnfc.discovery.enumeration import POSITIVE, SIGNED, Array, evaluated, point
from hnfc.discovery.operations import AXIS, Operation
from hnfc.dsl import core
from hnfc.dsl.core import AllOf, Apply, Capture, Comparison, Expr, Free, Literal, Rule

_ROUNDS, _MATCHES = 6, 300
_SIGNS = {"gt": "Positive", "ge": "Positive", "ne": "Positive"}
"""Relations on a capture in place of its comparison with 0."""


class NotSayable(Exception):
    """The rule has an operation, an axis or a condition that the e-graph does not hold."""


class Derivation:
    """Rules over chosen operations, as rewrites of egglog."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = list(operations)
        self._by_key = {_key(op.simple): place for place, op in enumerate(self.operations) if op.simple is not None}
        self._rewrites: list[str] = []

    def add(self, rule: Rule) -> None:
        """Add a rule to the known ones, if the e-graph can hold it."""
        if self.says(rule):
            self._rewrites += self._rewritten(rule)

    def says(self, rule: Rule) -> bool:
        """Return whether the e-graph can hold the rule."""
        try:
            self._rewritten(rule)
        except NotSayable:
            return False
        return True

    def follow(self, rules: Sequence[Rule]) -> list[bool]:
        """Return whether each rule follows from the known ones. One e-graph holds them all, so they should be few."""
        graph = EGraph()
        _run(graph, "\n".join([*self._header, *self._rewrites]))
        pairs: list[tuple[str, str] | None] = []
        for number, rule in enumerate(rules):
            try:
                facts = self._facts(rule.where, number)
                sides = [self._term(side, f"{number}.") for side in (rule.pattern, rule.replacement)]
            except NotSayable:
                pairs.append(None)
                continue
            names = (f"$left{number}", f"$right{number}")
            pairs.append(names)
            _run(graph, "\n".join([*facts, *(f"(let {name} {side})" for name, side in zip(names, sides, strict=True))]))
        _run(graph, f"(run-schedule (let-scheduler $few (back-off :match-limit {_MATCHES})) (repeat {_ROUNDS} (run-with $few)))")
        return [pair is not None and _holds(graph, f"(check (= {pair[0]} {pair[1]}))") for pair in pairs]

    @cached_property
    def _header(self) -> list[str]:
        lines = ["(datatype Term (Name String) (Number String)"]
        lines += [f"  (Op{place} {' '.join(['Term'] * len(op.operands))})" for place, op in enumerate(self.operations)]
        lines += [")", "(relation Positive (Term))", "(relation Free (Term))"]
        lines.append("(rule ((= e (Number n))) ((Free e)))")
        for place, op in enumerate(self.operations):
            lines += self._of_operation(op, f"Op{place}")
        return lines

    def _of_operation(self, operation: Operation, head: str) -> Iterator[str]:
        names = operation.operands
        node = f"({head} {' '.join(names)})"
        signed, positive = (_at(operation, kind) for kind in (SIGNED, POSITIVE))
        if _all_positive(signed):
            yield f"(rule ((= e {node})) ((Positive e)))"
        elif _all_positive(positive):
            yield f"(rule ((= e {node}) {' '.join(f'(Positive {name})' for name in names)}) ((Positive e)))"
        if positive is not None and positive.ndim > 1 and positive.shape[-1] == 1:
            yield f"(rule ((= e {node})) ((Free e)))"
        else:
            yield f"(rule ((= e {node}) {' '.join(f'(Free {name})' for name in names)}) ((Free e)))"
        if operation.simple is not None and operation.simple.operation in COMMUTATIVE and len(names) == 2:
            yield f"(rewrite ({head} a b) ({head} b a))"
        if operation.simple is not None and operation.simple.operation in (AddOp, MulOp):
            yield f"(rewrite ({head} a ({head} b c)) ({head} ({head} a b) c))"

    def _rewritten(self, rule: Rule) -> list[str]:
        left, right = self._term(rule.pattern, None), self._term(rule.replacement, None)
        facts = self._premises(rule.where)
        made = [f"(rule ((= e {left}) {facts}) ((union e {right})))"]
        if isinstance(rule.pattern, Capture | Literal) or set(core.captures(rule.replacement)) < set(core.captures(rule.pattern)):
            return made
        if isinstance(rule.replacement, Apply):
            made.append(f"(rule ((= e {right}) {facts}) ((union e {left})))")
        return made

    def _term(self, node: Expr, prefix: str | None) -> str:
        """The node as a term; prefix: of the names of its captures, which are variables without one."""
        match node:
            case Capture(name):
                return _variable(name) if prefix is None else f'(Name "{prefix}{name}")'
            case Literal(value):
                return f'(Number "{value}")'
            case Apply():
                place = self._by_key.get(_key(node))
                if place is not None:
                    return f"(Op{place} {' '.join(self._term(part, prefix) for part in node.operands)})"
        raise NotSayable

    def _premises(self, where: core.Condition) -> str:
        return " ".join(f"({relation} {_variable(name)})" for relation, name in _parts(where))

    def _facts(self, where: core.Condition, number: int) -> list[str]:
        return [f'({relation} (Name "{number}.{name}"))' for relation, name in _parts(where)]


def _key(node: Apply) -> tuple[object, ...]:
    attributes = [(name, AXIS if name == "axes" and value and isinstance(value[0], str) else value) for name, value in node.attributes]
    return node.operation, len(node.operands), tuple(attributes)


def _variable(name: str) -> str:
    return f"v_{name}"


def _parts(where: core.Condition) -> Iterable[tuple[str, str]]:
    """Relations on captures that stand for a condition. Raises NotSayable."""
    match where:
        case AllOf(parts):
            return [pair for part in parts for pair in _parts(part)]
        case Comparison(predicate, Capture(name), Literal(value)) if value == 0 and predicate in _SIGNS:
            return [(_SIGNS[predicate], name)]
        case Free(Capture(name), _):
            return [("Free", name)]
    raise NotSayable


def _at(operation: Operation, kind: int) -> Array | None:
    return evaluated(operation.expression, {name: point(name, kind) for name in operation.operands}, "f64")


def _all_positive(values: Array | None) -> bool:
    return values is not None and bool((np.isfinite(values) & (values > 0)).all())


def _run(graph: EGraph, text: str) -> list[object]:
    return list(graph.run_program(*graph.parse_program(text)))


def _holds(graph: EGraph, check: str) -> bool:
    try:
        _run(graph, check)
    except EggSmolError:
        return False
    return True
