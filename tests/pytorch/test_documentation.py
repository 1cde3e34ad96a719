"""The pages on PyTorch modules and on precision are programs that run, and print what the pages say."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest
import torch

DOCS = Path(__file__).parent.parent.parent / "docs"
NUMBER = re.compile(r"\d[\d.,]*(e[-+]\d+)?")


@pytest.fixture
def shown(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the blocks of a page print, as one module."""
    torch.manual_seed(0)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "page", raising=False)
    (tmp_path / "page.py").write_text("\n".join(blocks(request.param, "python")), encoding="utf-8")
    importlib.import_module("page")
    return capsys.readouterr().out


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / f"{page}.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("shown", ["pytorch"], indirect=True)
def test_the_page_on_modules(shown: str) -> None:
    for words in ("softmax_fusion", "proved over the reals", "curvature", "exp overflows in", "from not finite to"):
        assert words in shown


@pytest.mark.slow
@pytest.mark.parametrize("shown", ["precision"], indirect=True)
def test_the_page_on_precision(shown: str) -> None:
    """Numbers may differ from one processor to another, words may not."""
    said = "".join(blocks("precision", "text"))
    assert NUMBER.sub("N", " ".join(said.split())) == NUMBER.sub("N", " ".join(shown.split()))


@pytest.mark.parametrize("shown", ["analysis"], indirect=True)
def test_the_page_on_analysis(shown: str) -> None:
    for words in ("an estimate from the samples", "certified", "tanh", "output 0: in ["):
        assert words in shown
