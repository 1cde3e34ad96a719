"""Convolution as a contraction over index maps."""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from typing import Any

from hnfc.dsl.core import Axis
from hnfc.dsl.soundness.axis_classes import NOTHING, AxisClasses, Extent, Member
from hnfc.dsl.soundness.moves import Moves, number
from hnfc.dsl.soundness.normal_form import Normalizer, connect
from hnfc.dsl.soundness.sym import Env, Sym, Value, choose
from hnfc.dsl.soundness.term import ONE, ZERO, Place, Proposition, Rational, const, total


class Convolution(Moves):
    """The convolution of the `Math` protocol on `Sym`; its spatial axes are arithmetic."""

    def conv(self, x: Sym, weight: Sym, stride: Any, padding: Any, dilation: Any, groups: Any) -> Sym:
        """Σ over channels and kernel of x[b, c, s·p + d·k - q]·weight[o, c, k], where x is 0 outside."""
        settings = [setting if isinstance(setting, list) else [as_sym(self.layout, setting)] for setting in (stride, padding, dilation)]
        count = as_sym(self.layout, groups)
        spatial = list(range(-self.layout.spatial, 0))
        batch, channel = spatial[0] - 2, spatial[0] - 1
        alone = isinstance(groups, float | int) and groups == 1
        inputs, outputs = x.shape.get(channel, NOTHING), weight.shape.get(channel, NOTHING)
        if alone:
            self.layout.unite(inputs | outputs)
            self.layout.equal.add((inputs, outputs))
        self.layout.seen_by_reductions |= {s for s in (inputs, outputs) if s}
        shape: dict[Axis, frozenset[Member]] = {batch: x.shape.get(batch, NOTHING), channel: weight.shape.get(batch, NOTHING)}

        def setting(n: Normalizer, which: int, axis: int) -> Rational:
            values = settings[which]
            return number(n, values[axis] if len(values) > 1 else values[0])

        def room(n: Normalizer, axis: int) -> Rational:
            """Number of positions of a kernel, less one."""
            reach = setting(n, 2, axis) * (self.size_along(n, weight, axis) - ONE)
            return self.size_along(n, x, axis) + setting(n, 1, axis) + setting(n, 1, axis) - reach - ONE

        def size(n: Normalizer, axis: int) -> Rational:
            steps = setting(n, 0, axis)
            return (room(n, axis) if steps == ONE else n.floor(room(n, axis) * steps.inverse())) + ONE

        def bounds(n: Normalizer) -> list[Proposition]:
            # each group has an output channel
            found = [n.relation(">=", number(n, count) - ONE), n.relation(">=", self.size_along(n, weight, batch) - number(n, count))]
            for axis in spatial:
                found += [
                    n.relation(">=", part)
                    for part in (room(n, axis), setting(n, 0, axis) - ONE, setting(n, 1, axis), setting(n, 2, axis) - ONE)
                ]
            return found

        def extent(axis: int) -> Extent:
            return Extent(lambda n: size(n, axis), lambda n: [(ZERO, size(n, axis))])

        self.layout.bounds.append(bounds)
        for axis in spatial:
            shape[axis] = self.layout.introduce("conv", axis, extent(axis))

        def element(n: Normalizer, env: Env) -> Value:
            def term(inner: Env) -> Rational:
                at: Env = {batch: env.get(batch, {}), channel: inner[channel]}
                inside = []
                for axis in spatial:
                    steps, outside, apart = (setting(n, which, axis) for which in range(3))
                    index = steps * self.index(n, env, axis) + apart * self.index(n, inner, axis) - outside
                    if not outside.zero:
                        inside += [n.relation(">=", index), n.relation(">", self.size_along(n, x, axis) - index)]
                    at[axis] = {c: n.place(c, index) for c in self.layout.of(x.shape.get(axis, NOTHING))}
                if not alone:
                    at[channel] = self._grouped(n, x, weight, channel, number(n, count), env, inner)
                there = choose(n, connect("and", *inside), x.at, lambda n, env: ZERO, at)
                value = there if isinstance(there, Rational) else n.ite(there, ONE, ZERO, True)
                return value * weight.real(n, {**inner, batch: env.get(channel, {})})

            reduced = [(channel, outputs), *((axis, weight.shape.get(axis, NOTHING)) for axis in spatial)]
            return self.over(n, reduced, lambda n, ixs, body: n.sum(ixs, body) if ixs else body, lambda n, parts: total(parts), term)

        return Sym(self.layout, shape, element)

    def _grouped(self, n: Normalizer, x: Sym, weight: Sym, channel: int, groups: Rational, env: Env, inner: Env) -> dict[int, Place]:
        """The input channel for the output channel of `env` and the channel of `inner` in its group: ⌊o·g/O⌋·C + c."""
        outputs, own = self.size_along(n, weight, channel - 1), self.size_along(n, weight, channel)
        group = n.floor(self.index(n, env, channel) * groups * outputs.inverse())
        return {c: n.place(c, group * own + self.index(n, inner, channel)) for c in self.layout.of(x.shape.get(channel, NOTHING))}

    @abstractmethod
    def over(self, n: Normalizer, axes: Any, combine: Any, join: Any, body: Any) -> Rational:
        """The body combined over all places of the axes."""


def as_sym(layout: AxisClasses, setting: Any) -> Sym:
    if isinstance(setting, Sym):
        return setting
    value = const(Fraction(setting))
    return Sym(layout, {}, lambda n, env: value)
