"""The cache believes what this user wrote on this machine, and nothing else."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hnfc.dsl.soundness import Status, Verdict, VerdictCache
from hnfc.dsl.store import add_to_store, read_store, trusted_store


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def test_it_is_for_its_owner_only(home: Path) -> None:
    path = home / "cache" / "a.json"
    add_to_store(path, {"a": [1, "é"]})
    assert read_store(path) == {"a": [1, "é"]}
    for made in (path, home / "config" / "hnfc" / "key"):
        assert not stat.S_IMODE(made.stat().st_mode) & 0o077
        assert not stat.S_IMODE(made.parent.stat().st_mode) & 0o077


def test_an_edited_verdict_is_not_believed(home: Path) -> None:
    cache = VerdictCache(home)
    cache.put({"rule": Verdict(Status.REFUTED, "because")})
    cache.path.write_text(cache.path.read_text().replace("REFUTED", "PROVED"))
    assert cache.get("rule") is None


@pytest.mark.parametrize("text", ["{}", "", "\n{}", "0" * 64 + '\n{"a": 1}', '{"a": 1}'])
def test_what_has_no_digest_of_ours_is_empty(home: Path, text: str) -> None:
    add_to_store(home / "a.json", {"b": 2})
    (home / "a.json").write_text(text)
    assert read_store(home / "a.json") == {}


def test_a_cache_from_another_machine_is_empty(home: Path) -> None:
    add_to_store(home / "a.json", {"a": 1})
    (home / "config" / "hnfc" / "key").write_text("f" * 64)
    assert read_store(home / "a.json") == {}
    add_to_store(home / "a.json", {"b": 1})
    assert read_store(home / "a.json") == {"b": 1}


def test_a_cache_from_another_machine_counts_where_it_is_trusted(home: Path) -> None:
    add_to_store(home / "a.json", {"a": 1})
    (home / "config" / "hnfc" / "key").unlink()
    with trusted_store():
        assert read_store(home / "a.json") == {"a": 1}
        add_to_store(home / "a.json", {"b": 2})
    assert read_store(home / "a.json") == {"a": 1, "b": 2}
    (home / "a.json").chmod(0o666)
    with trusted_store():
        assert read_store(home / "a.json") == {}


def test_one_file_does_not_stand_for_another(home: Path) -> None:
    add_to_store(home / "a.json", {"a": 1})
    os.replace(home / "a.json", home / "b.json")
    assert read_store(home / "b.json") == {}


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_may_write(home: Path, mode: int) -> None:
    path = home / "cache" / "a.json"
    add_to_store(path, {"a": 1})
    path.parent.chmod(mode)
    add_to_store(path, {"b": 1})
    assert read_store(path) == {}
    path.parent.chmod(0o700)
    assert read_store(path) == {"a": 1}


def test_a_pipe_a_link_and_no_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_to_store(home / "a.json", {"a": 1})
    os.mkfifo(home / "b.json")
    assert read_store(home / "b.json") == {}
    (home / "c.json").symlink_to(home / "a.json")
    assert read_store(home / "c.json") == {}
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "a.json"))
    add_to_store(home / "d.json", {"a": 1})
    assert read_store(home / "d.json") == {} and not (home / "d.json").exists()


def test_no_cache(home: Path) -> None:
    (home / "m.hnf").write_text('library mine "mine"\nrule r: x + 0 => x\n')
    environment = {**os.environ, "HNFC_CACHE_DIR": str(home / "cache")}
    command = [sys.executable, "-m", "hnfc.cli.main", "test", str(home / "m.hnf"), "--no-cache"]
    subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)
    assert not (home / "cache").exists()
