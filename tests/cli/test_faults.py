"""Faults from outside while commands run: threads, forks, and signals at any moment. What is written is whole, or is not there."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import hnfc
from hnfc.cli.main import main

MODEL = Path(__file__).parents[2] / "examples" / "naive_attention.mlir"
pytestmark = pytest.mark.slow
RULE = "rule r\n    sqrt(x) * sqrt(x) => x\n    where x >= 0\n"


class Naive(torch.nn.Module):
    def forward(self, x):
        e = torch.exp(x)
        return e / e.sum(-1, keepdim=True)


def rewritten(target):
    assert main([str(MODEL), "-q", "-O", "stability", "-o", str(target)]) == 0
    return target.read_bytes()


def test_commands_and_modules_in_eight_threads(tmp_path):
    alone = rewritten(tmp_path / "alone.mlir")
    (tmp_path / "r.hnf").write_text(RULE)
    np.savez(tmp_path / "x.npz", **{f"arg{place}": np.zeros((1, 2, 8, 16), np.float32) for place in range(3)})
    faults: list[str] = []
    x = torch.linspace(-200, 200, 32).reshape(4, 8)
    shared = hnfc.optimize(Naive(), x)

    def work(number):
        try:
            for turn in range(2):
                match number % 4:
                    case 0:
                        assert rewritten(tmp_path / f"{number}-{turn}.mlir") == alone
                    case 1:
                        assert main(["check", str(tmp_path / "r.hnf")]) == 0
                    case 2:
                        torch.testing.assert_close(hnfc.optimize(Naive(), x)(x), torch.softmax(x, -1))
                        torch.testing.assert_close(shared(x[: 1 + number % 3]), torch.softmax(x[: 1 + number % 3], -1))
                    case _:
                        assert main(["run", str(MODEL), "--inputs", str(tmp_path / "x.npz")]) == 0
        except BaseException as error:
            faults.append(f"{number}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert [path.name for path in tmp_path.iterdir() if path.suffix not in (".mlir", ".hnf", ".npz")] == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_while_threads_rewrite(tmp_path):
    alone = rewritten(tmp_path / "alone.mlir")
    code = f"""
import os, sys, threading, warnings
warnings.simplefilter("ignore")
import torch
torch.set_num_threads(1)
from hnfc.cli.main import main
def work(target):
    return main([{str(MODEL)!r}, "-q", "-O", "stability", "-o", target])
work("first.mlir")
threads = [threading.Thread(target=work, args=(f"thread{{i}}.mlir",)) for i in range(4)]
[thread.start() for thread in threads]
pid = os.fork()
if pid == 0:
    os._exit(work("child.mlir"))
status = os.waitpid(pid, 0)[1]
[thread.join() for thread in threads]
sys.exit(status != 0)
"""
    environment = {**os.environ, "PYTHONPATH": str(MODEL.parents[1])}
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, timeout=240, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert {path.read_bytes() for path in tmp_path.iterdir()} == {alone} and len(list(tmp_path.iterdir())) == 7


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_at_any_moment_leaves_the_old_file_or_the_new_one(number, tmp_path):
    whole, target = rewritten(tmp_path / "whole.mlir"), tmp_path / "out.mlir"
    draw = random.Random(int(number))
    environment = {**os.environ, "PYTHONPATH": str(MODEL.parents[1])}
    command = [sys.executable, "-m", "hnfc.cli.main", str(MODEL), "-q", "-O", "stability", "-o", str(target)]
    began = time.monotonic()
    subprocess.run(command, env=environment, check=True)
    most = time.monotonic() - began
    for _ in range(8):
        target.write_bytes(b"old")
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        time.sleep(draw.uniform(0.0, most))
        process.send_signal(number)
        words = process.communicate(timeout=60)[1]
        assert target.read_bytes() in (b"old", whole)
        assert "Error" not in words.replace("KeyboardInterrupt", "") or process.returncode < 0
        if number != signal.SIGKILL:
            assert {path.name for path in tmp_path.iterdir()} == {"whole.mlir", "out.mlir"}
