"""`hnfc.watch` on two ranks: all leave the loop together, the one with the bad batch says why, and training is the same to the bit."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.watching.ranks import FAULTY, STEPS

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


@pytest.fixture(scope="module", params=["DDP", "FSDP2"])
def ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The runs of both ranks."""
    folder, port = tmp_path_factory.mktemp("ranks"), str(free_port())
    command = [sys.executable, "-W", "ignore", "-m", "tests.watching.ranks"]
    running = [
        subprocess.Popen([*command, str(rank), port, request.param, str(folder / f"{rank}.json")], cwd=ROOT, stderr=subprocess.PIPE)
        for rank in range(2)
    ]
    try:
        errors = [process.communicate(timeout=240)[1].decode() for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0, 0], "\n".join(errors)
    return request.param, [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


def test_what_goes_wrong_on_one_rank(ranks: Any) -> None:
    kind, (first, second) = ranks
    good, bad = first["batch"], second["batch"]
    assert good["step"] == bad["step"] == FAULTY
    assert "the gradient" in good["text"] and "the batch of this rank is right by itself" in good["text"]
    assert "the loss is infinite" in bad["text"] and bad["operation"] == "exp"
    assert "exp" in (ROOT / bad["source"].partition(":")[0]).read_text().splitlines()[int(bad["source"].partition(":")[2]) - 1]
    if kind == "FSDP2":
        assert any("float64 holds" in remedy and "50 steps of training" in remedy for remedy in bad["remedies"]), bad["text"]
    assert good["parameters"] == bad["parameters"]  # those before the step


def test_what_the_optimizer_makes(ranks: Any) -> None:
    for run in ranks[1]:
        assert run["rate"]["step"] == FAULTY
        assert "the gradients were finite: the optimizer made it" in run["rate"]["text"]
        assert "the learning rate is nan" in run["rate"]["text"]


def test_training_is_the_same(ranks: Any) -> None:
    for run in ranks[1]:
        assert run["none"]["step"] == STEPS and "nothing went wrong" in run["none"]["text"]
        assert run["none"]["parameters"] == run["bare"]["parameters"]
