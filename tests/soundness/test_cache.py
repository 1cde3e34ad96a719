"""Verdicts on disk and in other processes."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from hnfc.dsl.fingerprint import fingerprint
from hnfc.dsl.soundness import Status, Verdict, VerdictCache, judge, parallel, prove, prove_all
from tests.soundness.reading import corpus, rule_of

RULES = corpus("proved.hnf")[:4] + corpus("refuted.hnf")[:2]


def test_fingerprint_is_of_the_content() -> None:
    a = rule_of("log(1 + x) => log1p(x)")
    assert fingerprint(a) == fingerprint(replace(a, name="another", reason="other words", span=None))
    assert fingerprint(a) != fingerprint(rule_of("log(1 + x) => log1p(x)\n where x > 0"))
    assert fingerprint(a) != fingerprint(rule_of("log(1 + x) => log1p(1 * x)"))
    assert len({fingerprint(rule) for rule in RULES}) == len(RULES)


def test_round_trip(tmp_path: Path) -> None:
    cache = VerdictCache(tmp_path)
    verdict = prove(RULES[0])
    cache.put({"a": verdict})
    cache.put({"b": prove(RULES[-1])})
    assert cache.get("a") == verdict
    assert cache.get("b") is not None
    assert cache.get("c") is None
    assert [p.name for p in tmp_path.iterdir()] == ["verdicts.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": 1}', '{"a": {"status": "PROVED"}}', "\x00\xff"])
def test_a_broken_file_counts_as_empty(tmp_path: Path, text: str) -> None:
    (tmp_path / "verdicts.json").write_text(text, encoding="utf-8")
    cache = VerdictCache(tmp_path)
    assert cache.get("a") is None
    cache.put({"a": Verdict(Status.UNKNOWN, "because")})
    assert cache.get("a") == Verdict(Status.UNKNOWN, "because")


def test_what_ran_out_of_time_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "verdict", lambda rule, timeout_ms: Verdict(Status.UNKNOWN, "out of time"))
    prove_all(RULES[:1], cache=VerdictCache(tmp_path))
    assert VerdictCache(tmp_path).get(fingerprint(RULES[0])) is None


def test_the_directory_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HNFC_CACHE_DIR", str(tmp_path / "here"))
    VerdictCache().put({"a": Verdict(Status.UNKNOWN, "because")})
    assert (tmp_path / "here" / "verdicts.json").exists()


def test_all_and_again(tmp_path: Path) -> None:
    cache = VerdictCache(tmp_path)
    seen: list[str] = []
    verdicts = prove_all(RULES, jobs=2, cache=cache, done=lambda rule, verdict: seen.append(rule.name))
    assert [v.status for v in verdicts] == [Status.PROVED] * 4 + [Status.REFUTED] * 2
    assert sorted(seen) == sorted(rule.name for rule in RULES)
    start = time.monotonic()
    assert prove_all(RULES, cache=cache) == verdicts
    assert time.monotonic() - start < 1


def test_a_prover_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    def stuck(rule: object, timeout_ms: int) -> Verdict:
        while rule == RULES[1]:
            time.sleep(0.01)
        return Verdict(Status.UNKNOWN, "quick")

    monkeypatch.setattr(judge, "verdict", stuck)
    monkeypatch.setattr(parallel, "GRACE_SECONDS", 0.2)
    verdicts = prove_all(RULES[:3], jobs=2, limit=0.3)
    assert [v.reason.split(":")[0] for v in verdicts] == ["quick", "out of time", "quick"]


def test_a_prover_that_dies_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    def dies(rule: object, timeout_ms: int) -> Verdict:
        if rule == RULES[0]:
            os._exit(1)
        raise KeyError("x")

    monkeypatch.setattr(judge, "verdict", dies)
    reasons = [v.reason for v in prove_all(RULES[:3], jobs=1)]
    assert reasons[0] == "the prover's process died"
    assert reasons[1].startswith("the prover failed") and "KeyError" in reasons[1]
