"""Found rules as a file of the rule language, with a test for each."""

from __future__ import annotations

import numpy as np

from hnfc.discovery.accuracy import LostShares
from hnfc.discovery.enumeration import FREE, evaluated
from hnfc.discovery.selection import Discovery, FoundRule
from hnfc.dsl import core
from hnfc.dsl.core import Rule
from hnfc.dsl.description import describe
from hnfc.dsl.parser import parse
from hnfc.dsl.printer import print_file
from hnfc.dsl.rulebook import load_text
from hnfc.rewrite.rule_tests import run_tests

_VALUES = {
    "x": [[0.5, 1.25], [2.0, 0.75]],
    "y": [[1.5, 0.25], [0.875, 3.0]],
    "z": [[0.625, 2.5], [1.75, 0.375]],
    "u": [[3.5, 0.125], [0.5, 1.0]],
    "v": [[0.75, 1.5], [2.25, 0.25]],
    "w": [[1.125, 2.0], [0.375, 1.75]],
    FREE: [[1.5], [0.75]],
}


def rule_file(found: Discovery, name: str, how: str) -> str:
    """The text of the file. how: the command that made it."""
    tested = _text(found, name, how, {each.rule.name for each in found.rules})
    # a test of what the matcher brings to another form first would fail
    passing = {result.rule for result in run_tests(load_text(tested, name)) if result.passed}
    return _text(found, name, how, passing)


def _text(found: Discovery, name: str, how: str, tested: set[str]) -> str:
    lines = [f'library {name} "Rules that `{how}` found: proved, and none follows from the others"', ""]
    for each in found.rules:
        lines += [*_written(each), *(_test(each.rule) if each.rule.name in tested else ())]
    return print_file(parse("\n".join(lines), name))


def _written(found: FoundRule) -> list[str]:
    rule = found.rule
    arrow = "<=>" if rule.both_ways else "=>"
    lines = [f'rule {rule.name} "{reason(found.accuracy)}"', f"    {describe(rule.pattern)} {arrow} {describe(rule.replacement)}"]
    if where := describe(rule.where):
        lines.append(f"    where {where}")
    return [*lines, ""]


def reason(accuracy: LostShares) -> str:
    """Words on the direction of the rule."""
    if accuracy.better == "right":
        return f"in float32 the left side loses 8 bits at {accuracy.left:.0%} of the points, the right one at {accuracy.right:.0%}"
    if accuracy.better == "left":
        return f"shorter; in float32 it loses 8 bits at {accuracy.right:.0%} of the points, the left side at {accuracy.left:.0%}"
    return "both sides lose digits alike"


def _test(rule: Rule) -> list[str]:
    inputs = {name: np.array(_VALUES[name]) for name in core.captures(rule.pattern)}
    value = evaluated(rule.replacement, {name: array[None] for name, array in inputs.items()}, "f64")
    if value is None:
        return []
    given = ", ".join(f"{name} : f64 = {array.tolist()}" for name, array in inputs.items())
    left = evaluated(rule.pattern, {name: array[None] for name, array in inputs.items()}, "f64")
    shape = value.shape[1:] if left is None else left.shape[1:]
    return [f"test {rule.name}", f"    {given} gives {np.broadcast_to(value[0], shape).tolist()}", ""]
