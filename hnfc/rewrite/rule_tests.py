"""Runs the `test` declarations of rule files: builds the pattern as a graph, rewrites it with that rule alone, computes the result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from hnfc.analysis.ranges import Ranges, interval_of_array
from hnfc.core.interpreter import Array, evaluate
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dialects.types import ELEMENT_TYPES, FORMATS, tensor
from hnfc.dsl import core, syntax
from hnfc.dsl.diagnostics import Diagnostic
from hnfc.dsl.elaborate import elaborate_expression
from hnfc.dsl.rulebook import Rulebook
from hnfc.rewrite.bindings import AXIS, Binding, Integers
from hnfc.rewrite.builder import DoesNotFit, ReplacementBuilder
from hnfc.rewrite.conditions import ConditionChecker, Observations
from hnfc.rewrite.greedy import Greedy
from hnfc.rewrite.matcher import CompiledRule, Match, Matcher
from hnfc.rewrite.pattern import compile_pattern
from hnfc.rewrite.record import RewriteOutcome

ULPS = 16
"""A result may be off by this many units roundoff of its format."""


@dataclass(frozen=True)
class TestResult:
    rule: str
    passed: bool
    diagnostic: Diagnostic | None = None


def run_tests(book: Rulebook) -> Iterator[TestResult]:
    """One result for each case of each `test` declaration."""
    for path, file in book.files.items():
        for declaration in file.declarations:
            if isinstance(declaration, syntax.Test):
                rule = book.named(declaration.rule)
                assert rule is not None
                for case in declaration.cases:
                    message, help_ = _gives(rule, case) if isinstance(case, syntax.Gives) else _unchanged(rule, case, file)
                    if not message:
                        yield TestResult(rule.name, True)
                        continue
                    yield TestResult(
                        rule.name, False, Diagnostic("HNF0401", f"test of `{rule.name}`: {message}", path, case.span, help=help_)
                    )


def _gives(rule: core.Rule, case: syntax.Gives) -> tuple[str, str]:
    """Fault of the case, and the way out; two empty texts if it holds."""
    captures = core.captures(rule.pattern)
    captures |= {name: found for name, found in core.captures(rule.replacement).items() if name in rule.parameters}
    axes = {axis for node in core.walk(rule.pattern) for axis in _axes_of(node) if isinstance(axis, str)}
    block = Block()
    bindings: dict[str, Binding] = {AXIS + axis: frozenset({-1}) for axis in axes}
    inputs: dict[SSAValue, Array] = {}
    for assignment in case.assignments:
        name = assignment.name
        if name in axes:
            bindings[AXIS + name] = frozenset(int(a) for a in np.atleast_1d(np.asarray(assignment.value)))
            continue
        if name not in captures:
            where = "rule" if rule.parameters else "pattern"
            return f"the {where} has no `{name}`", f"it has {', '.join(f'`{n}`' for n in [*captures, *sorted(axes)])}"
        if captures[name].const:
            value = np.asarray(assignment.value)
            bindings[name] = Integers(tuple(int(i) for i in value)) if value.ndim == 1 else Fraction(float(value))
            continue
        dtype = assignment.dtype or (captures[name].dtypes or ("f32",))[0]
        if dtype not in ELEMENT_TYPES:
            return f"there is no element type `{dtype}`", f"one of {', '.join(ELEMENT_TYPES)}"
        try:
            array = np.asarray(assignment.value, np.float64).astype(NUMPY_TYPES[dtype])
        except ValueError:
            return f"the rows of `{name}` have different lengths", ""
        argument = block.insert_arg(tensor(dtype, array.shape), len(block.args))
        bindings[name], inputs[argument] = argument, array
    missing = sorted(set(captures) - set(bindings))
    if missing:
        return f"`{missing[0]}` has no value", f"give it one: `{missing[0]} = …`"
    element = next((a.type.element_type for a in inputs if a.type.element_type in _FLOATS), ELEMENT_TYPES["f32"])  # type: ignore[attr-defined]
    builder = ReplacementBuilder(bindings, element)
    try:
        result = builder.value(rule.pattern)
    except DoesNotFit as error:
        return f"the pattern cannot be built from these values: {error}", "mend their shapes or element types"
    if rule.parameters:
        return _with_values(rule, case, builder, block, inputs)
    block.add_ops(builder.operations)
    block.add_op(ReturnOp(result))
    outcome = _rewrite(rule, block, inputs)
    if not outcome.rewrites:
        reason = next((miss.reason for miss in outcome.near_misses), "the pattern was not found")
        return f"the rule did not fire: {reason}", ""
    final = outcome.final(result)
    return _compare(evaluate(block, inputs).get(final), case.expected, final)


def _with_values(
    rule: core.Rule, case: syntax.Gives, builder: ReplacementBuilder, block: Block, inputs: dict[SSAValue, Array]
) -> tuple[str, str]:
    """Fault of a rule with parameters, whose right side is computed with the values of the case."""
    left = builder.value(rule.pattern)
    try:
        right = builder.value(rule.replacement)
    except DoesNotFit as error:
        return f"the right side cannot be built from these values: {error}", "mend the shapes of the parameters"
    compiled = CompiledRule(rule, compile_pattern(rule.pattern, rule.structural), rule.replacement)
    assert isinstance(left.owner, Operation)
    checker = ConditionChecker(
        Match(compiled, left.owner, builder.bindings),
        Ranges({value: interval_of_array(array) for value, array in inputs.items()}),
        Observations([evaluate(block, inputs)]),
    )
    for part in core.conjuncts(rule.where):
        if isinstance(part, core.Property) and part.name == core.ORTHOGONAL:
            (matrix,) = part.operands
            assert isinstance(matrix, core.Capture)
            if not _is_orthogonal(inputs[builder.bindings[matrix.name]]):  # type: ignore[index]
                return f"`{matrix.name}` is not orthogonal", "its rows have length 1 and meet at right angles"
            continue
        judged = checker.judge(part)
        if not judged.holds:
            return f"the values do not meet a condition: {judged.why_not()}", "choose others"
    checker.close()
    block.add_ops(builder.operations)
    block.add_op(ReturnOp(left, right))
    values = evaluate(block, inputs)
    for side in (left, right):
        fault = _compare(values.get(side), case.expected, side)
        if fault[0]:
            return fault
    return "", ""


def _is_orthogonal(matrix: Array) -> bool:
    h = np.asarray(matrix, np.float64)
    if h.ndim < 2 or h.shape[-1] != h.shape[-2]:
        return False
    return bool(np.allclose(h @ np.swapaxes(h, -1, -2), np.eye(h.shape[-1]), rtol=0, atol=1e-5))


_FLOATS = {ELEMENT_TYPES[name] for name in FORMATS}


def _compare(found: Array | None, expected: syntax.Value, value: SSAValue) -> tuple[str, str]:
    if found is None:
        return "the result cannot be computed", ""
    wanted = np.asarray(expected, np.float64)
    got = found.astype(np.float64)
    if got.shape != wanted.shape:
        return f"the result has shape {list(got.shape)}, but {list(wanted.shape)} is expected", ""
    name = next((n for n, t in ELEMENT_TYPES.items() if t == value.type.element_type), "f32")  # type: ignore[attr-defined]
    form = FORMATS.get(name)
    u, tiny = (form.unit_roundoff, form.tiny) if form else (0.0, 0.0)
    with np.errstate(all="ignore"):
        close = (got == wanted) | (np.abs(got - wanted) <= ULPS * (u * np.abs(wanted) + tiny)) | (np.isnan(got) & np.isnan(wanted))
    if close.all():
        return "", ""
    return f"the result is {got.tolist()}, but {wanted.tolist()} is expected", ""


def _unchanged(rule: core.Rule, case: syntax.Unchanged, file: syntax.File) -> tuple[str, str]:
    if rule.parameters:
        return "a rule with parameters runs nowhere by itself, so `unchanged` says nothing", "write `gives`, with values for the parameters"
    expression = elaborate_expression(case.expression, file)
    for shape in ((2, 3), (2, 2)):
        block = Block()
        bindings: dict[str, Binding] = {}
        for name, capture in core.captures(expression).items():
            bindings[name] = block.insert_arg(tensor((capture.dtypes or ("f32",))[0], shape), len(block.args))
        builder = ReplacementBuilder(bindings, ELEMENT_TYPES["f32"])
        try:
            result = builder.value(expression)
        except DoesNotFit as error:
            if shape == (2, 3):
                continue
            return f"the expression cannot be built: {error}", ""
        block.add_ops(builder.operations)
        block.add_op(ReturnOp(result))
        if _rewrite(rule, block, {}).rewrites:
            return "the rule fired where it should not", ""
        return "", ""
    return "", ""


def _rewrite(rule: core.Rule, block: Block, inputs: dict[SSAValue, Array]) -> RewriteOutcome:
    ranges = Ranges({value: interval_of_array(array) for value, array in inputs.items()})
    samples = [evaluate(block, inputs)] if inputs else []
    left_to_right = CompiledRule(rule, compile_pattern(rule.pattern, rule.structural), rule.replacement)
    return Greedy(Matcher([left_to_right]), ranges, Observations(samples)).run(block)


def _axes_of(node: core.Expr) -> Any:
    if isinstance(node, core.Size):
        return node.axes
    attributes = dict(node.attributes) if isinstance(node, core.Apply) else {}
    return attributes.get("axes") or ((attributes["axis"],) if "axis" in attributes else ())
