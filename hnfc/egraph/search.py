"""The searches for a program: what they minimise, and what they may spend."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from hnfc.analysis.cost import Cost, CurvatureBits, Flops, Time
from hnfc.core.arguments import number_of
from hnfc.core.errors import UsageError, alternatives, suggestion
from hnfc.dsl import core
from hnfc.dsl.targets import Target, TargetBook

SEARCHES = ("greedy", "beam", "restarts", "egraph")
COSTS = ("error", "bound", "curvature", "time", "flops")
_LEAST_ERROR = ((1.0, "error"), (0.01, "flops"))
"""Of programs that err as much, the one with less arithmetic."""


@dataclass(frozen=True)
class Limits:
    """nodes: of the whole e-graph, or six times as many as the program has. rounds: in each of which every rule looks at what changed in
    the one before. matches: of one rule in one round; a rule that has more sits out the next rounds, twice as many each time (egg's
    back-off scheduler). seconds: of the search; the choice after it has half as many. width: states that a beam keeps. restarts: how
    often a random search begins anew."""

    nodes: int = 6_000
    rounds: int = 6
    matches: int = 1_000
    seconds: float = 20.0
    width: int = 10
    restarts: int = 10


@dataclass(frozen=True)
class Search:
    """kind: one of SEARCHES. costs: weights by name, each part taken relative to what the program costs before. growth: how much more
    the operations at the outputs count than those at the inputs. forms: rules of equal forms that a search may go through."""

    kind: str = "greedy"
    costs: tuple[tuple[float, str], ...] = _LEAST_ERROR
    target: Target | None = None
    growth: float = 0.0
    forms: tuple[core.Rule, ...] = ()
    limits: Limits = field(default_factory=Limits)

    def part(self, name: str) -> Cost:
        """One of COSTS, by operation; `error` and `bound` are of a program as a whole."""
        match name:
            case "curvature":
                return CurvatureBits()
            case "time":
                assert self.target is not None
                return Time(self.target)
        return Flops()


def search_of(
    kind: str = "greedy",
    cost: str | None = None,
    target: str | None = None,
    growth: float = 0.0,
    seconds: float | None = None,
    *,
    targets: TargetBook,
) -> Search:
    """The search that options name. Raises UsageError for a name that there is not, and for options that do not fit together."""
    if kind not in SEARCHES:
        raise UsageError(f"there is no search `{kind}`{alternatives(kind, SEARCHES)}")
    machine = targets.target(target) if target is not None else None
    if target is not None and machine is None:
        meant = suggestion(target, targets.names()) or f"; there are {', '.join(targets.names())}, and a .hnf file can declare others"
        raise UsageError(f"there is no target `{target}`{meant}")
    if kind == "greedy" and (cost is not None or growth or seconds is not None):
        raise UsageError("the greedy search takes every rule that fits: a cost, its growth and a time limit are for --search egraph")
    growth = number_of(growth, "deepening")
    if seconds is not None and not number_of(seconds, "seconds") > 0:
        raise UsageError("the time of a search is a number of seconds above 0")
    costs = parse_costs(cost) if cost is not None else _LEAST_ERROR
    if machine is None and any(name == "time" for _, name in costs):
        raise UsageError("the cost `time` needs a target, such as --target h100")
    limits = Limits() if seconds is None else replace(Limits(), seconds=seconds)
    return Search(kind, costs, machine, growth, limits=limits)


def parse_costs(text: str) -> tuple[tuple[float, str], ...]:
    """`error`, or `error + 0.1*time`. Raises UsageError."""
    parts = []
    for term in str(text).split("+"):
        weight, _, name = term.strip().rpartition("*")
        try:
            number = float(weight) if weight else 1.0
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and number >= 0) or name.strip() not in COSTS:
            meant = suggestion(name.strip(), COSTS) or f"; write {', '.join(COSTS)}, or a mix such as error+0.1*flops"
            raise UsageError(f"cannot read the cost `{term.strip()}`{meant}")
        parts.append((number, name.strip()))
    return tuple(parts)
