"""Code blocks of the pages: Python runs, commands have only options that there are, TOML and JSON are read."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest
from pygments import lex
from pygments.lexers import get_lexer_by_name

from hnfc.cli.main import _join_ranges
from hnfc.cli.parsing import COMMANDS, command_parser
from hnfc.dsl.parser import parse
from hnfc.dsl.soundness.checking import check

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(page for place in (".", "docs", "examples", "editors/vscode") for page in (ROOT / place).glob("*.md"))
ELSEWHERE = ("jax.md", "jax-and-onnx.md", "research.md")
"""Pages whose programs other tests run and compare."""
PARTS = ("gallery.md", "add-an-operation.md")
"""Pages that show parts of files, which other tests run."""
NETWORK = """import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8))
sample = samples = x = torch.randn(16, 64)
y, loss = torch.randint(8, (16,)), torch.nn.CrossEntropyLoss()
def train(model):
    loss(model(x), y).backward()
"""
LOOP = """import torch
class Policy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(4, 4)
    def forward(self, x):
        return torch.exp(self.head(x))
make_model = Policy
torch.manual_seed(0)
model = make_model()
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
loss_function = torch.nn.functional.mse_loss
loader = [(torch.randn(2, 4) * (1 if n < 95 else 1e4), torch.zeros(2, 4)) for n in range(100)]
"""
PROGRAMS = """from pathlib import Path
Path("roots.fpcore").write_text("(FPCore (x) :pre (< 1 x 1e9) (- (sqrt (+ x 1)) (sqrt x)))")
"""
BEFORE = {
    "README.md": NETWORK, "docs/README.md": NETWORK, "docs/reference.md": NETWORK, "docs/search.md": NETWORK, "docs/watch.md": LOOP,
    "docs/accuracy.md": PROGRAMS,
}  # fmt: skip
"""Names and files that a page takes as given."""
NEEDS = {"docs/watch.md": ("transformers", "pytorch_lightning", "accelerate"), "docs/discover.md": ("egglog",)}
"""Optional packages that a page uses."""
QUICK = "docs/discover.md"


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[tuple[str, str]]:
    """The language and the text of each block."""
    found = re.findall(r"^( *)```(\w*)\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [(language, textwrap.dedent(text)) for _, language, text in found]


WITH_PYTHON = [page for page in PAGES if any(language == "python" for language, _ in blocks(page))]
RUN = [page for page in WITH_PYTHON if page.name not in (*ELSEWHERE, *PARTS)]


@pytest.mark.parametrize("page", [p if name_of(p) == QUICK else pytest.param(p, marks=pytest.mark.slow) for p in RUN], ids=name_of)
def test_python_runs(page: Path, tmp_path: Path) -> None:
    for package in NEEDS.get(name_of(page), ()):
        pytest.importorskip(package)
    program = BEFORE.get(name_of(page), "") + "\n".join(text for language, text in blocks(page) if language == "python")
    (tmp_path / "page.py").write_text(program)
    # the package of this checkout, from a folder of its own
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "page.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
def test_python_is_python(page: Path) -> None:
    for language, text in blocks(page):
        if language == "python" and not text.startswith(">>>"):
            ast.parse(text)


def commands(text: str) -> list[list[str]]:
    """The words of each command `hnfc …` in a text, without comments and continuations."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        for part in re.split(r" ;|\|", re.sub(r"\s+#.*|\s{3,}\S.*", "", line)):
            words = re.match(r'\s*(?:\$ |eval "\$\()?hnfc (.+)', part)
            if words is not None:
                found.append(shlex.split(words[1].rstrip(')"') if part.lstrip().startswith("eval") else words[1]))
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_have_only_options_that_there_are(page: Path) -> None:
    for language, text in blocks(page):
        for words in commands(text) if language in ("", "bash", "sh", "console") else []:
            given = _join_ranges(words)
            command = given.pop(0) if given[0] in COMMANDS else "model"
            if words[0] in ("watch,", "help"):
                continue
            command_parser(command).parse_args([word for word in given if word not in ("…", "...")])


def test_commands_are_found() -> None:
    found = [words for page in PAGES for language, text in blocks(page) for words in commands(text)]
    assert len(found) > 40 and ["doctor"] in found and ["completion", "bash"] in found
    with pytest.raises(SystemExit):
        command_parser("check").parse_args(["a.hnf", "--no-such-option"])


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_settings_are_read(page: Path) -> None:
    for language, text in blocks(page):
        if language == "toml":
            tomllib.loads(text)
        elif language == "json":
            json.loads(text)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_rules_are_marked_as_such_and_are_read(page: Path) -> None:
    for language, text in blocks(page):
        begins = re.match(r"(#.*\n)*((rule|def|test|format|target|library) [a-zA-Z]|import \")", text) is not None
        assert language == "hnf" if begins and language in ("", "hnf") else language != "hnf", text
        if language == "hnf":
            parse(text, page.name)


def test_the_lexer_of_rules_is_known_to_pygments() -> None:
    text = next(text for page in PAGES for language, text in blocks(page) if language == "hnf")
    kinds = {str(kind) for kind, _ in lex(text, get_lexer_by_name("hnf"))}
    assert any("Keyword" in kind for kind in kinds) and "Token.Error" not in kinds


def test_every_page_with_code_is_run_somewhere() -> None:
    texts = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name in ELSEWHERE if f'"{name}"' not in texts.replace(str(ELSEWHERE), "")] == []


def test_rules_of_the_tutorial_have_the_verdicts_that_it_tells() -> None:
    rules = [text for _, text in blocks(ROOT / "docs" / "tutorial.md") if text.startswith("rule ")]
    found = [check(re.split(r"^test ", text, flags=re.MULTILINE)[0], timeout_ms=60_000).status.value for text in rules]
    assert found == ["PROVED", "REFUTED", "PROVED", "REFUTED", "PROVED"]
