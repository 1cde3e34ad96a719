"""Texts of files that are none: a FIFO, a device or a folder is refused at once, in a line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hnfc.cli.main import main
from hnfc.core.plain_files import read_json
from hnfc.dsl import text_files
from hnfc.dsl.text_files import read_text

ROOT = Path(__file__).parents[2]
MODEL = str(ROOT / "examples" / "naive_attention.mlir")
COMMANDS = {
    "check": ("check", "{}"), "fmt": ("fmt", "{}"), "test": ("test", "{}"), "rules of a model": (MODEL, "--rules", "{}"),
    "programs": ("analyze", "{}"), "accuracy": ("{}", "-O", "accuracy"),
}  # fmt: skip


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize("made", [fifo, device, loop])
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_file_is_refused_in_a_line(command, made, tmp_path, capsys):
    path = tmp_path / ("text.fpcore" if command in ("programs", "accuracy") else "text.hnf")
    made(path)
    assert main([part.format(path) for part in COMMANDS[command]]) == 1
    words = capsys.readouterr().err
    assert words.count("\n") == 1 and "text." in words


def test_a_project_file_that_is_none_is_no_hindrance(tmp_path, monkeypatch, capsys):
    (tmp_path / "pyproject.toml").write_text("[tool]\nx = " + "[" * 20_000)
    (tmp_path / "r.hnf").write_text("rule r\n    x + 0 => x\n")
    monkeypatch.chdir(tmp_path)
    assert main(["fmt", "r.hnf"]) == 0


def test_large_texts_and_deep_json_are_refused(tmp_path, monkeypatch):
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 100_000)
    with pytest.raises(ValueError, match="nested too deep"):
        read_json(deep)
    monkeypatch.setattr(text_files, "LARGEST", 1000)
    with pytest.raises(OSError, match="100000 bytes is too large"):
        read_text(deep)


def test_ends_of_lines_are_those_of_text(tmp_path):
    path = tmp_path / "t"
    path.write_bytes(b"a\r\nb\rc\n")
    assert read_text(path) == path.read_text(encoding="utf-8") == "a\nb\nc\n"
