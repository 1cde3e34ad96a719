"""Costs of choices of an e-graph: mixes of costs by operation, and the error of a choice on samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from hnfc.analysis.cost import Cost, CurvatureBits, Deepening, LostBits, Mix, OverflowCost
from hnfc.egraph.extraction import cost_of
from hnfc.egraph.graph import ENode
from hnfc.egraph.problem import Choice, NodeCost
from hnfc.egraph.sample_evaluation import bound_bits, lost_bits
from hnfc.egraph.search import Search
from hnfc.egraph.values import ClassValues

_MAY_LOSE = 4.0
"""Bits that a choice may lose more than the one that stands, where something else than the error is minimised."""
_WHOLE = {"error": lost_bits, "bound": bound_bits}


@dataclass
class Pricing:
    """Cost of choices: each part of the mix relative to the cost of the present program.

    Costs by operation add up, so that an integer program can minimise them. The error does not: the choices that are cheapest by what
    foretells it are run, and the one that errs least is taken.
    """

    search: Search
    values: ClassValues
    standing: Sequence[ENode]
    _bits: dict[str, float | None] = field(default_factory=dict)
    _whole: dict[str, float] = field(default_factory=dict)

    @property
    def measures(self) -> bool:
        """Return whether a part of the cost is of the choice as a whole."""
        return bool(self._wholes()) and bool(self.values.samples)

    def _wholes(self) -> list[tuple[float, str]]:
        return [(weight, name) for weight, name in self.search.costs if name in _WHOLE]

    def _others(self) -> list[tuple[float, Cost]]:
        return [(weight, self.search.part(name)) for weight, name in self.search.costs if name not in _WHOLE]

    def surrogates(self) -> list[NodeCost]:
        """Costs by operation to choose by."""
        if not self.measures:
            return [self._price(self._others())]
        foretelling: tuple[tuple[Cost, ...], ...] = ((OverflowCost(),), (OverflowCost(), LostBits()), (OverflowCost(), CurvatureBits()))
        weight = sum(weight for weight, _ in self._wholes())
        return [self._price([*((weight, part) for part in parts), *self._others()]) for parts in foretelling]

    def of(self, chosen: Choice, roots: Sequence[int]) -> float:
        """The cost of a choice as a whole; infinite for one that loses many more bits on the samples than the first that was requested,
        which is the one that stands: whatever is minimised, numbers are not to be lost for it."""
        total = cost_of(chosen, self._price(self._others()))
        if self.values.samples:
            lost = lost_bits(self.values, chosen, roots)
            if "error" not in self._bits:
                self._bits["error"] = lost
            first = self._bits["error"]
            if lost is not None and first is not None and lost > first + _MAY_LOSE:
                return math.inf
        for weight, name in self._wholes() if self.measures else ():
            bits = _WHOLE[name](self.values, chosen, roots)
            first = self._bits.setdefault(name, bits)
            total += weight * ((bits or 0.0) / (first or 1.0))
        return total

    def _price(self, parts: Sequence[tuple[float, Cost]]) -> NodeCost:
        known: dict[ENode, float] = {}
        mix: Cost = Mix(tuple((weight / (self._total(part) or 1.0), part) for weight, part in parts))
        if self.search.growth:
            mix = Deepening(mix, self.search.growth)

        def price(node: ENode) -> float:
            if node not in known:
                known[node] = mix.of(node.operation, self.values) if node.operation is not None else 0.0
            return known[node]

        return price

    def _total(self, part: Cost) -> float:
        name = repr(part)
        if name not in self._whole:
            self._whole[name] = math.fsum(part.of(node.operation, self.values) for node in self.standing if node.operation is not None)
        return self._whole[name]
