"""The page on JAX is a program that runs, and prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
def test_the_page_on_functions() -> None:
    text = (ROOT / "docs" / "jax.md").read_text(encoding="utf-8")
    program = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for words in ("softmax_fusion", "proved over the reals", "False True", "(2, 10, 16)", "{'b': True, 'w': True}"):
        assert words in done.stdout
