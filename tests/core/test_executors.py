"""Maps over processes and over the workers of a Dask cluster: the results of one process, each found once."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from operator import neg
from pathlib import Path
from typing import Any

import pytest

from hnfc.cli.main import main
from hnfc.core import executors
from hnfc.core.errors import ModelError, UsageError
from hnfc.core.executors import Keyed, executor_of, mapped
from hnfc.core.verdicts import ieee, verdicts
from hnfc.dsl.rulebook import shipped
from tests.soundness.reading import corpus, rule_of

PROGRAMS = """
(FPCore first (x) :pre (<= 1 x 1e6) (- (sqrt (+ x 1)) (sqrt x)))
(FPCore second (x) :pre (<= 1e-9 x 1e-3) (- (exp x) 1))
(FPCore third (x y) :pre (and (<= 1 x 2) (<= 1 y 2)) (* x y))
(FPCore again (x) :pre (<= 1 x 1e6) (- (sqrt (+ x 1)) (sqrt x)))
"""


def _square(x: int) -> int:
    return x * x


def _counted(folder: str) -> int:
    (Path(folder) / f"{os.getpid()}-{time.monotonic_ns()}").touch()
    return len(os.listdir(folder))


def _slow_square(given: tuple[str, int]) -> int:
    folder, x = given
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(0.2)
    return x * x


def test_results_keep_the_order_of_items() -> None:
    with executor_of(2) as executor:
        assert list(mapped(executor, neg, range(7))) == list(mapped(None, neg, range(7))) == [-x for x in range(7)]


def test_one_process_is_this_one() -> None:
    with executor_of(1) as executor:
        assert executor is None
    with executor_of() as executor:
        assert executor is None


def test_equal_work_is_sent_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as inner:
        keyed = Keyed(inner)
        assert [keyed.submit(_counted, str(tmp_path)).result() for _ in range(3)] == [1, 1, 1]
        sent = keyed.sent_bytes
        assert keyed.submit(_square, 2).result() == 4
        assert 0 < keyed.sent_bytes - sent < 1000


def test_a_worker_with_other_sources_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = iter(["ours", "theirs"])
    monkeypatch.setattr(executors, "sources_digest", lambda: next(digests))
    with ThreadPoolExecutor(1) as inner, pytest.raises(UsageError, match="other sources of hnfc"):
        Keyed(inner).submit(_square, 2).result()


def test_a_dead_process_is_an_error_in_one_line() -> None:
    with pytest.raises(ModelError, match=r"a process: work was lost .*; run again"), executor_of(2) as executor:
        assert executor is not None
        executor.submit(os._exit, 3).result()


@pytest.mark.parametrize(("options", "words"), [(["--jobs", "0"], "from 1, not 0"), (["--cluster", "127.0.0.1:1"], "no Dask scheduler")])
def test_faulty_options(options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    if "--cluster" in options:
        pytest.importorskip("distributed")
        monkeypatch.setattr(executors, "CONNECT_SECONDS", 1)
    (tmp_path / "p.fpcore").write_text(PROGRAMS)
    assert main(["analyze", str(tmp_path / "p.fpcore"), *options]) == 2
    assert words in capsys.readouterr().err


def test_a_model_is_not_spread(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["analyze"], []):
        assert main([*command, "examples/naive_attention.mlir", "--jobs", "2"]) == 2
        assert "--jobs spreads many FPCore programs" in capsys.readouterr().err


@pytest.mark.slow
def test_programs_in_two_processes_are_those_of_one(tmp_path: Path) -> None:
    source = tmp_path / "programs.fpcore"
    source.write_text(PROGRAMS)
    for jobs in ("1", "2"):
        assert main([str(source), "-O", "accuracy", "-q", "--jobs", jobs, "-o", str(tmp_path / f"{jobs}.fpcore")]) == 0
    assert (tmp_path / "1.fpcore").read_bytes() == (tmp_path / "2.fpcore").read_bytes()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, scheduler_port=0, silence_logs=50
    ) as made:
        yield made


RULES = [*corpus("proved.hnf")[:6], *corpus("refuted.hnf")[:3], rule_of("log(1 + x) => log1p(x)")]


@pytest.mark.slow
def test_verdicts_of_a_cluster_are_those_of_this_process(cluster: Any) -> None:
    again = [*RULES, *RULES[:3]]
    with executor_of(cluster=cluster.scheduler_address) as executor:
        assert executor is not None
        for judge in (verdicts, lambda rules, **how: ieee(rules, ("f32",), **how)):
            alone = judge(again, cached=False)
            spread = judge(again, cached=False, executor=executor)
            assert {name: _timeless(found) for name, found in spread.items()} == {name: _timeless(found) for name, found in alone.items()}
        sent = executor.sent_bytes
        judge(again, cached=False, executor=executor)
        assert executor.sent_bytes == sent
        assert sent / (2 * len(RULES)) < 10_000


def _timeless(found: Any) -> list[dict[str, Any]]:
    return [{**one.to_json(), "seconds": 0} for one in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.slow
def test_programs_on_a_cluster_are_those_of_one_process(cluster: Any, tmp_path: Path) -> None:
    source = tmp_path / "programs.fpcore"
    source.write_text(PROGRAMS)
    where = ["--cluster", cluster.scheduler_address]
    for name, options in (("alone", []), ("spread", where)):
        assert main([str(source), "-O", "accuracy", "-q", *options, "-o", str(tmp_path / f"{name}.fpcore")]) == 0
    assert (tmp_path / "alone.fpcore").read_bytes() == (tmp_path / "spread.fpcore").read_bytes()
    (tmp_path / "rules.hnf").write_text('library t "test"\nrule one log(1 + x) => log1p(x)\n')
    assert main(["check", str(tmp_path / "rules.hnf"), "--no-cache", *where]) == 0


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_nothing(cluster: Any, tmp_path: Path) -> None:
    with executor_of(cluster=cluster.scheduler_address) as executor:
        found = mapped(executor, _slow_square, [(str(tmp_path), x) for x in range(20)])
        assert next(found) == 0
        os.kill(int(sorted(os.listdir(tmp_path))[0]), signal.SIGKILL)
        assert list(found) == [x * x for x in range(1, 20)]
    assert len(os.listdir(tmp_path)) >= 2


def test_shipped_rules_are_small_to_send() -> None:
    sizes = [len(pickle.dumps(rule)) for rule in shipped().rules]
    assert max(sizes) < 10_000 and all(pickle.loads(pickle.dumps(rule)) == rule for rule in shipped().rules[:5])
