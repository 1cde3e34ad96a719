"""Verdicts on disk and in other processes."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from hnfc.dsl.soundness import Status, Verdict, VerdictCache, fingerprint, judge, parallel, prove, prove_all
from tests.soundness.reading import corpus, rule_of, rules_of

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


def test_what_ran_out_of_time_is_tried_again(tmp_path: Path) -> None:
    cache = VerdictCache(tmp_path)
    cache.put({"a": Verdict(Status.UNKNOWN, "out of time")})
    assert cache.get("a") is None


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


def test_the_version_covers_everything_that_a_verdict_rests_on(tmp_path, monkeypatch):
    """A formula may call functions of any module of the dialect; a change in one of them makes every verdict stale."""
    import shutil
    from importlib.resources import files

    from hnfc.dsl.soundness import verdict as module

    root = files("hnfc")
    for folder in ("dsl/soundness", "dialects/num"):
        shutil.copytree(str(root / folder), tmp_path / folder)
    dialects = [f"dialects/{f.name}" for f in (root / "dialects").iterdir() if f.name.endswith(".py")]
    for path in ("dsl/core.py", "dsl/description.py", *dialects):
        shutil.copy(str(root / path), tmp_path / path)
    monkeypatch.setattr(module, "files", lambda name: tmp_path)
    before = module._version()
    assert before == module.PROVER_VERSION
    rested_on = ("dialects/num/reduction.py", "dialects/facts.py", "dsl/core.py", "dsl/description.py", "dsl/soundness/proof.py")
    for path in rested_on:
        original = (tmp_path / path).read_text()
        (tmp_path / path).write_text(original + "# changed\n")
        assert module._version() != before, path
        (tmp_path / path).write_text(original)
    assert module._version() == before


@pytest.mark.parametrize("package", ["z3-solver", "python-flint"])
def test_the_version_covers_the_programs_that_the_prover_asks(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from hnfc.dsl.soundness import verdict as module

    right = module.metadata.version
    monkeypatch.setattr(module.metadata, "version", lambda name: "0.0" if name == package else right(name))
    assert module._version() != module.PROVER_VERSION


def test_a_program_that_no_package_manager_knows_has_a_version_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from hnfc.dsl.soundness import verdict as module

    def unknown(name: str) -> str:
        raise module.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(module.metadata, "version", unknown)
    assert module._version() != module.PROVER_VERSION


def test_a_change_of_a_definition_is_a_change_of_the_rules_that_use_it() -> None:
    """Definitions are inlined, so that each rule holds all that it says."""
    text = "def f(x) = {}\nrule used log(f(x)) => log(f(x)) + 0\nrule unused log(1 + x) => log1p(x)"
    before, same, after = (rules_of(text.format(body)) for body in ("x + 1", "x + 1", "x + 2"))
    assert [fingerprint(rule) for rule in before] == [fingerprint(rule) for rule in same]
    assert fingerprint(before[0]) != fingerprint(after[0])
    assert fingerprint(before[1]) == fingerprint(after[1])


def test_the_fingerprint_covers_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    from hnfc.dsl.soundness import cache

    before = fingerprint(RULES[0])
    monkeypatch.setattr(cache, "PROVER_VERSION", "another")
    assert fingerprint(RULES[0]) != before
