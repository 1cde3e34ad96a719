"""Rules for models in memory: `load_rules` finds and proves them, `GraphRewriter` runs them on PyTorch modules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hnfc.dialects.interval import Interval
from hnfc.dsl import core
from hnfc.dsl.rulebook import load_files, shipped, shipped_targets
from hnfc.dsl.soundness import Status, Verdict
from hnfc.dsl.targets import TargetBook
from hnfc.errors import UsageError
from hnfc.pipelines import FORMS, LEVELS, UnknownLevel, phases
from hnfc.search import Search, search_of
from hnfc.verdicts import Progress, verdicts

if TYPE_CHECKING:
    import torch
    from torch import fx

    from hnfc.analysis.curvature import Curvature
    from hnfc.frontend.pytorch import Shapes
    from hnfc.modules.differences import Difference


@dataclass(frozen=True)
class RuleSet:
    """Rules phase by phase, with the verdict on each; `allowed` gives those that may run."""

    phases: tuple[tuple[core.Rule, ...], ...]
    verdicts: Mapping[str, Verdict]
    unproved: frozenset[str] = frozenset()
    own: tuple[str, ...] = ()
    """The names of the rules that came from files."""
    targets: TargetBook = field(default_factory=lambda: TargetBook(shipped_targets))
    off: Mapping[str, str] = field(default_factory=dict)
    """Rules that the target cannot run, and the format that it lacks for them."""

    def allowed(self) -> list[list[core.Rule]]:
        """Proved rules, and those that the user lets run unproved."""
        return [[rule for rule in phase if self._may_run(rule.name) and rule.name not in self.off] for phase in self.phases]

    def for_search(self, search: Search, progress: Progress | None = None) -> tuple[RuleSet, Search]:
        """Without the rules that the search's target cannot run, and the search with the equal forms that it may go through."""
        target = search.target
        rules = {rule.name: rule for phase in self.phases for rule in phase}
        off = {name: lacking for name, rule in rules.items() if target is not None and (lacking := target.lacks(rule)) is not None}
        if search.kind == "greedy":
            return replace(self, off=off), search
        forms = [rule for rule in shipped().only(FORMS).rules if target is None or target.lacks(rule) is None]
        found = verdicts(forms, progress=progress)
        proved = tuple(rule for rule in forms if found[rule.name].proved)
        return replace(self, off=off, verdicts={**found, **self.verdicts}), replace(search, forms=proved)

    def _may_run(self, name: str) -> bool:
        """A vacuous rule never may: where its left side is met, what it says of it is about no real number."""
        verdict = self.verdicts[name]
        return verdict.proved or (name in self.unproved and verdict.status is not Status.VACUOUS)

    @property
    def withheld(self) -> list[str]:
        """Rules from files that may not run."""
        return sorted(name for name in self.own if not self._may_run(name))

    def check(self, names: Sequence[str]) -> None:
        """Raises UsageError for a name that is none of these rules'."""
        _known(names, self.verdicts)

    def __len__(self) -> int:
        return len(self.verdicts)


def load_rules(*groups: str | Path, allow_unproved: Sequence[str] = (), progress: Progress | None = None) -> RuleSet:
    """The rules of a level or group (`stability`, `fusion`, `all` …), of `.hnf` files, or of both, with their verdicts.

    Rules of files run in every phase of the levels beside them. Raises UsageError for a level that there is not, HnfError for a
    file that cannot be read.
    """
    book = shipped()
    paths = [str(group) for group in groups if str(group).endswith(".hnf")]
    levels = [str(group) for group in groups if not str(group).endswith(".hnf")]
    files = load_files(paths)
    own = tuple(files.rules)
    try:
        names = [phase for level in levels for phase in phases(level, set(book.groups()))]
    except UnknownLevel as error:
        raise UsageError(f"{error}; a file of rules ends in .hnf") from None
    plan = tuple(tuple(book.only(phase).rules) + own for phase in names) or ((own,) if own else ())
    known = {rule.name for phase in plan for rule in phase}
    _known(allow_unproved, known)
    found = verdicts({rule.name: rule for phase in plan for rule in phase}.values(), progress=progress)
    return RuleSet(plan, found, frozenset(allow_unproved), tuple(rule.name for rule in own), files.targets)


def _known(names: Sequence[str], rules: Collection[str]) -> None:
    for name in names:
        if name not in rules:
            raise UsageError(f"there is no rule `{name}` in this run; `hnfc rules` lists the shipped ones")


@dataclass(frozen=True)
class Settings:
    """How models are rewritten; what each means is said at `hnfc.optimize`."""

    rules: RuleSet
    ranges: Mapping[str, tuple[float, float]] | str | None = None
    assume: frozenset[str] = frozenset()
    backward: bool = False
    validate: bool = True
    dynamic_shapes: Shapes = None
    search: Search = field(default_factory=Search)
    edit: Callable[[fx.GraphModule], fx.GraphModule] | None = None
    """What is done to each graph after the rules."""

    @property
    def observed(self) -> bool:
        return self.ranges == "sample"

    def intervals(self, names: Sequence[str]) -> list[tuple[str, Interval]]:
        """The declared ranges, by the names that the compiler has for the arguments. Raises UsageError for one that there is not."""
        if self.ranges is None or isinstance(self.ranges, str):
            return []
        places = {name: f"arg{index}" for index, name in enumerate(names)}
        unknown = [name for name in self.ranges if name not in places]
        if unknown:
            raise UsageError(f"there is no input `{unknown[0]}`; the inputs are {', '.join(names)}")
        return [(places[name], Interval(float(lo), float(hi), minus=0 in (lo, hi))) for name, (lo, hi) in self.ranges.items()]


@dataclass
class GraphRewriter:
    """Rewrites PyTorch modules by a set of rules; the options are those of `hnfc.optimize`."""

    rules: RuleSet
    options: Mapping[str, Any] = field(default_factory=dict)

    def optimize(self, model: torch.nn.Module, sample: Any) -> torch.nn.Module:
        """The rewritten model, as `hnfc.optimize` returns it."""
        from hnfc.modules.optimized import optimized

        return optimized(model, sample, Settings(self.rules, **self.options))

    def curvature(self, model: torch.nn.Module, sample: Any) -> Curvature:
        """The total curvature of a model on a sample, rewritten or not: an estimate of how much it loses, lower is better."""
        from hnfc.modules.measures import curvature

        return curvature(model, sample)

    def diff(self, model: torch.nn.Module, better: torch.nn.Module) -> Difference:
        """What was rewritten in `better`, where, and why it is safe."""
        from hnfc.modules.differences import diff

        return diff(model, better)


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
) -> torch.nn.Module:
    """The model with its unstable formulas rewritten: a module of a subclass of its class, on the same parameters and buffers.

    The result shares every tensor and submodule with `model`, trains, compiles, copies, pickles and saves as `model` does, and
    `model` itself is not touched. Rewrites happen before differentiation, so gradients are those of the stable form. A call with
    inputs of other shapes, or in the other mode (train, eval), is captured and rewritten when it first comes.

    sample: a tensor, a tuple of positional arguments, or a mapping of keyword arguments.
    group: a level or group of rules, or several of them and `.hnf` files; `rules` gives loaded ones instead.
    ranges: bounds of inputs by name, `{"x": (-10, 10)}`, from which conditions of rules are shown; `"sample"` takes the ranges of
    the sample for them, and what was shown so holds for inputs like it.
    assume: rules whose condition you vouch for. allow_unproved: rules that may run without a proof, if they are not vacuous.
    backward: rewrites the graph of the gradients too.
    validate: compares old and new, results and gradients, on the sample and on probes, and takes back a rule that made one worse.
    dynamic_shapes: as for `torch.export.export`; without it, sizes that change between calls are made dynamic by themselves.
    search: "greedy" takes every rule that fits; "egraph", "beam" and "restarts" look among all that the rules can make for what costs
    least, and never take what costs more than what greedy found.
    cost: "error", "bound", "curvature", "time" or "flops", or a mix such as "error + 0.1*time", each relative to what greedy found; of
    these "error" is measured on the sample, "bound" proved for it. deepening: how much more the operations at the outputs count.
    seconds: of the search.
    target: a machine, as "h100", on which time is modelled; rules that need a format which it lacks are off.

    Raises ModelError where the model cannot be captured, UsageError for options that do not fit, HnfError for a faulty rule file.
    """
    groups = (group,) if isinstance(group, str) else tuple(group)
    loaded = rules if rules is not None else load_rules(*groups, allow_unproved=allow_unproved)
    loaded.check(assume)
    chosen = search_of(search, cost, target, deepening, seconds, targets=loaded.targets)
    loaded, chosen = loaded.for_search(chosen)
    settings = Settings(loaded, ranges, frozenset(assume), backward, validate, dynamic_shapes, chosen)
    if isinstance(ranges, str) and ranges != "sample":
        raise UsageError(f'ranges are bounds by the name of the input, or "sample", not {ranges!r}')
    from hnfc.modules.optimized import optimized

    return optimized(model, sample, settings)


__all__ = ["LEVELS", "GraphRewriter", "RuleSet", "load_rules", "optimize"]
