"""docs/research.md says what is so."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "research.md"


def test_every_block_runs(capsys) -> None:
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"```(\w*)\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) >= 8
    assert all(language == "python" and block.startswith(">>> ") for language, block in blocks)
    runner = doctest.DocTestRunner()
    names: dict[str, object] = {}
    for number, (_, block) in enumerate(blocks):
        example = doctest.DocTestParser().get_doctest(block, names, f"block {number}", str(PAGE), text[: text.index(block)].count("\n"))
        assert example.examples
        runner.run(example, clear_globs=False)
        names.update(example.globs)
    assert runner.failures == 0, capsys.readouterr().out


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+\.md)\)", PAGE.read_text(encoding="utf-8")):
        assert (PAGE.parent / target).exists(), target
