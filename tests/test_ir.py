"""Runs lit over tests/ir: the IR as text, pass by pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "ir"


def test_the_ir_files() -> None:
    lit = [sys.executable, "-c", "import sys; from lit.main import main; sys.exit(main())"]
    command = [*lit, "-v", "--workers=2", "--no-progress-bar", str(FOLDER)]
    environment = {**os.environ, "LIT_OPTS": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Passed" in done.stdout
