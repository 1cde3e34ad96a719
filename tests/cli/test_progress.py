"""Progress, and the words of --quiet and --verbose."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import hnfc as hnfc_python
from hnfc.cli import progress as shown
from hnfc.cli.terminal import Verbosity, speaking
from hnfc.core import progress
from hnfc.core.progress import counted, progressing, stage_of
from tests.terminal import hnfc

PROVED = "rule a\n    log(1 + x) => log1p(x)\n"
OPTIMIZER = hnfc_python.PrecisionOptimizer(1e-2)
X = torch.linspace(-100, 100, 12).reshape(3, 4)
WRONG = "rule a\n    sqrt(x * x) => x\n\ntest a\n    x = [2] gives [3]\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "stage", "counts"),
    [
        ("proving rules: 3 of 12, last softmax …", "proving rules", (3, 12)),
        ("reading …", "reading", None),
        ("size 2: 1,000 of 20,000 terms", "size 2", (1000, 20000)),
    ],
)
def test_a_stage_and_its_counts(text: str, stage: str, counts: tuple[int, int] | None) -> None:
    assert stage_of(text) == stage and counted(text) == counts


def test_a_terminal_shows_the_stage_and_the_time_even_where_no_stage_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(shown, "_WAIT", 0.05)
    monkeypatch.setenv("JPY_PARENT_PID", "1")
    with shown.Progress() as tell:
        tell("searching in a cell of a notebook …")
        time.sleep(0.2)
    assert screen.getvalue() == ""
    monkeypatch.delenv("JPY_PARENT_PID")
    with shown.Progress() as tell:
        tell("searching [x] …")
        time.sleep(0.4)
    assert "searching [x] …" in screen.getvalue() and "0:00:0" in screen.getvalue()


@pytest.mark.parametrize("verbosity", list(Verbosity))
def test_what_is_no_terminal_gets_the_time_of_each_stage_only_if_it_is_wanted(
    verbosity: Verbosity, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shown, "_WAIT", 0)
    with speaking(verbosity), shown.Progress() as tell:
        for text in ("reading …", "proving rules: 0 of 2 …", "proving rules: 1 of 2 …", "writing …"):
            tell(text)
    stages = [line.split(" s  ")[1] for line in capsys.readouterr().err.splitlines()]
    assert stages == (["reading", "proving rules", "writing"] if verbosity == Verbosity.VERBOSE else [])


def test_a_notebook_gets_a_bar_which_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    handle = SimpleNamespace(update=lambda html: drawn.append(html._repr_html_()))

    def display(html: object, display_id: bool) -> object:
        drawn.append(html._repr_html_())  # type: ignore[attr-defined]
        return handle

    monkeypatch.setattr(progress, "_display", lambda: display)
    monkeypatch.setattr(progress, "_WAIT", 0.02)
    monkeypatch.setattr(progress, "_STEP", 0.02)
    with progressing(None, "reading <b> …") as tell:
        time.sleep(0.1)
        tell("proving rules: 3 of 12 …")
        time.sleep(0.1)
    assert "&lt;b&gt;" in drawn[0] and any('value="3" max="12"' in text for text in drawn) and drawn[-1] == ""
    count = len(drawn)
    time.sleep(0.1)
    assert len(drawn) == count


def test_a_callable_comes_before_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_display", lambda: pytest.fail("a bar"))
    texts: list[str] = []
    with progressing(texts.append, "reading …") as tell:
        tell("writing …")
    assert texts == ["reading …", "writing …"]


class Softmax(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)


@pytest.mark.parametrize(
    ("work", "stages"),
    [
        (lambda tell: hnfc_python.optimize(Softmax(), X, progress=tell), ("capturing the model …", "rewriting …")),
        (lambda tell: hnfc_python.trace(Softmax(), X, progress=tell), ("running each operation beside float64 …", "trying rewrites …")),
        (lambda tell: hnfc_python.analyze(Softmax(), X, progress=tell), ("measuring sensitivities …",)),
        (lambda tell: OPTIMIZER.analyze(Softmax(), X / 100, progress=tell), ("measuring values and solving for formats …",)),
        (lambda tell: hnfc_python.load_rules("fusion", progress=tell), ("reading rules …",)),
    ],
    ids=["optimize", "trace", "analyze", "precision", "load_rules"],
)
def test_work_in_python_tells_its_stages(work: Callable[[Any], Any], stages: tuple[str, ...]) -> None:
    texts: list[str] = []
    work(texts.append)
    assert [stage for stage in stages if stage not in texts] == [], texts


def test_a_wrong_argument_is_named_as_ever() -> None:
    with pytest.raises(TypeError, match=r"load_rules\(\) got an unexpected keyword argument 'progres'"):
        hnfc_python.load_rules("fusion", progres=print)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"analyze\(\) missing 1 required positional argument: 'sample'"):
        hnfc_python.analyze(Softmax())  # type: ignore[call-arg]


def test_public_names_are_completed_and_misspelt_ones_are_named() -> None:
    assert {"optimize", "trace", "watch", "PrecisionOptimizer"} <= set(dir(hnfc_python)) and "import_module" not in dir(hnfc_python)
    with pytest.raises(AttributeError) as found:
        hnfc_python.optimise  # noqa: B018
    assert found.value.name == "optimise" and found.value.obj is hnfc_python


def test_quiet_says_nothing_where_all_is_well_and_all_that_is_wrong(tmp_path) -> None:
    (tmp_path / "a.hnf").write_text(PROVED)
    (tmp_path / "b.hnf").write_text(WRONG)
    for command in (["check", "--no-ieee"], ["test"], ["fmt", "--check"]):
        done = hnfc(*command, "a.hnf", "-q", cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert "counterexample" in hnfc("check", "b.hnf", "--no-ieee", "-q", cwd=tmp_path).stderr
    assert "HNF04" in hnfc("test", "b.hnf", "-q", cwd=tmp_path).stderr
    assert "softmax_fusion" in hnfc("rules", "softmax_fusion", "-q", cwd=tmp_path).stdout


def test_verbose_names_options_files_and_times(tmp_path) -> None:
    (tmp_path / "a.hnf").write_text(PROVED)
    (tmp_path / "pyproject.toml").write_text("[tool.hnfc.check]\nlimit = 7\n")
    done = hnfc("check", "a.hnf", "-v", "--no-ieee", cwd=tmp_path)
    for words in ("limit 7.0", "pyproject.toml: limit = 7", "cache: ", " s  in all", "1 proved"):
        assert words in done.stderr, done.stderr
    both = hnfc("check", "a.hnf", "-v", "-q", cwd=tmp_path)
    assert both.returncode == 2 and "not allowed with" in both.stderr


def test_tests_of_rules_tell_their_stages(tmp_path) -> None:
    (tmp_path / "a.hnf").write_text(f"{PROVED}\ntest a\n    x = [1] gives [0.6931471805599453]\n")
    done = hnfc("test", "a.hnf", "-v", cwd=tmp_path)
    assert done.returncode == 0 and " s  running tests" in done.stderr, done.stderr
