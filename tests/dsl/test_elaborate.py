"""Tree → rule: names, axes and operations, and the diagnostics for each fault."""

from __future__ import annotations

from fractions import Fraction

import pytest

from hnfc.dsl import core
from hnfc.dsl.diagnostics import HnfError, render
from hnfc.dsl.elaborate import Elaborator
from hnfc.dsl.parser import parse


def rules(text: str) -> list[core.Rule]:
    return Elaborator(parse(text, "f.hnf")).rules()


def faults(text: str) -> str:
    with pytest.raises(HnfError) as caught:
        rules(text)
    return "\n".join(render(d, text) for d in caught.value.diagnostics)


def test_functions_are_operations_and_names_captures():
    (rule,) = rules("rule r log(1 + x) => log1p(x)")
    assert isinstance(rule.pattern, core.Apply) and rule.pattern.name == "log"
    assert rule.pattern.operands[0] == core.Apply(
        rule.pattern.operands[0].operation,
        (core.Literal(Fraction(1)), core.Capture("x")),  # type: ignore[union-attr]
    )
    assert rule.group == "user"


def test_definitions_are_inlined_with_their_axes():
    (rule,) = rules("def soft[j](z) = exp(z) / sum[j](exp(z))\nrule r soft[k](x) => softmax[k](x)")
    sums = [node for node in core.walk(rule.pattern) if isinstance(node, core.Apply) and node.name == "sum"]
    assert sums[0].attribute("axes") == ("k",)


def test_let_names_a_part_of_either_side():
    (rule,) = rules("rule r x / e => x let e = exp(abs(x))")
    assert isinstance(rule.pattern, core.Apply) and rule.pattern.operands[1].name == "exp"  # type: ignore[union-attr]


def test_max_of_two_is_elementwise():
    (rule,) = rules("rule r max(x, y) + max[k](x) => x + y")
    assert {n.name for n in core.walk(rule.pattern) if isinstance(n, core.Apply)} == {"add", "maximum", "max"}


def test_conditions():
    (rule,) = rules(
        "rule r sum[k](c * x) => c * sum[k](x) where free[k](c) and size[k](c) = size[k](x) and rank(x) = 2 and dtype(x) != f16 and 0 < x"
    )
    kinds = [type(part).__name__ for part in core.condition_parts(rule.where)]
    assert {"Free", "SameSize", "Property", "Not", "Comparison"} <= set(kinds)


def test_constants_are_folded_and_typed_captures_checked():
    (rule,) = rules("rule r exp(x : f16 | bf16) * (1 / 4) => cast(exp(cast(x, f32)), dtype(x)) / 4")
    assert core.captures(rule.pattern)["x"].dtypes == ("f16", "bf16")
    assert core.Literal(Fraction(1, 4)) in set(core.walk(rule.pattern))


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("rule r exp(x) => x\nrule r log(x) => x", "HNF0201", "there are two rules"),
        ("def f(x) = x\ndef f(x) = x", "HNF0202", "defined twice"),
        ("def f(x, y) = x", "HNF0203", "does not use its parameter `y`"),
        ("rule r exp(x) => a let a = x let a = x", "HNF0204", "named twice"),
        ("rule r x => exp(x)", "HNF0205", "matches every value"),
        ("rule r exp(x) => x let a = x", "HNF0206", "never used"),
        ("rule r exp(x) => exp(x)", "HNF0207", "by itself"),
        ("rule r exp(x) ~> x", "HNF0208", "within"),
        ("rule r exp(x) => x within 1e-3", "HNF0208", "only an approximation"),
        ("rule r exp(x) <=> exp(x + 0 * y)", "HNF0209", "`y` occurs on the right only"),
        ("rule r exp(x) => x\ntest q x = [1] gives [1]", "HNF0210", "no rule `q`"),
        ("rule r exp(f32) => 1", "HNF0213", "element type"),
        ("rule r exp(x) => y", "HNF0214", "`y` is not bound by the left side"),
        ("rule r exp(alpha) => alpa", "HNF0214", "did you mean `alpha`"),
        ("rule r exp(x) => a let a = log(a)", "HNF0215", "defined by itself"),
        ("rule r exp(x : f17) => x", "HNF0216", "no element type `f17`"),
        ("rule r exp(log(x) : f16) => x", "HNF0217", "only a captured name"),
        ("rule r (x : f16) + (x : f32) => x", "HNF0218", "two different element types"),
        ("rule r exp(x) => x / (1 / 0)", "HNF0219", "divides by zero"),
        ("rule r exp(x) => rank(x)", "HNF0220", "is a condition"),
        ("rule r exp(x) => unsqueeze[k](x)", "HNF0231", "not bound"),
        ("rule r epx(x) => x", "HNF0222", "did you mean `exp`"),
        ("rule r sum(x) => x", "HNF0223", "needs the axes"),
        ("rule r exp[k](x) => x", "HNF0224", "takes no axes"),
        ("rule r exp(x, eps=1) => x", "HNF0225", "no attribute `eps`"),
        ("rule r exp(x) => cast(x, y)", "HNF0228", "needs an element type"),
        ("def f(x) = f(x)\nrule r f(x) => x", "HNF0229", "cannot be recursive"),
        ("def f[k](x) = sum[k](x)\nrule r f(x) => x", "HNF0230", "takes 1 axes, but 0"),
        ("rule r sum[k](x) => max[j](x)", "HNF0231", "the axis `j` is not bound"),
        ("rule r sum[k, k](x) => x", "HNF0232", "named twice"),
        ("rule r exp(x, y) => x", "HNF0233", "takes 1 argument, but 2"),
        ("rule r exp(x) => x where x", "HNF0234", "a condition is a comparison"),
        ("rule r exp(x) => x where dtype(x) = 3", "HNF0235", "compared with an element type"),
        ("rule r exp(x) => x where overflows(x)", "HNF0237", "proves nothing"),
        ("rule r sum[0](x) => x", "HNF0238", "counted from the right"),
    ],
)
def test_faults(text, code, words):
    found = faults(text)
    assert f"[{code}]" in found and words in found and "f.hnf:" in found


def test_rules_that_undo_each_other_are_a_warning():
    elaborator = Elaborator(parse("rule a exp(x) => log(x)\nrule b log(y) => exp(y)", "f.hnf"))
    assert len(elaborator.rules()) == 2
    assert [d.code for d in elaborator.diagnostics] == ["HNF0211"]


def test_a_definition_that_explodes_is_refused():
    lines = ["def f0(x) = x + x"] + [f"def f{i}(x) = f{i - 1}(x) + f{i - 1}(x)" for i in range(1, 40)]
    assert "HNF0212" in faults("\n".join([*lines, "rule r f39(x) => x"]))
