"""Output to files, devices and terminals: whole or not at all, where the user said, and nothing that a terminal obeys."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time

import pytest

from hnfc.cli import terminal
from hnfc.cli.main import main

MODEL = """func.func @main(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> {
  return %x : !torch.vtensor<[2],f32>
}
"""


def test_a_link_is_followed(tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "file").write_bytes(b"old")
    for name, target in (("a", folder / "file"), ("b", folder / "new")):
        (tmp_path / name).symlink_to(target)
        terminal.write(str(tmp_path / name), b"new")
        assert (tmp_path / name).is_symlink() and target.read_bytes() == b"new"
    assert sorted(os.listdir(folder)) == ["file", "new"], "nothing is left behind"


def test_a_device_and_a_pipe_get_the_bytes(tmp_path):
    """A terminal of the test's own stands for devices: a fault here must not replace one of the machine's."""
    reader, device = os.openpty()
    (tmp_path / "device").symlink_to(os.ttyname(device))
    terminal.write(str(tmp_path / "device"), b"bytes")
    assert os.read(reader, 10) == b"bytes" and stat.S_ISCHR(os.stat(tmp_path / "device").st_mode)
    os.close(reader)
    os.close(device)
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    terminal.write(str(tmp_path / "pipe"), b"bytes")
    assert os.read(reader, 10) == b"bytes" and stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)
    os.close(reader)


def test_permissions_stay_and_new_files_have_the_usual_ones(tmp_path):
    (tmp_path / "old").write_bytes(b"")
    (tmp_path / "old").chmod(0o640)
    before = os.umask(0o027)
    try:
        terminal.write(str(tmp_path / "old"), b"x")
        terminal.write(str(tmp_path / "new"), b"x")
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("old", "new")] == [0o640, 0o640]


def test_a_link_laid_at_an_earlier_temporary_name_is_not_followed(tmp_path):
    (tmp_path / "victim").write_bytes(b"kept")
    (tmp_path / f"out.{os.getpid()}.part").symlink_to(tmp_path / "victim")
    terminal.write(str(tmp_path / "out"), b"x")
    assert (tmp_path / "victim").read_bytes() == b"kept"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_after_a_signal(number, tmp_path):
    program = f"""
import os, signal, time
from hnfc.cli import terminal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets its background processes ignore it
def slow(*_):
    print("ready", flush=True)
    time.sleep(20)
os.replace = slow
terminal.write({str(tmp_path / "out")!r}, b"x")
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert child.stdout is not None and child.stdout.readline() == b"ready\n"
    child.send_signal(number)
    started = time.monotonic()
    assert child.wait(10) != 0 and time.monotonic() - started < 10
    child.stdout.close()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a\x1b[2Jb", "a\\x1b[2Jb"), ("a\tb\nc", "a\tb\nc"), ("\x9b31m", "\\x9b31m"), ("\r\x07", "\\r\\x07"), ("é→\u202e", "é→\\u202e")],
)
def test_what_a_terminal_obeys_is_shown(text, shown, capsys):
    terminal.say(text)
    terminal.show(text)
    captured = capsys.readouterr()
    assert captured.err == captured.out == f"{shown}\n"


def test_an_error_with_an_escape_in_a_source_line(tmp_path, capsys):
    (tmp_path / "a.hnf").write_text("rule r: \x1b[31mx => ;\n")
    assert main(["check", str(tmp_path / "a.hnf")]) == 1
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", [b"m\xff.mlir", b"m\xff.hnf"])
def test_a_file_name_that_is_no_text(name, tmp_path):
    path = os.path.join(os.fsencode(tmp_path), name)
    with open(path, "wb") as file:
        file.write(MODEL.encode())
    command = ["check"] if name.endswith(b".hnf") else []
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ran = subprocess.run([sys.executable, "-m", "hnfc.cli.main", *command, path], capture_output=True, env=environment, timeout=60)
    assert ran.returncode == (0 if name.endswith(b".mlir") else 1), ran.stderr
    assert b"Traceback" not in ran.stderr


def test_a_closed_stdout(tmp_path):
    (tmp_path / "m.mlir").write_text(MODEL)
    command = f"{sys.executable} -m hnfc.cli.main {tmp_path / 'm.mlir'} >&-"
    ran = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, timeout=60)
    assert ran.returncode == 1 and b"error: stdout: Bad file descriptor" in ran.stderr, ran.stderr


@pytest.mark.parametrize("name", ["m.tflite", "m.pt2", "m.PT2", "m.npz"])
def test_a_suffix_that_is_not_written(name, tmp_path, capsys):
    (tmp_path / "m.mlir").write_text(MODEL)
    assert main([str(tmp_path / "m.mlir"), "-o", str(tmp_path / name)]) == 2
    assert ".mlir, .mlirbc" in capsys.readouterr().err and not (tmp_path / name).exists()
