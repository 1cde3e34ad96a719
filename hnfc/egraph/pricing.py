"""What choices of an e-graph cost: mixes of costs by operation, and the error that a choice makes when it runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from hnfc.analysis.cost import Cost, CurvatureBits, Deepening, LostBits, Mix, Overflow
from hnfc.egraph.extraction import cost_of
from hnfc.egraph.graph import Node
from hnfc.egraph.problem import Choice, NodeCost
from hnfc.egraph.running import lost_bits
from hnfc.egraph.values import ClassValues
from hnfc.search import Search


@dataclass
class Pricing:
    """What choices cost: each part of the mix relative to what the program that stands costs.

    Costs by operation add up, so that an integer program can minimise them. The error does not: the choices that are cheapest by what
    foretells it are run, and the one that errs least is taken.
    """

    search: Search
    values: ClassValues
    standing: Sequence[Node]
    _bits: float | None = None
    _whole: dict[str, float] = field(default_factory=dict)

    @property
    def measures(self) -> bool:
        return any(name == "error" for _, name in self.search.costs) and bool(self.values.samples)

    def surrogates(self) -> list[NodeCost]:
        """Costs by operation to choose by."""
        if not self.measures:
            return [self._price([(w, self.search.part(n)) for w, n in self.search.costs if n != "error"])]
        foretelling: tuple[tuple[Cost, ...], ...] = ((Overflow(),), (Overflow(), LostBits()), (Overflow(), CurvatureBits()))
        others = [(w, self.search.part(n)) for w, n in self.search.costs if n != "error"]
        weight = sum(w for w, n in self.search.costs if n == "error")
        return [self._price([*((weight, part) for part in parts), *others]) for parts in foretelling]

    def of(self, chosen: Choice, roots: Sequence[int]) -> float:
        """The cost of a choice as a whole."""
        others = [(w, self.search.part(n)) for w, n in self.search.costs if n != "error"]
        total = cost_of(chosen, self._price(others))
        if not self.measures:
            return total
        bits = lost_bits(self.values, chosen, roots)
        if self._bits is None:
            self._bits = bits
        return total + sum(w for w, n in self.search.costs if n == "error") * ((bits or 0.0) / (self._bits or 1.0))

    def _price(self, parts: Sequence[tuple[float, Cost]]) -> NodeCost:
        known: dict[Node, float] = {}
        mix: Cost = Mix(tuple((weight / (self._total(part) or 1.0), part) for weight, part in parts))
        if self.search.growth:
            mix = Deepening(mix, self.search.growth)

        def price(node: Node) -> float:
            if node not in known:
                known[node] = mix.of(node.operation, self.values) if node.operation is not None else 0.0
            return known[node]

        return price

    def _total(self, part: Cost) -> float:
        name = repr(part)
        if name not in self._whole:
            self._whole[name] = math.fsum(part.of(node.operation, self.values) for node in self.standing if node.operation is not None)
        return self._whole[name]
