"""Numbers of pages are those of the text and JSON reports of the same run."""

from __future__ import annotations

import html
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from hnfc.accuracy.improving import improve
from hnfc.dsl.rulebook import shipped
from hnfc.frontend.fpcore import read_programs
from hnfc.pages.bits import element_with, rule_plots
from hnfc.pages.plots import growth_spec
from hnfc.pages.precision import _bytes_fact
from hnfc.pages.programs import _bounded_headline
from tests.terminal import hnfc

ATTENTION = Path(__file__).parents[2] / "examples" / "naive_attention.mlir"


def text_of(file: Path) -> str:
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", file.read_text(), flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", body)))


def data_of(file: Path) -> dict:
    found = re.search(r'id="data">(.*?)</script>', file.read_text(), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_a_rewrite(tmp_path: Path) -> None:
    done = hnfc(ATTENTION, "--range", "-40:40", "-o", "o.mlir", "--json", "r.json", "--report", "r.html", cwd=tmp_path)
    words, page = json.loads((tmp_path / "r.json").read_text()), text_of(tmp_path / "r.html")
    (output,), (rewrite,) = words["outputs"], words["rewrites"]
    assert f"{output['error_after']['relative']:.1e}" in page and f"{rewrite['error_after']['relative']:.1e}" in page
    assert f"{output['error_before']['not_finite']} of {output['error_before']['elements']} not finite" in page
    for line in done.stderr.splitlines():
        for number in re.findall(r"\d\.\de-\d\d", line):
            assert number in page


def test_an_analysis(tmp_path: Path) -> None:
    hnfc("analyze", ATTENTION, "--range", "-1:1", "--json", "r.json", "--report", "r.html", cwd=tmp_path)
    words, graph = json.loads((tmp_path / "r.json").read_text()), data_of(tmp_path / "r.html")["graphs"]["graph-0"]
    nodes = [node for node in graph["nodes"] if "error" in node["f"]]
    assert [(n["o"], n["f"]["error"], *n["f"]["range"][:2]) for n in nodes] == [
        (v["operation"], v["error"], v["low"], v["high"]) for v in words["values"]
    ]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("more", [(), ("--formats", "bf16", "--target-accuracy", "1e-7")], ids=["found", "refused"])
def test_formats(tmp_path: Path, more: tuple[str, ...]) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "s.npz", **{f"arg{i}": rng.normal(size=(1, 2, 8, 16)).astype(np.float32) for i in range(3)})
    hnfc("precision", ATTENTION, "--calibrate", "s.npz", *more, "--json", "r.json", "--report", "r.html", cwd=tmp_path)
    words, page = json.loads((tmp_path / "r.json").read_text()), text_of(tmp_path / "r.html")
    if more:
        assert all(" ".join(reason.split()) in page for reason in words["reasons"])
        assert all(f"{edge['bits']:+d}" in page for edge in words["cycle"])
        return
    assert f"{words['bytes']:,.0f} bytes" in page
    nodes = data_of(tmp_path / "r.html")["graphs"]["graph-0"]["nodes"]
    assert [node["f"]["format"] for node in nodes] == [site["format"] for site in words["sites"]]


def test_points_of_plots_have_the_mean_of_the_report(tmp_path: Path) -> None:
    path = tmp_path / "p.fpcore"
    path.write_text('(FPCore (x) :name "a" :pre (<= 1 x 1e15) (- (sqrt (+ x 1)) (sqrt x)))')
    improved = improve(next(iter(read_programs(str(path), []))))
    before, after = improved.bits()
    assert before.mean() == pytest.approx(improved.before) and after.mean() == pytest.approx(improved.after)
    assert improved.improved and len(before) == len(improved.test)


def test_analyzed_programs_have_plots_of_the_errors_that_accuracy_starts_from(tmp_path: Path) -> None:
    path = tmp_path / "p.fpcore"
    path.write_text(
        '(FPCore (x) :name "roots" :pre (<= 1 x 1e15) (- (sqrt (+ x 1)) (sqrt x)))\n'
        '(FPCore (x y) :name "sum" :pre (and (<= 1 x 2) (<= 1 y 2)) (+ x y))\n'
        '(FPCore (x) :name "narrow" :precision binary32 :pre (<= 1 x 2) (+ x 1))\n(FPCore () :name "number" (sqrt 2))\n'
    )
    assert hnfc("analyze", "p.fpcore", "--report", "r.html", cwd=tmp_path).returncode == 0
    plots = data_of(tmp_path / "r.html")["plots"]
    assert set(plots) == {"plot-roots-x", "plot-sum-x", "plot-sum-y"}
    bits = {name: [row["bits"] for row in plot["data"]["values"]] for name, plot in plots.items()}
    # a difference of equal numbers loses nearly all, a sum of two positive ones less than a bit
    assert max(bits["plot-roots-x"]) > 40 and max(bits["plot-sum-y"]) <= 1
    improved = improve(next(iter(read_programs(str(path), []))))
    assert bits["plot-roots-x"] == [round(float(lost), 2) for lost in improved.bits()[0]]
    page = text_of(tmp_path / "r.html")
    assert "Bits of error of roots against x at 1000 points: points and their means." in page and "before and after" not in page
    assert page.count("Errors were not measured:") == 2


def test_pointwise_rewrites_have_plots_of_their_errors(tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(
        "func.func @main(%x: !torch.vtensor<[64],f32>) -> !torch.vtensor<[64],f32> {\n"
        "  %n = torch.constant.int 1\n  %f = torch.constant.float 1.0\n"
        "  %0 = torch.aten.exp %x : !torch.vtensor<[64],f32> -> !torch.vtensor<[64],f32>\n"
        "  %1 = torch.aten.sub.Scalar %0, %f, %n : !torch.vtensor<[64],f32>, !torch.float, !torch.int -> !torch.vtensor<[64],f32>\n"
        "  return %1 : !torch.vtensor<[64],f32>\n}\n"
    )
    hnfc("m.mlir", "--range", "-1:1", "-o", "o.mlir", "--report", "r.html", cwd=tmp_path)
    (plot,) = data_of(tmp_path / "r.html")["plots"].values()
    rows = plot["data"]["values"]
    lost = {form: max(row["bits"] for row in rows if row["form"] == form) for form in ("before", "after")}
    # exp(x) - 1 in float32 loses digits near 0, expm1 all of them
    assert lost["before"] > 9 and lost["after"] < 3


def test_rules_over_axes_have_no_plots() -> None:
    rules = {rule.name: rule for rule in shipped().rules}
    assert rule_plots(rules["softmax_fusion"], "f32", False, 40) == []
    assert rule_plots(rules["log1p_fusion"], "f16", False, 40) and rule_plots(rules["log1p_fusion"], "f64", True, 40)
    assert element_with(2.0**-8) == "bf16"


def test_a_plot_of_errors_has_few_lines_at_powers_of_ten() -> None:
    rows = [{"n": n, "operation": "exp", "at": "a.py:1", "error": error} for n, error in enumerate((1e-12, 3e-5, 2e7), 1)]
    axis = growth_spec(rows)["encoding"]["y"]["axis"]
    assert axis["values"][0] == 1e-12 and axis["values"][-1] >= 1e6 and len(axis["values"]) <= 9
    assert growth_spec([])["encoding"]["y"]["axis"]["values"] == [1.0]


def test_bytes_of_a_value_are_exact() -> None:
    assert _bytes_fact(1024.0)[2] == "1,024"


@pytest.mark.parametrize(("bound", "words"), [(math.inf, "No bound was found for the error of `p`"), (1e-9, "is at most 1e-09.")])
def test_a_program_without_a_bound_is_called_so(bound: float, words: str) -> None:
    assert words in _bounded_headline("p", bound, 1)
