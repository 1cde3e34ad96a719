"""Edits that are offered for a rule: the proposed condition, and a test."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from hnfc.core.verdicts import proposed
from hnfc.dsl import core, syntax
from hnfc.dsl.diagnostics import HnfError
from hnfc.dsl.rulebook import load_text
from hnfc.dsl.soundness import Verdict
from hnfc.dsl.soundness.balls import evaluate
from hnfc.language_server.buffers import RuleBuffer
from hnfc.rewrite.rule_tests import run_tests

_TRIED = ((0.5, 2.0, -1.5), (1.0, 2.0, 3.0), (0.25, 0.5, 0.75), (-2.0, -1.0, -0.5))
"""Values of elements in a test that is written."""


@dataclass(frozen=True)
class RuleEdit:
    """A text for a line of a buffer, before which it goes; or, with `end`, in the place of the text up to there."""

    title: str
    line: int
    text: str
    column: int = 0
    end: tuple[int, int] | None = None


def proposed_condition(buffer: RuleBuffer, rule: core.Rule, verdict: Verdict) -> RuleEdit | None:
    """The condition under which the rule is proved, as its `where`."""
    condition = proposed(verdict)
    declared = _declared(buffer, rule)
    if not condition or declared is None:
        return None
    title = f"Take `where {condition}`, under which it is proved"
    if declared.where is not None:
        span = declared.where.span
        return RuleEdit(title, span.line - 1, condition, span.column - 1, (span.end_line - 1, span.end_column - 1))
    last = declared.replacement.span
    return RuleEdit(title, last.end_line, f"    where {condition}\n")


def written_test(buffer: RuleBuffer, rule: core.Rule) -> RuleEdit | None:
    """A test of a proved rule with small inputs, offered where it passes: its result is computed over the reals."""
    declared = _declared(buffer, rule)
    if declared is None or any(d.keyword == "test" and d.name == rule.name for d in buffer.declarations):
        return None
    names = list(core.captures(rule.pattern))
    axes = sorted({axis for node in core.walk(rule.pattern) for axis in _axes(node)})
    for shape in ((3,), (), (2, 2)):
        for values in _TRIED:
            arrays = {name: np.resize(np.roll(values, i), shape) for i, name in enumerate(names)}
            text = _test(rule, arrays, axes, shape)
            if text is not None and _passes(buffer, text, rule.name):
                last = max(w.line for d in buffer.declarations if d.keyword == "rule" and d.name == rule.name for w in d.words)
                return RuleEdit(f"Write a test of `{rule.name}`", last + 1, f"\n{text}")
    return None


def _declared(buffer: RuleBuffer, rule: core.Rule) -> syntax.RuleDeclaration | None:
    declarations = buffer.file.declarations if buffer.file is not None else ()
    return next((d for d in declarations if isinstance(d, syntax.RuleDeclaration) and d.name == rule.name), None)


def _axes(node: core.Expr) -> list[str]:
    attributes = dict(node.attributes) if isinstance(node, core.Apply) else {"axes": getattr(node, "axes", ())}
    found = [*attributes.get("axes", ()), attributes.get("axis")]
    return [axis for axis in found if isinstance(axis, str)]


def _test(rule: core.Rule, arrays: dict[str, Any], axes: list[str], shape: tuple[int, ...]) -> str | None:
    if axes and not shape:
        return None
    exact = {name: np.array([Fraction(float(x)) for x in a.reshape(-1)], dtype=object).reshape(a.shape) for name, a in arrays.items()}
    try:
        found = evaluate(rule.replacement, exact, dict.fromkeys(axes, (-1,))).to_float()
    except Exception:
        return None
    if not np.isfinite(found).all():
        return None
    given = [f"{name} = {a.tolist()}" for name, a in arrays.items()] + [f"{axis} = [-1]" for axis in axes]
    return f"test {rule.name}\n    {', '.join(given)} gives {found.tolist()}\n"


def _passes(buffer: RuleBuffer, test: str, name: str) -> bool:
    imports = any(isinstance(d, syntax.Import) for d in buffer.file.declarations) if buffer.file is not None else True
    try:
        book = load_text(f"{buffer.text}\n{test}", str(buffer.path))
        results = [] if imports else [result for result in run_tests(book) if result.rule == name]
    except HnfError:
        return False
    return bool(results) and all(result.passed for result in results)
