"""`hnfc.optimize`, and `GraphRewriter`, which runs a set of rules on PyTorch modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from hnfc.analysis.curvature import Curvature
from hnfc.core.progress import Progress, reporting
from hnfc.egraph.search import search_of
from hnfc.frontend.pytorch import Shapes
from hnfc.pipeline.rulesets import RuleSet, chosen_rules
from hnfc.pytorch import measures
from hnfc.pytorch.differences import diff
from hnfc.pytorch.optimized import optimized
from hnfc.pytorch.settings import Settings
from hnfc.report.difference import Difference


@dataclass
class GraphRewriter:
    """Rewrites PyTorch modules by a set of rules, as `hnfc.load_rules` returns it.

    options: keyword arguments of `hnfc.optimize`, as `{"ranges": "sample"}`.
    """

    rules: RuleSet
    options: Mapping[str, Any] = field(default_factory=dict)

    def optimize(self, model: torch.nn.Module, sample: Any) -> torch.nn.Module:
        """The rewritten model. sample and errors raised: as for `hnfc.optimize`; TypeError for an option that there is not."""
        return optimize(model, sample, rules=self.rules, **self.options)

    def curvature(self, model: torch.nn.Module, sample: Any) -> Curvature:
        """The total curvature of a model on a sample, rewritten or not: an estimate of how much it loses, lower is better.

        A number without a unit: Σ over the operations of their curvature at the values that they take, by the formulas of the
        homotopical numerical foundations (see `hnfc.analysis.curvature`); docs/experiments.md measures how far it foretells errors.
        Raises ModelError where the model cannot be captured.
        """
        return measures.curvature(model, sample)

    def diff(self, model: torch.nn.Module, better: torch.nn.Module) -> Difference:
        """Rewrites in `better`, with locations and proofs; as `hnfc.diff`, with its errors."""
        return diff(model, better)


@reporting("capturing the model …")
def optimize(
    model: torch.nn.Module,
    sample: Any,
    group: str | Sequence[str] = "stability",
    *,
    rules: RuleSet | None = None,
    ranges: Mapping[str, tuple[float, float]] | str | None = None,
    assume: Sequence[str] = (),
    allow_unproved: Sequence[str] = (),
    backward: bool = False,
    validate: bool = True,
    dynamic_shapes: Shapes = None,
    search: str = "greedy",
    cost: str | None = None,
    target: str | None = None,
    deepening: float = 0.0,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> torch.nn.Module:
    """The model with its unstable formulas rewritten: a module of a subclass of its class, on the same parameters and buffers.

    The result shares every tensor and submodule with `model`, trains, compiles, copies, pickles and saves as `model` does, and
    `model` itself is not touched. Rewrites happen before differentiation, so gradients are those of the stable form. A call with
    inputs of other shapes, or in the other mode (train, eval), is captured and rewritten when it first comes.

    sample: a tensor, a tuple of positional arguments, or a mapping of keyword arguments; of any shapes that the model takes.
    group: a level or group of rules, or several of them and `.hnf` files; `rules` gives loaded ones instead.
    ranges: bounds of inputs by name, `{"x": (-10, 10)}`, from which conditions of rules are shown; `"sample"` takes the ranges of
    the sample for them; calls that leave these are answered by another graph, without them.
    assume: rules whose condition you vouch for. allow_unproved: rules that may run without a proof, if they are not vacuous.
    backward: rewrites the graph of the gradients too.
    validate: compares old and new, results and gradients, on the sample and on probes, and takes back a rule that made one worse.
    dynamic_shapes: as for `torch.export.export`; without it, sizes that change between calls are made dynamic by themselves.
    search: "greedy" takes every rule that fits; "egraph", "beam" and "restarts" look among all that the rules can make for what costs
    least, and never take what costs more than what greedy found.
    cost: "error", "bound", "curvature", "time" or "flops", or a mix such as "error + 0.1*time", each relative to what greedy found; of
    these "error" is measured on the sample, "bound" proved for it. deepening: how much more the operations at the outputs count.
    seconds: of the search, at most.
    target: a machine, as "h100", on which time is modelled; rules that need a format which it lacks are off.
    progress: takes the stage at hand in words; without it notebooks show a bar.

    Raises ModelError where the model cannot be captured, UsageError for options that do not fit, HnfError for a faulty rule file, and
    OSError for one that cannot be read.
    """
    loaded, vouched = chosen_rules(group, rules, allow_unproved, assume)
    chosen = search_of(search, cost, target, deepening, seconds, targets=loaded.targets)
    loaded, chosen = loaded.for_search(chosen)
    settings = Settings(loaded, ranges, vouched, backward, validate, dynamic_shapes, chosen)
    return optimized(model, sample, settings)
