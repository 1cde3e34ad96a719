"""No rule file ends in a traceback, and a bad rule loses only its own verdict."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from hnfc.cli.main import main
from hnfc.dialects.num import OPERATIONS
from hnfc.dsl.depth import with_room
from hnfc.dsl.diagnostics import Diagnostic, HnfError
from hnfc.dsl.fingerprint import fingerprint
from hnfc.dsl.rule_depth import is_deep
from hnfc.dsl.rulebook import load_files, load_text
from hnfc.dsl.soundness import Status, prove
from hnfc.dsl.soundness.judge import verdict
from hnfc.rewrite.matcher import Matcher, compile_rule

GOOD = "rule good\n    exp(a) * exp(b) => exp(a + b)\n"


def chain(symbol: str, count: int) -> str:
    return f" {symbol} ".join(["x"] * count)


DEEP = [
    f"{chain('+', 250)} => 250 * x",
    f"{chain('*', 250)} => x * ({chain('*', 249)})",
    "(" * 150 + "x" + " + 1)" * 150 + " => x + 150",
    f"{'exp(' * 100}x{')' * 100} => x",
]


@pytest.mark.parametrize("text", DEEP, ids=range(len(DEEP)))
def test_deep_rules_have_a_verdict(text: str) -> None:
    (rule,) = load_text(f"rule r\n    {text}\n", "t.hnf").rules
    assert is_deep(rule.pattern) and fingerprint(rule)
    assert prove(rule, timeout_ms=2000).status in (Status.PROVED, Status.UNKNOWN, Status.REFUTED)


BAD = [
    f"{chain('+', 2000)} => x",
    f"{chain('+', 3000)} => x",
    "x * 1e5000 => x * 2",
    "x + 1e-99999999 => x",
    "x * " + "9" * 5000 + " => x * 2",
    "clamp(x) => x",
    "x * ) => x",
    "x + y",
    "softmax(x) => x",
    "cumsum(x) => x",
    "round_to(x, si32) => x",
    "sum[k](x, accumulate=si32) => x",
    "x => x + 0",
    "1 / 0 * x => x",
]


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_the_neighbours_of_a_bad_rule_are_judged(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "r.hnf"
    path.write_text(f"{GOOD}rule bad\n    {text}\nrule after\n    (x + y) + z => x + (y + z)\n")
    with pytest.raises(HnfError):
        load_files([path])
    faults: list[Diagnostic] = []
    assert [rule.name for rule in load_files([path], faults).rules] == ["good", "after"]
    assert faults
    assert main(["check", "--no-ieee", str(path)]) == 1
    said = capsys.readouterr().err
    assert "2 rules: 2 proved" in said and "Traceback" not in said and "error[" in said


WORDS = ["x", "y", "a", "pi", "1", "0.5", "1e300", "true", "si32", "f16", "e", "const c", "(z : si8)", "(m : i1)", "k", "-1"]


def written(choose: random.Random, depth: int) -> str:
    """An expression that may or may not make sense."""
    if not depth or choose.random() < 0.2:
        return choose.choice(WORDS)
    inner = [written(choose, depth - 1) for _ in range(choose.randint(1, 3))]
    if choose.random() < 0.4:
        return "(" + f" {choose.choice(['+', '-', '*', '/', '@', '**', '<', 'and'])} ".join(inner) + ")"
    axes = choose.choice(["", "", "[k]", "[-1]", "[j, k]"])
    named = choose.choice(["", "", ", axis=-1", ", eps=e", ", scale=1, causal=true", ", predicate=lt", ", correction=2", ", to=f16"])
    return f"{choose.choice([*sorted(OPERATIONS), 'permute', 'reshape', 'unsqueeze', 'cast', 'size'])}{axes}({', '.join(inner)}{named})"


def fuzzed(seed: int) -> None:
    choose = random.Random(seed)
    where = choose.choice(["", f" where {written(choose, 1)} > 0", " where rank(x) = 2", " where dtype(x) = si8", " where free[k](x)"])
    text = f"rule r\n    {written(choose, 3)} => {written(choose, 2)}{where}\n"
    try:
        rules = load_text(text, "t.hnf").rules
    except HnfError:
        return
    for rule in rules:
        assert fingerprint(rule)
        found = verdict(rule, 300, 10, advise=False)
        assert "Error" not in found.reason, f"{text}{found.reason}"


@pytest.mark.parametrize("seed", range(12))
def test_random_rules_have_a_verdict_or_a_diagnostic(seed: int) -> None:
    for case in range(25):
        fuzzed(100 * seed + case)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
def test_more_random_rules(seed: int) -> None:
    for case in range(100):
        fuzzed(1000 * seed + case)


TRIVIAL = ["a * b / b => a", "x * x / x => x", "1 * x => x", "x + 0 => x", "x / 1 => x", "-(-x) => x", "1 / (1 / x) => x", "x * 2 / 2 => x"]


@pytest.mark.parametrize("text", TRIVIAL)
def test_what_is_a_name_once_its_arithmetic_is_done_can_be_looked_for(text: str) -> None:
    rules = load_text(f"rule r\n    {text}\n", "t.hnf").rules
    assert prove(rules[0]).proved
    assert Matcher(compile_rule(rules[0])).rules


def test_there_is_room_for_recursion() -> None:
    def deep(n: int) -> int:
        return 0 if n == 0 else 1 + deep(n - 1)

    before = sys.getrecursionlimit()
    assert with_room(deep, 20_000) == 20_000 and with_room(with_room, deep, 20_000) == 20_000
    with pytest.raises(ZeroDivisionError):
        with_room(lambda: 1 // 0)
    assert sys.getrecursionlimit() == before
