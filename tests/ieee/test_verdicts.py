"""The verdict as data: assumptions, formats, time, JSON, and many rules at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import pytest

from hnfc.dsl.ieee import (
    FORMATS_JUDGED,
    IeeeExample,
    IeeeStatus,
    IeeeTensor,
    IeeeVerdict,
    ieee_all,
    ieee_fingerprint,
    ieee_verdicts,
    parallel,
)
from hnfc.dsl.rulebook import shipped
from hnfc.dsl.soundness import parallel as processes
from tests.ieee.reading import corpus, rule_of, verdict_of, verdicts

EXACT, UNLESS, SAFER = IeeeStatus.EXACT, IeeeStatus.EXACT_UNLESS, IeeeStatus.SAFER


def assumed(text: str, *assumptions: str) -> IeeeVerdict:
    return verdict_of(text, "f16", assume=frozenset(assumptions))


def test_assumptions_drop_inputs() -> None:
    times_zero = "x * 0 => 0"
    assert assumed(times_zero).exceptions == ("signed zeros", "NaNs", "infinities")
    without = assumed(times_zero, "no-nans")
    assert (without.status, without.exceptions) == (SAFER, ("signed zeros", "infinities"))
    finite = assumed(times_zero, "no-nans", "no-infs")
    assert (finite.status, finite.exceptions) == (UNLESS, ("signed zeros",))
    assert assumed(times_zero, "no-nans", "no-infs", "no-signed-zeros").status is EXACT
    assert assumed("x + 0 => x", "no-signed-zeros").status is EXACT
    # an input of -0 makes -inf of what would be inf
    assert assumed("1 / (x + 0) => 1 / x").status is UNLESS
    assert assumed("1 / (x + 0) => 1 / x", "no-signed-zeros").status is EXACT


def test_assumptions_are_encoded() -> None:
    (found,) = ieee_verdicts(rule_of("x * 0 => 0"), ("f64",), frozenset(("no-nans", "no-infs", "no-signed-zeros")))
    assert (found.status, found.proved) == (EXACT, True)


def test_annotations_restrict_the_formats() -> None:
    half = ieee_verdicts(rule_of("exp(x : f16 | bf16) => cast(exp(cast(x, f32)), dtype(x))"))
    assert [v.format for v in half] == ["f16", "bf16"]
    assert all(v.proved for v in half)
    # rounding to f32 first makes another number of f16 in two cases of 65536
    assert (half[0].status, half[0].ulps, half[1].status) == (IeeeStatus.ROUNDS, 1, EXACT)
    assert ieee_verdicts(rule_of("-(-(x : f32)) => x"), ("f16", "f64")) == ()


def test_formats_keep_the_order_of_the_call() -> None:
    wanted = ("bf16", "f64", "f8E5M2FNUZ", "f16", "f8E4M3FNUZ")
    assert tuple(v.format for v in ieee_verdicts(rule_of("a + b => b + a"), wanted)) == wanted


def test_formats_without_a_negative_zero() -> None:
    for form in ("f8E4M3FNUZ", "f8E5M2FNUZ"):
        assert verdict_of("x + 0 => x", form).status is EXACT
        assert verdict_of("x * 0 => 0", form).exceptions == ("NaNs",)


def test_truth_values_have_a_verdict() -> None:
    (found,) = ieee_verdicts(rule_of("not (not p) => p"))
    assert (found.format, found.status, found.proved, found.method) == ("i1", EXACT, True, "all 2 inputs")
    assert verdict_of("a - b > 0 => a > b", "f8E5M2").status is EXACT
    # the difference overflows to NaN, which is above nothing
    assert verdict_of("a - b > 0 => a > b", "f8E4M3FN").status is IeeeStatus.ROUNDS
    wrong = verdict_of("a / b > 1 => a > b", "f16")
    assert wrong.status is IeeeStatus.ROUNDS
    assert {wrong.examples["value"].left, wrong.examples["value"].right} == {"true", "false"}
    assert wrong.ulps is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("cast(x, f32) + x => x", "operands of"),
        ("two_sum(x, y) => x", "2 results"),
        ("opaque(x) => x", "cannot be evaluated"),
        ("mean[k](cast(x, si32)) => cast(x, si32)", "no integer"),
        ("exp(cast(x, si32)) => cast(x, si32)", "on integers"),
        ("slice[k](x, 3, 2) => x", "elements 3 to 2"),
        ("not x + y => x", "operands of"),
    ],
)
def test_what_cannot_be_judged_is_unknown_with_a_reason(text: str, reason: str) -> None:
    (found,) = ieee_verdicts(rule_of(text), ("f16",))
    assert found.status is IeeeStatus.UNKNOWN, str(found)
    assert reason in found.method and found.method in str(found)


def test_wrong_arguments_are_refused() -> None:
    rule = rule_of("a + b => b + a")
    with pytest.raises(ValueError, match="f24"):
        ieee_verdicts(rule, ("f24",))
    with pytest.raises(ValueError, match="no-rounding"):
        ieee_verdicts(rule, assume=frozenset(("no-rounding",)))


def test_time_is_kept() -> None:
    rule = next(r for r in shipped().rules if r.name == "batch_norm_of_product")
    started = time.monotonic()
    found = ieee_verdicts(rule, seconds=0.05)
    assert time.monotonic() - started < 3
    assert all(v.status is IeeeStatus.UNKNOWN and "out of time" in v.method for v in found[:2])
    assert len(found) == len(FORMATS_JUDGED)


# JSON and caching ---------------------------------------------------------------------------------------------------


def test_json_round_trip() -> None:
    for rule in [*corpus("wrong.hnf"), *corpus("exact.hnf")]:
        for found in verdicts(rule).values():
            assert IeeeVerdict.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False))) == found


@pytest.mark.parametrize("data", [None, 1, [], {}, {"format": "f16"}, {"format": "f16", "status": "nice"}])
def test_anything_else_is_refused(data: Any) -> None:
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        IeeeVerdict.from_json(data)


def test_examples_read_as_they_are_written() -> None:
    tensor = IeeeTensor((2,), ("-0", "0.1"), "f16")
    example = IeeeExample((("a", tensor), ("b", IeeeTensor((), ("inf",), "f16"))), (), (0,), "nan", "1", "f16", ("b",))
    assert str(example) == "a = [-0, 0.1], b = inf: nan and 1 (b does not matter)"
    assert tensor.to_numpy().tolist() == [0.0, 0.0999755859375]
    assert IeeeExample.from_json(json.loads(json.dumps(example.to_json()))) == example


def test_a_fingerprint_depends_on_all_that_a_verdict_does() -> None:
    rule = rule_of("a + b => b + a")
    keys = {
        ieee_fingerprint(rule),
        ieee_fingerprint(replace(rule, replacement=rule.pattern)),
        ieee_fingerprint(rule, ("f16",)),
        ieee_fingerprint(rule, assume=frozenset(("no-nans",))),
    }
    assert len(keys) == 4
    assert ieee_fingerprint(rule) == ieee_fingerprint(rule_of("a + b => b + a"))


# many rules ---------------------------------------------------------------------------------------------------------


def without_time(found: tuple[IeeeVerdict, ...]) -> list[IeeeVerdict]:
    return [replace(v, seconds=0.0) for v in found]


def test_many_rules_at_once_and_again_from_a_cache() -> None:
    rules = [rule_of(text) for text in ("a + b => b + a", "x + 0 => x", "sqrt(x * x) => abs(x)")]
    cache: dict[str, Any] = {}
    seen: list[str] = []
    first = ieee_all(rules, formats=("f16",), jobs=2, cache=cache, done=lambda rule, found: seen.append(str(found[0])))
    assert [without_time(v) for v in first] == [without_time(ieee_verdicts(rule, ("f16",))) for rule in rules]
    assert len(cache) == len(seen) == 3
    started = time.monotonic()
    assert ieee_all(rules, formats=("f16",), cache=json.loads(json.dumps(cache))) == first
    assert time.monotonic() - started < 0.5
    broken = {key: [{"status": "?"}] for key in cache}
    assert [without_time(v) for v in ieee_all(rules, formats=("f16",), cache=broken)] == [without_time(v) for v in first]


def test_a_rule_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    def stuck(rule: Any, limit: float, **_: Any) -> Any:
        time.sleep(60)

    monkeypatch.setattr(parallel, "_judge", stuck)
    monkeypatch.setattr(processes, "GRACE_SECONDS", 0.2)
    cache: dict[str, Any] = {}
    started = time.monotonic()
    (found,) = ieee_all([rule_of("a + b => b + a")], formats=("f16", "f32"), limit=0.3, cache=cache)
    assert time.monotonic() - started < 10
    assert [v.status for v in found] == [IeeeStatus.UNKNOWN] * 2
    assert "out of time" in found[0].method
    assert not cache


def test_a_fault_in_a_process_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(rule: Any, limit: float, **_: Any) -> Any:
        raise RuntimeError("a fault")

    monkeypatch.setattr(parallel, "_judge", faulty)
    (found,) = ieee_all([rule_of("a + b => b + a")], formats=("f16",))
    assert found[0].status is IeeeStatus.UNKNOWN
    assert "a fault" in found[0].method


SCRIPT = """
import json
from hnfc.dsl.ieee import ieee_verdicts
from hnfc.dsl.rulebook import shipped
for name in ("exp_product", "softmax_shift", "layer_norm_affine_folded"):
    for v in ieee_verdicts(shipped().named(name), ("f32", "f8E5M2")):
        print(json.dumps({**v.to_json(), "seconds": 0}))
"""


def test_verdicts_are_the_same_in_every_process() -> None:
    """Whatever order sets have."""
    runs = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1] != ""
