"""The page on PyTorch modules is a program that runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

PAGE = Path(__file__).parent.parent.parent / "docs" / "pytorch.md"


def test_the_page_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    monkeypatch.syspath_prepend(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "page.py").write_text("\n".join(blocks), encoding="utf-8")
    import page  # noqa: F401  (it exists now)

    shown = capsys.readouterr().out
    for words in ("softmax_fusion", "proved over the reals", "curvature", "exp overflows in", "from not finite to"):
        assert words in shown
