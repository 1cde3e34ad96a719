"""Runs lit over tests/ir: the IR as text, pass by pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hnfc.dialects.num import OPERATIONS
from hnfc.pipeline.passes import PASSES
from hnfc.pipeline.universe import HNFC_UNIVERSE

FOLDER = Path(__file__).parent / "ir"


def test_the_ir_files() -> None:
    lit = [sys.executable, "-c", "import sys; from lit.main import main; sys.exit(main())"]
    command = [*lit, "-v", "--workers=2", "--no-progress-bar", str(FOLDER)]
    environment = {**os.environ, "LIT_OPTS": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Passed" in done.stdout


def test_every_family_has_a_round_trip() -> None:
    """The operations of a family, one by one, are in tests/backend/test_round_trip.py."""
    lines = (FOLDER / "ops.mlir").read_text(encoding="utf-8").splitlines()
    written = {word.removeprefix("num.") for line in lines if not line.startswith("//") for word in line.split()}
    families = {operation.__module__ for operation in OPERATIONS.values()}
    assert families == {OPERATIONS[name].__module__ for name in written & OPERATIONS.keys()}


def test_every_pass_has_a_file() -> None:
    runs = [line for path in FOLDER.glob("*.mlir") for line in path.read_text(encoding="utf-8").splitlines() if "RUN:" in line]
    assert [name for name in PASSES if not any(name in run for run in runs)] == []


def test_tools_of_xdsl_find_passes_by_their_names() -> None:
    assert {name: load().name for name, load in HNFC_UNIVERSE.all_passes.items()} == {name: name for name in HNFC_UNIVERSE.all_passes}
    assert HNFC_UNIVERSE.all_passes.keys() == PASSES.keys() - {"import-torch", "cse-rewritten", "export-torch"}
