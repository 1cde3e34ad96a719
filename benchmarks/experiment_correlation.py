"""Does what a measure loses by rewriting tell by how much the error falls? Random programs, each before and after `-O stability`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from experiment_graphs import COLUMNS, LEAST, MOST, ROWS, UNSTABLE, drawn
from experiment_measures import MEASURES, UNIT, Function, Pair, both, largest_relative
from experiment_pages import Claim, Data, Section, number, plain, table
from experiment_pictures import scatter

from hnfc.core.errors import ModelError
from hnfc.pytorch.settings import Settings
from hnfc.rewriter import load_rules

SEEDS = (1, 2, 3)
GRAPHS = 500
RESAMPLES = 2000
TARGET = 0.8
Array: TypeAlias = "np.ndarray[Any, Any]"
_BOUNDED = ("error", "certified", "first_order", "each_alone")
"""What is a relative error, and is taken to be at least u and at most 1/u."""


def measure(graphs: int = GRAPHS, seeds: Sequence[int] = SEEDS, progress: Callable[[str], None] = lambda text: None) -> Data:
    """Of every graph of every seed that was kept: its rules, its errors and its measures, before and after; and why others were not."""
    settings = Settings(load_rules("stability"))
    runs = []
    for seed in seeds:
        kept: list[Data] = []
        dropped: Counter[str] = Counter()
        taken_back = 0
        for index in range(graphs):
            if index % 50 == 0:
                progress(f"seed {seed}, graph {index} of {graphs}")
            found = _graph(seed, index, settings)
            if isinstance(found, str):
                dropped[found] += 1
            else:
                taken_back += found.pop("taken back")
                kept.append(found)
        runs.append({"seed": seed, "drawn": graphs, "dropped": dict(dropped), "taken back": taken_back, "graphs": kept})
    return {"runs": runs}


def _graph(seed: int, index: int, settings: Settings) -> Data | str:
    """One graph, or why it is left out."""
    model, inputs = drawn(seed, index)
    try:
        pair = both(model, inputs, settings, _looked)
    except ModelError:
        return "could not be captured"
    if not pair.rules:
        return "no rule ran"
    if not LEAST <= pair.operations <= MOST:
        return f"fewer than {LEAST} or more than {MOST} operations"
    errors = _errors(pair)
    if errors is None:
        return "the true value is not decided, not finite or 0 somewhere"
    measures = {name: [pair.before[name], pair.after[name]] for name in MEASURES}
    if any(not 0 < x < math.inf for name, both in measures.items() if name not in _BOUNDED for x in both):
        return "a curvature or a condition number is 0 or infinite"
    numbers = {name: [plain(x) for x in both] for name, both in {"error": errors, **measures}.items()}
    kinds = Counter(step.kind for step in model.steps if step.kind in UNSTABLE)
    return {"index": index, "operations": pair.operations, "unstable": dict(kinds), "rules": pair.rules,
            "taken back": bool(pair.taken_back), **numbers}  # fmt: skip


def _looked(function: Function) -> Data:
    return {"truth": function.exact(), "computed": function.run(), **{name: find(function) for name, (_, find) in MEASURES.items()}}


def _errors(pair: Pair) -> list[float] | None:
    """Before and after, against the value of the original over the reals."""
    truth = pair.before["truth"]
    if truth is None or not np.isfinite(truth).all() or np.any(np.abs(truth) < np.finfo(np.float32).tiny):
        return None
    return [largest_relative(side["computed"], truth) for side in (pair.before, pair.after)]


# statistics


def pearson(x: Array, y: Array) -> float:
    """Σ(x - x̄)(y - ȳ)/√(Σ(x - x̄)²Σ(y - ȳ)²); NaN where one of them is constant."""
    a, b = x - x.mean(), y - y.mean()
    size = math.sqrt(float((a * a).sum()) * float((b * b).sum()))
    return float((a * b).sum()) / size if size else math.nan


def spearman(x: Array, y: Array) -> float:
    """The correlation of the ranks, equal values having the mean of theirs."""
    return pearson(_ranks(x), _ranks(y))


def _ranks(x: Array) -> Array:
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse], np.float64)


def interval(x: Array, y: Array, resamples: int = RESAMPLES) -> tuple[float, float]:
    """The middle 95 % of Pearson's r over samples drawn from the pairs with replacement (Efron's percentile bootstrap)."""
    rng = np.random.default_rng(0)
    picks = rng.integers(0, len(x), (resamples, len(x)))
    found = [r for r in (pearson(x[pick], y[pick]) for pick in picks) if not math.isnan(r)]
    return (float(np.quantile(found, 0.025)), float(np.quantile(found, 0.975))) if found else (math.nan, math.nan)


def logs(graphs: Sequence[Data], name: str, most: float = 1 / UNIT) -> Array:
    """log₁₀ before and after, relative errors being cut to [u, most]; a column for each."""
    values = np.array([[number(x) for x in graph[name]] for graph in graphs], np.float64).reshape(-1, 2)
    return np.asarray(np.log10(np.clip(values, UNIT, most) if name in _BOUNDED else values))


def reduction(graphs: Sequence[Data], name: str, most: float = 1 / UNIT) -> Array:
    """log₁₀(before / after)."""
    both = logs(graphs, name, most)
    return np.asarray(both[:, 0] - both[:, 1])


def finite(graphs: Sequence[Data]) -> list[Data]:
    """Those whose result was finite before they were rewritten."""
    return [graph for graph in graphs if math.isfinite(number(graph["error"][0]))]


# the page


def section(data: Data) -> Section:
    pictures = {f"correlation-{name}.svg": _picture(data["runs"][0], name) for name in MEASURES}
    links = "\n".join(f"![{title}](experiments/correlation-{name}.svg)" for name, (title, _) in MEASURES.items())
    text = "\n\n".join([_method(), *(_run(run) for run in data["runs"]), _changes(data["runs"]), links])
    return Section(text, _claims(data["runs"]), pictures)


def _method() -> str:
    kinds = ", ".join(UNSTABLE)
    return (
        f"Programs of {LEAST} to {MOST} operations on tensors of {ROWS}×{COLUMNS} normally distributed numbers, in float32, drawn by a "
        f"seed, before anything was measured (`benchmarks/experiment_graphs.py`). Among plain operations they have some of: {kinds}. Each "
        "is rewritten with `stability`, which takes back rules that make the result worse on the sample. The error is the largest relative "
        "error of an element of the result, as torch computes it, against the value over the reals by ball arithmetic (240 bits). Errors, "
        "bounds and estimates count as at least u = 2⁻²⁴ and at most 1/u, which is also what a result counts for that is not finite; "
        "curvatures are not cut.\n\n*r* is Pearson's correlation of log₁₀(measure before / after) with log₁₀(error before / after), in "
        "brackets the middle 95 % of 2000 bootstrap samples; *r where finite* leaves out programs whose result was not finite; *r, all "
        "above 1 as 1* has 1 for 1/u, at which no digit is right either; *r of the error itself* correlates the logarithm of a measure "
        "with that of the error, before rewriting. The bound and the estimate are those of `hnfc.analyze`, element by element; the "
        "estimate is made in float64, and infinite where an operation overflows float32, even if that does no harm, as in 1/(1 + eˣ). The "
        "last measure rounds one result after another to float32, all else being in float64. It was added after the others had been seen "
        "with seeds 1 and 2; seed 3 was drawn afterwards."
    )


def _run(run: Data) -> str:
    graphs, before = run["graphs"], finite(run["graphs"])
    dropped = "; ".join(f"{reason}: {count}" for reason, count in sorted(run["dropped"].items())) or "none"
    head = (
        f"**Seed {run['seed']}**: {run['drawn']} programs, {len(graphs)} kept ({len(graphs) - len(before)} of them not finite before). "
        f"Left out – {dropped}. In {run['taken back']} of the kept ones a rule was taken back."
    )
    return head + "\n\n" + table(
        ["measure", "r", "r where finite", "Spearman's ρ", "r, all above 1 as 1", "r of the error itself"],
        [_row(graphs, before, name) for name in MEASURES],
    )  # fmt: skip


def _row(graphs: Sequence[Data], before: Sequence[Data], name: str) -> list[str]:
    x, y = reduction(graphs, name), reduction(graphs, "error")
    some, other = reduction(before, name), reduction(before, "error")
    return [
        MEASURES[name][0], _with_interval(x, y), _with_interval(some, other), f"{spearman(x, y):.2f}",
        f"{pearson(reduction(graphs, name, 1.0), reduction(graphs, 'error', 1.0)):.2f}",
        f"{pearson(logs(graphs, name)[:, 0], logs(graphs, 'error')[:, 0]):.2f}",
    ]  # fmt: skip


def _with_interval(x: Array, y: Array) -> str:
    low, high = interval(x, y)
    return f"{pearson(x, y):.2f} [{low:.2f}, {high:.2f}]"


def _changes(runs: Sequence[Data]) -> str:
    """What became of curvature and error together."""
    rows = []
    for run in runs:
        curvature, error = reduction(run["graphs"], "curvature"), reduction(run["graphs"], "error")
        bend = [curvature > 0.01, abs(curvature) <= 0.01, curvature < -0.01]
        fell = error > math.log10(2)
        rose = error < -math.log10(2)
        for name, mask in zip(("fell", "stayed", "rose"), bend, strict=True):
            rows.append([run["seed"], name, int((mask & fell).sum()), int((mask & ~fell & ~rose).sum()), int((mask & rose).sum())])
    note = (
        "How many programs had which curvature and which error afterwards; an error fell or rose if it changed by more than a factor of 2."
    )
    return note + "\n\n" + table(["seed", "curvature", "error fell", "error stayed", "error rose"], rows)


def _picture(run: Data, name: str) -> str:
    graphs = run["graphs"]
    points = list(zip(reduction(graphs, name).tolist(), reduction(graphs, "error").tolist(), strict=True))
    was_finite = [math.isfinite(number(graph["error"][0])) for graph in graphs]
    title = MEASURES[name][0]
    groups = {
        "finite before": [p for p, good in zip(points, was_finite, strict=True) if good],
        "not finite before": [p for p, good in zip(points, was_finite, strict=True) if not good],
    }
    label = "log₁₀ of how many times smaller the measure became"
    return scatter(f"{title}: r = {pearson(*map(np.array, zip(*points, strict=True))):.2f}", label, "log₁₀ (error before / after)", groups)


def _claims(runs: Sequence[Data]) -> list[Claim]:
    def found(name: str) -> list[float]:
        return [pearson(reduction(run["graphs"], name), reduction(run["graphs"], "error")) for run in runs]

    many = all(len(run["graphs"]) >= 300 for run in runs)
    count = f"{', '.join(str(len(run['graphs'])) for run in runs)} programs"
    target = f"r > {TARGET}, at least 300 graphs"
    result = []
    for name, (title, _) in MEASURES.items():
        rs = found(name)
        reached = sum(r > TARGET for r in rs) if many else 0
        who = "The sources: reducing" if name == "curvature" else "Instead: reducing"
        result.append(Claim(f"{who} {title} goes with reducing the error", target, ", ".join(f"{r:.3f}" for r in rs) + f" ({count})",
                            reached, len(rs)))  # fmt: skip
    return result
