"""Results in notebooks and in print: short, escaped, and with the numbers of the text reports."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

import hnfc
from hnfc.core.notebook import MOST_ROWS, NotebookTable, notebook_html
from hnfc.discovery.discover import discover
from hnfc.dsl.description import rule_line
from hnfc.sharded.analyzing import LayerErrors, ShardedErrors
from hnfc.sharded.solving import LayerFormats, ShardedPrecision

EVIL = "<script>alert(1)</script>\"'&"


class Softmax(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        e = torch.exp(100 * self.inner(x))
        return e / e.sum(-1, keepdim=True)


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        assert tag in ("div", "table", "thead", "tbody", "tr", "th", "td")
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def words_of(result: object) -> str:
    tags = Tags(result._repr_html_())  # type: ignore[attr-defined]
    assert tags.open == []
    assert len(repr(result)) < 300 and "tensor(" not in repr(result) + str(result)
    return " ".join(tags.words)


@pytest.fixture(scope="module")
def model() -> Softmax:
    torch.manual_seed(0)
    return Softmax()


@pytest.fixture(scope="module")
def sample() -> torch.Tensor:
    return torch.linspace(-3, 3, 12).reshape(3, 4)


def test_text_is_escaped() -> None:
    tags = Tags(notebook_html(EVIL, "bad", EVIL, NotebookTable((EVIL,), ((EVIL,),))))
    assert tags.open == [] and sum(EVIL in word for word in tags.words) == 4


def test_long_tables_say_what_is_left_out() -> None:
    assert f"and {100 - MOST_ROWS} more" in notebook_html("x", "plain", NotebookTable(("n",), [(str(i),) for i in range(100)]))
    assert "and 60 more" in notebook_html("x", "plain", NotebookTable(("n",), [("0",)] * MOST_ROWS, 100))
    assert "more" not in notebook_html("x", "plain", NotebookTable(("n",), [("0",)]))


def test_a_difference(model: Softmax, sample: torch.Tensor) -> None:
    found = hnfc.diff(model, hnfc.optimize(model, sample))
    words = words_of(found)
    assert "softmax_fusion" in words and "proved" in words and "not finite" in words
    assert repr(found) == "Difference(1 rewrites in 1 captured calls)"


def test_a_trace(model: Softmax, sample: torch.Tensor) -> None:
    found = hnfc.trace(model, sample)
    assert found.first is not None and found.first.reason in words_of(found) and "overflows" in words_of(found)
    assert "nothing went wrong" in words_of(hnfc.trace(torch.nn.Tanh(), sample))


def test_an_analysis(model: Softmax, sample: torch.Tensor) -> None:
    found = hnfc.analyze(torch.nn.Tanh(), sample, certified=True)
    assert "certified" in words_of(found) and repr(found).startswith("Analysis(certified: 1 values")
    assert "an estimate" in words_of(hnfc.analyze(torch.nn.Linear(4, 4), sample))


def test_formats_of_a_model(sample: torch.Tensor) -> None:
    layers = [layer for _ in range(12) for layer in (torch.nn.Linear(4, 4), torch.nn.Tanh())]
    found = hnfc.PrecisionOptimizer(1e-2).analyze(torch.nn.Sequential(*layers), sample)
    words, lines = words_of(found), str(found).split("\n")
    assert "measured on the samples" in words and "… and" in words
    assert len(lines) <= 64 and "measured on the samples" in lines[-1]
    refused = hnfc.PrecisionOptimizer(1e-12, formats=("bf16",)).analyze(torch.nn.Sequential(*layers), sample)
    assert "no assignment" in words_of(refused) and "any one of these resolves it" in words_of(refused)


def test_rules(tmp_path: Path) -> None:
    (tmp_path / "my.hnf").write_text('rule mine "a < b & <i>"\n    relu(s * x) => s * relu(x)\n')
    found = hnfc.load_rules("stability", tmp_path / "my.hnf")
    assert "a < b & <i>" in words_of(hnfc.load_rules(tmp_path / "my.hnf")) and "REFUTED" in words_of(hnfc.load_rules(tmp_path / "my.hnf"))
    assert "refuted  mine" in str(found) and repr(found).startswith("RuleSet(")


def test_a_rule_with_its_verdict() -> None:
    rules = hnfc.load_rules("fusion")
    judged = rules["log1p_fusion"]
    words = words_of(judged)
    assert "log(1 + x) => log1p(x)" in words and "proved" in words and "Goldberg" in words
    assert len(list(rules)) == len(rules) and str(judged).startswith("log1p_fusion: ")
    with pytest.raises(KeyError, match="log1p_fusion"):
        rules["log1p_fuson"]


def test_a_refuted_rule_shows_its_counterexample(tmp_path: Path) -> None:
    (tmp_path / "a.hnf").write_text('rule a "<b>"\n    sqrt(x * x) => x\n')
    words = words_of(hnfc.load_rules(tmp_path / "a.hnf")["a"])
    assert "a: refuted" in words and "counterexample" in words and "<b>" in words


def test_a_discovery() -> None:
    found = discover("sqrt, square", 2)
    assert found.rules and rule_line(found.rules[0].rule) in words_of(found)
    assert "rules of" in repr(found) and found.rules[0].rule.name in repr(found.rules[0])


def test_a_watched_run_and_its_bad_step(model: Softmax, sample: torch.Tensor, tmp_path: Path) -> None:
    with hnfc.watch(model, folder=str(tmp_path), report=lambda text: None) as watching:
        model(sample).sum().backward()
    words = words_of(watching)
    assert "step 0" in words and words.count("exp overflows") == 1 and repr(watching) == "Watch(Softmax: 0 steps, 1 bad)"
    assert "step 0" in words_of(watching.bad[0])
    again = hnfc.replay(watching.bad[0].folder, model)
    assert "exp overflows" in words_of(again) and repr(again) == "Replay(step 0 of Softmax)"


def test_models_in_folders(tmp_path: Path) -> None:
    layer = LayerErrors("a", "d", 8, error=0.5, added=0.25, worst="exp", worst_error=0.5, largest=2.0, infinite=0)
    assert "0.25" in words_of(ShardedErrors((layer,), {}, "float64")) and "exp: 0.5" in str(ShardedErrors((layer,), {}, "float64"))
    formats = LayerFormats("a", {"w": "int8", "b": "own"}, 4.0, 8.0, 1e-3, 1e-2, 2)
    found = ShardedPrecision((formats,), {}, 1e-2, 1e-3, tmp_path)
    assert "1 in int8" in words_of(found) and "met" in str(found) and "missed" in str(replace(found, measured=1.0))
