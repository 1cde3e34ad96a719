"""`hnfc discover`: known rules are found again, all are proved, none follows from the others, and their tests pass."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("egglog")

from hnfc.core.errors import UsageError
from hnfc.discovery.derivation import Derivation
from hnfc.discovery.discover import discover
from hnfc.discovery.operations import operations
from hnfc.discovery.selection import canonical
from hnfc.discovery.writing import rule_file
from hnfc.dsl.description import rule_line
from hnfc.dsl.rulebook import load_text, shipped
from hnfc.dsl.soundness.checking import check
from hnfc.rewrite.rule_tests import run_tests
from tests.terminal import hnfc


def lines(found):
    return {rule_line(each.rule) for each in found.rules}


@pytest.fixture(scope="module")
def reductions():
    return discover("exp, log, sum, softmax, logsumexp", 2)


def test_shifts_and_inverses_are_found(reductions):
    assert {
        "log(exp(x)) => x",
        "softmax[k](x + c) => softmax[k](x) where free[k](c)",
        "logsumexp[k](x + c) <=> c + logsumexp[k](x) where free[k](c)",
        "sum[k](exp(x)) <=> exp(logsumexp[k](x))",
    } <= lines(discover("exp, log, +, sum, softmax, logsumexp", 2))
    assert "sum[k](softmax[k](x)) => 1" in lines(reductions)


def test_what_loses_digits_stands_left():
    found = discover("log, log1p, +", 2)
    (rule,) = [each for each in found.rules if rule_line(each.rule) == "log(1 + x) => log1p(x)"]
    assert rule.accuracy.left > 0.05 and rule.accuracy.right < 0.01 and rule.accuracy.better == "right"


def test_each_is_proved_and_its_test_passes(reductions):
    text = rule_file(reductions, "found", "a command")
    book = load_text(text, "<found>")
    assert len(book.rules) == len(reductions.rules) >= 6
    assert all(check(rule).proved for rule in book.rules)
    results = list(run_tests(book))
    assert len(results) == len(book.rules) and all(result.passed for result in results), [result.diagnostic for result in results]


def test_none_follows_from_the_others(reductions):
    chosen = operations("exp, log, sum, softmax, logsumexp")
    for number, each in enumerate(reductions.rules):
        known = Derivation(chosen)
        for rule in (*canonical(), *(other.rule for other in reductions.rules[:number])):
            known.add(rule)
        assert known.follow([each.rule]) == [False]


def test_what_is_given_is_not_found_again():
    given = [rule for rule in shipped().rules if rule.name == "log1p_fusion"]
    assert "log(1 + x) => log1p(x)" not in lines(discover("log, log1p, +", 2, given=given))


def test_a_condition_that_is_needed_is_found():
    assert "sqrt(square(x)) => x where x >= 0" in lines(discover("sqrt, square", 2))


def test_names_are_as_general_as_the_equality_allows():
    found = lines(discover("matmul, transpose", 2))
    assert "transpose(x) @ transpose(y) => transpose(y @ x)" in lines(discover("matmul, transpose", 3))
    assert any(line.count("z") == 2 for line in found) and not any("x @ x" in line for line in found)
    assert "x * y + x * z => x * (y + z)" in lines(discover("+, *", 3))


def test_what_ships_is_found_again(reductions):
    assert reductions.derives(shipped().rules)["logsumexp_fusion"]


def test_many_names_and_rules_that_are_written_otherwise_have_files():
    for over, size in (("where(a > b, a, b), maximum", 2), ("cast(a, f16)", 2), ("isnan, where", 2)):
        book = load_text(rule_file(discover(over, size), "found", "a command"), "<found>")
        assert all(result.passed for result in run_tests(book))


def test_terms_that_are_not_looked_at_are_said():
    found = discover("+, *", 3, terms=50)
    assert found.looked_at == 50 and not found.complete


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ("exq", "did you mean `exp`"),
        ("exp(q)", "called a, b and c"),
        ("a +", "is no operation"),
        ("3", "is no operation"),
        ("", "name the operations"),
        ("sum[q](a)", "axes of an operation are called k"),
        ("gather", "moves elements along one axis$"),
    ],
)
def test_a_wrong_operation(over, words):
    with pytest.raises(UsageError, match=words):
        discover(over)


def test_on_the_command_line(tmp_path):
    done = hnfc("discover", "a / (1 + a), exp, neg", "--size", "1", "-o", tmp_path / "f.hnf", "--json", tmp_path / "f.json")
    assert done.returncode == 0 and "proved over the reals" in done.stderr
    assert (tmp_path / "f.hnf").read_text().startswith("library found")
    assert json.loads((tmp_path / "f.json").read_text())["complete"]
    for arguments, words in (
        (["--size", "0"], "--size takes"),
        (["--given", "algebr"], "did you mean `algebra`"),
        (["--constants", "q"], "takes numbers"),
    ):
        wrong = hnfc("discover", "exp", *arguments)
        assert wrong.returncode == 2 and words in wrong.stderr and "Traceback" not in wrong.stderr


def test_the_page_prints_what_it_says(capsys):
    page = (Path(__file__).parents[2] / "docs" / "discover.md").read_text()
    program, printed = re.search(r"```python\n(.*?)```\n\nprints\n\n```\n(.*?)```", page, re.DOTALL).groups()
    exec(program, {})
    assert capsys.readouterr().out == printed
