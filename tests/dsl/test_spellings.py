"""Spellings that authors bring from torch and NumPy: those that rule files have, and the way out for the others."""

from __future__ import annotations

import pytest

from hnfc.dsl.diagnostics import Diagnostic, HnfError
from hnfc.dsl.parser import parse_sound
from hnfc.dsl.rulebook import load_text


def pattern(text: str) -> object:
    return load_text(f"rule r\n    {text} => 0 * x\n", "f.hnf").rules[0].pattern


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sum[k](x, keepdim = true)", "sum[k](x)"),
        ("logsumexp[-1](x, keepdims = True)", "logsumexp[-1](x)"),
        ("masked_fill(x, m, -inf)", "where(m, -inf, x)"),
        ("clamp(x, 0, 1)", "minimum(maximum(x, 0), 1)"),
        ("norm[k](x)", "sqrt(sum[k](square(x)))"),
        ("std[k](x)", "sqrt(var[k](x))"),
        ("exp(x - inf)", "exp(x + -inf)"),
    ],
)
def test_two_spellings_of_one_thing(one, other):
    assert pattern(one) == pattern(other)


def test_a_definition_of_ones_own_comes_first():
    found = load_text("def clamp(x) = maximum(x, 0)\nrule r\n    clamp(x) + 1 => relu(x) + 1\n", "f.hnf").rules[0]
    assert "minimum" not in str(found.pattern)


@pytest.mark.parametrize(
    ("text", "help_"),
    [
        ("sum[k](x, keepdim = false)", "squeeze[-1](sum[-1](…))"),
        ("x ^ 2", "x ** y"),
        ("sum[k, keepdim = true](x)", "options among the arguments"),
        ("sum[k, keepdim=True](x)", "`sum[k](x, keepdim = true)`"),
        ("sum[k, keepdim](x)", "write `sum[k](…)`"),
        ("where(m == True, x, 0)", "write `true`"),
        ('where(m, x, -float("inf"))', "`-inf`"),
        ("where(m, x, -math.inf)", "write `inf`"),
        ("x -> y", "write `pattern => replacement`"),
        ("outer(x, y)", "einsum"),
        ("x > 0 ? x : 0", "where(c, x, y)"),
        ("torch.exp(x)", "without a module"),
        ("x.exp()", "not as methods"),
        ("x.masked_fill(m, 0)", "`masked_fill(x, …)`"),
        ("x.sum(dim=-1, keepdim=True)", "`sum[-1](x)`"),
        ("x.amax(-1)", "`max[-1](x)`"),
        ("x.T @ y", "`transpose(x)`"),
        ("m.to(x.dtype) * x", "`cast(m, dtype(y))`"),
        ("torch.nn.functional.softmax(x, -1)", "`softmax[-1](…)`"),
        ("(x + y).exp()", "not as methods"),
        ("exp(m : bool)", "`i1`"),
        ("exp(m : bfloat16)", "`bf16`"),
        ("exp(m : float128)", "there are "),
        ("x² + 1", "x ** 2"),
        ("exp(x) × y", "x * y"),
        ("!m", "`not`"),
        ('exp("ij")', "einsum"),
        ("cast(m)", "cast(x, dtype(y))"),
        ("exp(x", "write `)` where it ends"),
        ("exp(x + sum[k](x)", "write `)` where it ends"),
        ("attention(q, k, v)", "scale = const s"),
        ("layer_norm[k](x)", "eps = const e"),
    ],
)
def test_the_way_out(text, help_):
    with pytest.raises(HnfError) as caught:
        load_text(f"rule r\n    {text} => x\n", "f.hnf")
    (diagnostic,) = caught.value.diagnostics
    assert help_ in diagnostic.help and diagnostic.span is not None


@pytest.mark.parametrize(("name", "type_"), [("bool", "i1"), ("float32", "f32"), ("int64", "si64"), ("f31", "f3")])
def test_an_element_type_in_a_condition(name, type_):
    with pytest.raises(HnfError) as caught:
        load_text(f"rule r\n    exp(x) => x\n    where dtype(x) = {name}\n", "f.hnf")
    assert type_ in caught.value.diagnostics[0].help


@pytest.mark.parametrize("arrow", ["=>", "<=>", "~>"])
def test_a_bracket_that_is_not_closed(arrow):
    with pytest.raises(HnfError, match="is not closed"):
        load_text(f"rule r\n    exp(x {arrow} x\n", "f.hnf")


def test_truths():
    from hnfc.dsl.soundness.checking import check

    assert check("rule r\n    where(true, x, y) => x").proved
    assert check("rule r\n    where(false, x, y) => y").proved
    assert check("rule r\n    where(m and true, x, y) => where(m, x, y)").proved
    assert check("rule r\n    where(true, x, y) => y").status.value == "REFUTED"


@pytest.mark.parametrize("pattern", ["exp(log(x))", "sqrt(x) * sqrt(x)", "x * log(x)", "where(isnan(x), 1, x)", "-x"])
@pytest.mark.parametrize("heading", ["rule r:", "rule r :  # why", 'rule r "why":'])
def test_a_colon_after_the_heading(heading, pattern):
    with pytest.raises(HnfError) as caught:
        load_text(f"rule other\n    x - x => 0\n{heading}\n    {pattern} => x\n", "f.hnf")
    assert all("without a colon" in diagnostic.help for diagnostic in caught.value.diagnostics)


@pytest.mark.parametrize("word", ["if", "given", "provided"])
def test_another_word_for_a_condition(word):
    with pytest.raises(HnfError) as caught:
        load_text(f"rule r\n    sqrt(x) * sqrt(x) => x\n    {word} x > 0\n", "f.hnf")
    assert "`where x > 0`" in caught.value.diagnostics[0].help


@pytest.mark.parametrize(("text", "stray"), [("stray\n{}", "stray"), ("{}\nstray\n", "stray"), ("# why\n\ngroup g\n{}", "group")])
def test_a_word_between_declarations_is_one_fault(text, stray):
    faults: list[Diagnostic] = []
    parse_sound(text.format("rule r\n    x + x => 2 * x\n"), "f.hnf", faults)
    assert [fault.message for fault in faults] == [f"unexpected `{stray}` between declarations"]
    assert "a file is made of `rule`" in faults[0].help


def test_a_word_before_the_first_rule_costs_no_rule():
    file = parse_sound("stray\nrule r\n    x + x => 2 * x\n", "f.hnf", [])
    assert [declaration.name for declaration in file.declarations] == ["r"]
