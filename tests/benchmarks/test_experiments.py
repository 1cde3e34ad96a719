"""The experiments measure what they say: seeds decide what is drawn, statistics are NumPy's and SciPy's, and each part fills its page."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import numpy as np
import pytest
import scipy.stats
import torch

from hnfc.formats.rounding import round_to

ROOT = Path(__file__).parents[2]
torch.set_num_threads(1)


@pytest.fixture(scope="module", autouse=True)
def beside_each_other() -> Iterator[None]:
    """Benchmarks import each other as they do when they are run."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield
    sys.path.remove(str(ROOT / "benchmarks"))


@pytest.fixture(scope="module")
def experiments(beside_each_other: None) -> ModuleType:
    import experiments

    return experiments


@pytest.fixture(scope="module")
def found(experiments: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder to which a short run of the parts without scikit-learn has written."""
    folder = tmp_path_factory.mktemp("experiments")
    for part in ("patterns", "errors", "correlation"):
        experiments.main([part, "--quick", "--out", str(folder / "page"), "--data", str(folder / "data")])
    return folder


# programs


def test_a_program_depends_on_its_seed_alone() -> None:
    from experiment_graphs import drawn

    first, inputs = drawn(3, 5)
    second, again = drawn(3, 5)
    assert first.steps == second.steps and all(map(torch.equal, inputs, again))
    assert drawn(3, 6)[0].steps != first.steps and drawn(4, 5)[0].steps != first.steps


def test_programs_are_what_is_said_of_them() -> None:
    from experiment_graphs import KINDS, UNSTABLE, drawn

    for index in range(30):
        model, inputs = drawn(7, index)
        assert any(step.kind in UNSTABLE for step in model.steps)
        assert sum(KINDS[step.kind].operations for step in model.steps) >= 5
        used = {operand for step in model.steps for operand in step.operands}
        assert used == set(range(len(inputs) + len(model.steps) - 1)), "every value but the last is used"
        assert torch.isfinite(model(*(x.double() for x in inputs))).all()


def test_every_unstable_formula_comes() -> None:
    from experiment_graphs import UNSTABLE, drawn

    assert {step.kind for index in range(200) for step in drawn(7, index)[0].steps} >= set(UNSTABLE)


# statistics


def test_correlations_are_those_of_scipy() -> None:
    from experiment_correlation import pearson, spearman

    rng = np.random.default_rng(0)
    for scale in (0.1, 1.0, 10.0):
        x = np.round(rng.standard_normal(60), 1)  # with equal values
        y = x + scale * rng.standard_normal(60)
        assert pearson(x, y) == pytest.approx(scipy.stats.pearsonr(x, y).statistic)
        assert spearman(x, y) == pytest.approx(scipy.stats.spearmanr(x, y).statistic)
    assert math.isnan(pearson(x, np.ones(60)))


def test_the_interval_holds_the_true_correlation_about_as_often_as_it_says() -> None:
    from experiment_correlation import interval

    rng = np.random.default_rng(1)
    held = 0
    for _ in range(100):
        x, noise = rng.standard_normal((2, 50))
        low, high = interval(x, 0.6 * x + 0.8 * noise, resamples=200)
        held += low <= 0.6 <= high
    assert 85 <= held <= 99


def test_errors_are_cut_and_curvatures_are_not() -> None:
    from experiment_correlation import reduction

    graphs = [{"error": ["inf", 1e-12], "curvature": [1e200, 1e-3]}]
    assert reduction(graphs, "error") == pytest.approx([48 * math.log10(2)])
    assert reduction(graphs, "error", 1.0) == pytest.approx([24 * math.log10(2)])
    assert reduction(graphs, "curvature") == pytest.approx([203])


# measures


class Tail(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(1 + torch.exp(x))


def test_estimates_foretell_the_error_of_one_formula() -> None:
    from experiment_measures import MEASURES, both, largest_relative

    from hnfc.pytorch.settings import Settings
    from hnfc.rewriter import load_rules

    def look(function):  # type: ignore[no-untyped-def]
        return function.exact(), function.run(), {name: find(function) for name, (_, find) in MEASURES.items()}

    pair = both(Tail(), (torch.tensor([-9.0, -5.0, -1.0]),), Settings(load_rules("stability")), look)
    assert pair.rules == ["softplus_fusion"]
    truth = pair.before[0]
    np.testing.assert_allclose(truth, np.log1p(np.exp([-9.0, -5.0, -1.0])))
    for side in (pair.before, pair.after):
        error, found = largest_relative(side[1], truth), side[2]
        assert error <= found["certified"]
        for name in ("first_order", "each_alone"):
            assert found[name] / 20 <= error <= 20 * found[name]
    assert pair.before[2]["first_order"] > 100 * pair.after[2]["first_order"]


def test_what_is_not_finite_has_no_finite_error() -> None:
    from experiment_measures import largest_relative

    assert largest_relative(np.array([1.0, np.nan]), np.array([1.0, 2.0])) == math.inf
    assert largest_relative(np.array([1.0, 3.0]), np.array([1.0, 2.0])) == 0.5
    assert largest_relative(np.array([1e-9]), np.array([2e-9]), least=1e-6) == pytest.approx(1e-3)


# claims and pages


def test_a_verdict_is_counted() -> None:
    from experiment_pages import Claim

    assert [Claim("", "", "", n, 3).verdict for n in (3, 2, 0)] == ["holds", "falls short: 2 of 3", "does not hold"]


def test_a_pattern_that_was_not_fixed_is_said_not_to_be() -> None:
    from experiment_patterns import section

    row = {"name": "a", "source": "b", "level": "all", "rules": [], "unit": 2.0**-24, "elements": 4, "not finite": [2, 2],
           "error": ["inf", "inf"], "finite error": [1e-7, 1e-7], "achievable": 1e-7, "curvature": [1.0, 1.0]}  # fmt: skip
    good = {**row, "name": "c", "error": ["inf", 1e-7], "not finite": [2, 0], "curvature": [1e9, 1.0]}
    found = section({"patterns": [row, good], "levels": ["all"]})
    assert "**no**" in found.text and "2 of 4 not finite" in found.text
    assert found.claims[0].measured.startswith("1 of 2") and found.claims[0].measured.endswith("not fixed: a")


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("part", ["patterns", "errors", "correlation"])
def test_each_part_fills_its_section(experiments: ModuleType, found: Path, part: str) -> None:
    data, section = experiments.sections(found / "data")[part]
    assert section.claims and section.pictures and "| --- |" in section.text
    assert data["options"], "a short run says that it is one"
    for name, picture in section.pictures.items():
        ElementTree.fromstring(picture)
        assert f"](experiments/{name})" in section.text and len(picture) < 60_000
        assert (found / "page" / name).read_text(encoding="utf-8") == picture


@pytest.mark.slow
@pytest.mark.slow
def test_the_patterns_that_were_tried_are_fixed(found: Path) -> None:
    rows = json.loads((found / "data" / "patterns.json").read_text(encoding="utf-8"))["found"]["patterns"]
    assert [row["rules"] for row in rows] == [["softmax_fusion"], ["log_of_softmax"], ["logsumexp_fusion"], ["softplus_fusion"]]
    assert all(row["not finite"][0] > 0 and row["not finite"][1] == 0 for row in rows)


@pytest.mark.slow
@pytest.mark.slow
def test_the_page_is_of_the_data_and_names_no_folder(experiments: ModuleType, found: Path) -> None:
    page = (found / "page.md").read_text(encoding="utf-8")
    assert page == experiments.page(experiments.sections(found / "data"), "page")
    assert experiments.COMMAND in page and "A short run" in page
    for text in (page, *(f.read_text(encoding="utf-8") for f in (found / "page").iterdir())):
        assert str(found) not in text and str(ROOT) not in text and str(Path.home()) not in text


def test_the_page_in_the_documentation_is_of_a_whole_run() -> None:
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    assert "A short run" not in page and "<!-- generated by" in page
    assert str(ROOT) not in page
    for part in ("## Ten known", "## Attention", "## Curvature", "## Networks", "## What this says"):
        assert part in page


# networks


def test_both_ways_of_writing_are_one_network() -> None:
    from experiment_nets import NETWORKS, network, with_parameters_of

    images = 16 * torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    for name in NETWORKS:
        torch.manual_seed(0)
        own = network(name, formulas=False).eval()
        for training in (True, False):
            written = with_parameters_of(own, name, formulas=True)
            found = [way.double().train(training)(images.double()) for way in (own, written)]
            torch.testing.assert_close(*found, rtol=1e-6, atol=1e-6)


def test_rounding_to_eight_bits_is_that_of_the_formats() -> None:
    from experiment_nets import rounded

    x = torch.linspace(-6.0, 6.0, 997)
    torch.testing.assert_close(rounded(x, 0.0625), round_to(x, "int8_affine(0.0625)").clamp(min=-127 * 0.0625))


@pytest.mark.slow
def test_a_network_is_measured_in_every_way(experiments: ModuleType) -> None:
    pytest.importorskip("sklearn")
    import experiment_network_page

    data = experiments.measured("networks", quick=True)["found"]
    (network,) = data["networks"]
    assert set(network["results"]) == {"float64", "float16", "int8"}
    accuracies = {found["accuracy"] for found in network["results"]["float64"].values()}
    assert len(accuracies) == 1 and accuracies.pop() > 0.5, "rewriting changes nothing in float64"
    assert list(network["rules"]["each"]) == ["softmax_fusion", "log_of_softmax"]
    section = experiment_network_page.section(json.loads(json.dumps(data)))
    assert section.claims and "`log_of_softmax`" in section.text
    ElementTree.fromstring(section.pictures["networks.svg"])
