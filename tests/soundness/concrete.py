"""Small tensors for a case of a proof, as the proof sees them (classes of axes) and as NumPy does."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hnfc.dsl.core import ALL, Axis, Capture, Rule
from hnfc.dsl.soundness.axis_classes import AxisClasses
from hnfc.dsl.soundness.denote import Denotation
from hnfc.dsl.soundness.elements import Mark
from hnfc.dsl.soundness.sampling import F, Point, Sampler
from hnfc.dsl.soundness.scan import known_ranks, rule_expressions, scalar_captures
from hnfc.dsl.soundness.sym import RESULT
from hnfc.dsl.soundness.term import Index, atom, of_atom
from hnfc.dsl.soundness.tracing import Closed
from tests.soundness.evaluating import Model


@dataclass
class Place:
    """One axis of NumPy: an axis of the rule and, along an axis that is several, the class."""

    axis: Axis
    cls: int | None


@dataclass
class Concrete:
    """One point: a model for the terms of the proof, the same tensors for `evaluate`, and the place of the result."""

    model: Model
    point: Point
    ixs: dict[Index, int]
    places: list[Place]
    meaning: Denotation

    def element(self, values: np.ndarray[Any, Any]) -> Any:
        """The element of a side at the place of the result."""
        index = []
        for place, size in zip(self.places[len(self.places) - values.ndim :], values.shape, strict=True):
            index.append(0 if size == 1 else self.number(place))
        return values[tuple(index)]

    def number(self, place: Place) -> int:
        layout = self.meaning.layout
        which = layout.universe.index(place.axis)
        classes = [place.cls] if place.cls is not None else layout.of(self.meaning.left.shape[place.axis])
        chosen = [c for c in classes if self.model.size(c) > 1]
        return self.ixs[Index(chosen[0], "free", RESULT + which)] if chosen else 0


class Concretizer:
    """Points for one closed case."""

    def __init__(self, rule: Rule, closed: Closed, seed: int) -> None:
        self.rule, self.closed, self.n = rule, closed, closed.n
        self.layout: AxisClasses = closed.meaning.layout
        self.random = random.Random(f"{rule.name}/{seed}")
        self.sampler = Sampler(rule, self.random)
        self.scalars = scalar_captures(rule)
        self.names = sorted({x.name for x in rule_expressions(rule) if isinstance(x, Capture)} | self.scalars)
        self.ranks = known_ranks(rule)
        self.places = list(self._places())

    @property
    def possible(self) -> bool:
        return ALL not in self.layout.universe and not self.n.empty

    def along(self, axis: Axis) -> list[int]:
        return [c for c, members in enumerate(self.layout.classes) if any(a == axis for _, a in members)]

    def _places(self) -> Iterator[Place]:
        named = [a for a in self.layout.universe if isinstance(a, str)]
        for axis in [*named, *sorted(a for a in self.layout.universe if isinstance(a, int))]:
            if isinstance(axis, str) and axis not in self.layout.arithmetic:
                yield from (Place(axis, c) for c in self.along(axis))
            else:
                yield Place(axis, None)

    def own(self, name: str, axis: Axis) -> tuple[int, ...]:
        return self.layout.of(frozenset({(name, axis)})) if (name, axis) in self.layout.parent else ()

    def point(self) -> Concrete | None:
        """A random point, or None where a size that follows from the others is none, or a value that a case fixes is out of reach."""
        choose = self.random
        model = Model(self.n, {}, {})
        styles = self.sampler._styles()
        same = choose.random() < 0.1
        if choose.random() < 0.05:
            styles = dict.fromkeys(styles, (F(0),))
        for name in sorted(self.scalars):
            model.tensors[name] = self.sampler._values(name, (), styles[name], same)
            if name in self.sampler.indexing and choose.random() < 0.9:
                # a bound that fits
                model.tensors[name][()] = abs(model.tensors[name][()])
        if any("." in name for name in self.settings()):
            self.spread(model)
        try:
            self.fix(model, ())
            self.choose_sizes(model)
            self.fix(model, ())
            for name in self.names:
                if name not in self.scalars:
                    shape = tuple(model.size(c) for _, c in self.dims(name))
                    model.tensors[name] = self.sampler._values(name, shape, styles[name], same)
            ixs = {
                Index(c, "free", RESULT + i): choose.randrange(model.size(c))
                for i, axis in enumerate(self.layout.universe)
                for c in range(len(self.layout.classes))
                if model.size(c)
            }
            self.fix(model, tuple(ixs.items()))
        except (ValueError, KeyError):
            return None
        axes = {axis: tuple(i - len(self.places) for i, p in enumerate(self.places) if p.axis == axis) for axis in self.layout.universe}
        inputs = {name: self.as_numpy(name, model) for name in self.names}
        point = Point(inputs, {axis: places for axis, places in axes.items() if isinstance(axis, str)})
        return Concrete(model, point, ixs, self.places, self.closed.meaning)

    def settings(self) -> set[str]:
        return {base.args[0] for fact in self.n.signs.log for x in _terms(fact.cond) for base in x.atoms if base.kind == "cap"}

    def spread(self, model: Model) -> None:
        """A setting of a convolution is one number for every spatial axis."""
        for name in self.settings():
            stem = name.split(".")[0]
            if "." in name and stem in model.tensors:
                model.tensors[name] = model.tensors[stem]

    def dims(self, name: str) -> list[tuple[Axis, int]]:
        return [(axis, c) for axis in sorted(self.layout.universe, key=repr) for c in sorted(self.own(name, axis))]

    def missing(self, name: str, axis: Axis) -> bool:
        """The tensor has a known rank, and no such axis."""
        return isinstance(axis, int) and axis < 0 and -axis > self.ranks.get(name, -axis)

    def choose_sizes(self, model: Model) -> None:
        main: dict[Axis, int] = {}
        for axis in self.layout.universe:
            if isinstance(axis, int) and axis not in self.layout.arithmetic and (classes := self.along(axis)):
                main[axis] = self.random.choice(classes)
        later = []
        for c, members in enumerate(self.layout.classes):
            if self.n.size_of(c) != of_atom(atom("size", c)):
                later.append(c)
                continue
            single = any(main.get(axis, c) != c or self.missing(name, axis) for name, axis in members)
            model.sizes[c] = 1 if single else self.random.choice((1, 2, 2, 3, 4) if c in self.layout.ranged else (1, 2, 2, 3))
        for c in later:
            value = model.term(self.n.size_of(c), {})
            if isinstance(value, Mark) or model.whole(value) < 0:
                raise ValueError("no size")
            model.sizes[c] = model.whole(value)
        if any(not model.sizes[c] for members in self.closed.meaning.left.shape.values() for c in self.layout.of(members)):
            raise ValueError("a result without elements")

    def fix(self, model: Model, ixs: Any) -> None:
        """Gives captured values the values that this case leaves them."""
        known = dict(ixs)
        for base, rest in self.n.subst.items():
            if base.kind == "cap" and base.args[0] in model.tensors and base.ixs <= known.keys():
                value = model.term(rest, known)
                index = tuple(model.place(place, known) for place in base.args[1])
                if not isinstance(value, Mark) and hasattr(value, "q"):
                    model.tensors[base.args[0]][index] = F(int(value.p), int(value.q))
        model.memo.clear()

    def as_numpy(self, name: str, model: Model) -> np.ndarray[Any, Any]:
        values, dims = model.tensors[name], self.dims(name)
        if name in self.scalars:
            return values
        order, shape = [], []
        for place in self.places:
            mine = [i for i, (axis, c) in enumerate(dims) if axis == place.axis and place.cls in (None, c)]
            order += mine
            shape.append(int(np.prod([values.shape[i] for i in mine], dtype=int)))
        rank = self.ranks.get(name, len(shape))
        shape = [1] * (rank - len(shape)) + shape[max(0, len(shape) - rank) :]
        return np.transpose(values, order).reshape(shape)


def _terms(cond: Any) -> Iterator[Any]:
    from hnfc.dsl.soundness.formulas import comparisons

    yield from comparisons(cond)
