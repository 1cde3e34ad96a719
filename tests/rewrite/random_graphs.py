"""Random `num` graphs in which shipped rules fit, nearly fit, or do not fit; and what they compute over the reals.

A graph is made of the left sides of rules, written in another way (swapped, with reciprocals, squares, splats), sometimes with a
fault (another axis, another constant, another operand), around random subgraphs that share values. Sizes are 1, 2 and 3 and
often equal, so that axes can be confused.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
from flint import arb
from xdsl.ir import Block, SSAValue

from hnfc.core.interpreter import Array, compute_exactly
from hnfc.dialects.num.base import NumOp
from hnfc.dialects.num.constant import ConstantOp
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dialects.types import DYNAMIC, TypeMismatch
from hnfc.dsl import core
from hnfc.dsl.soundness.balls import UNDECIDED, UNDEFINED, ArbMath, Balls, precision, surely_different
from hnfc.rewrite.movement import is_movement, properties
from tests.graphs import Graph

UNARY = ("exp", "log", "sqrt", "rsqrt", "neg", "abs", "tanh", "sigmoid", "square", "reciprocal", "relu", "log1p", "expm1", "erf")
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "add", "mul", "sub", "div")
REDUCTIONS = ("sum", "mean", "max", "min", "softmax", "logsumexp", "prod", "log_softmax")
NUMBERS = (0, 1, -1, 2, 0.5, -2, 3, 1e-3, 0.1)
POOLS = (
    (0, 1, -1, 2, -2, 0.5, -0.5, 3), (0.25, 1, 2, 0.5, 3, 10), (0, 0.5, 0.25, -0.5, 0.875), (1e-6, -1e-6, 0, 1, 1e-3),
    (40, -40, 1, 0, 200), (1, 1, 1, 2), (0,), (-3, -1, -0.5, -2), (1e4, -1e4, 1e-4, 1), (0, 0, 1),
)  # fmt: skip


class Mismatch(Exception):
    """The draw has no type; draw again."""


class Maker:
    """One random graph. `faults`: how often a pattern is written wrong. `hidden`: how many sizes of arguments are not in their types."""

    def __init__(self, seed: int, rules: list[core.Rule], faults: float = 0.06, element: str = "f32", hidden: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.faults, self.element, self.rules = faults, element, rules
        choose = self.random
        rank = choose.choice((0, 1, 2, 2, 2, 3))
        size = choose.choice((2, 3))
        self.shape = tuple(choose.choice((1, 2, 3)) if choose.random() < 0.4 else size for _ in range(rank))
        self.actual = [self.own_shape() for _ in range(choose.choice((1, 2, 3, 4)))]
        kinds = [(element, *(DYNAMIC if choose.random() < hidden else size for size in shape)) for shape in self.actual]
        self.graph = Graph(*kinds)
        self.pool: list[SSAValue] = list(self.graph.args)
        results = []
        for _ in range(choose.choice((1, 1, 2))):
            results.append(self.dressed(self.instance(choose.choice(rules))))
        extra = [v for v in self.pool if choose.random() < 0.05 and v not in results]
        self.graph.returns(*results, *extra[:2])

    def own_shape(self) -> tuple[int, ...]:
        choose = self.random
        loss = choose.choice((0, 0, 0, 0.3, 0.5))
        shape = [1 if choose.random() < loss else s for s in self.shape]
        while shape and choose.random() < loss / 2:
            shape = shape[1:]
        return tuple(shape)

    def arrays(self, seed: int) -> list[Array]:
        generator = random.Random(seed)
        result = []
        pool = generator.choice(POOLS)
        for shape in self.actual:
            pool = generator.choice(POOLS) if generator.random() < 0.4 else pool
            smooth = generator.random() < 0.3
            values = [generator.uniform(min(pool), max(pool)) if smooth else generator.choice(pool) for _ in range(int(np.prod(shape)))]
            result.append(np.array(values, np.float64).reshape(shape).astype(NUMPY_TYPES[self.element]))
        return result

    # parts

    def add(self, name: str, *operands: Any, **attributes: Any) -> SSAValue:
        values = [o if isinstance(o, SSAValue) else self.number(o) for o in operands]
        if name == "matmul" and self.random.random() < 0.97 and any(len(shape_of(v)) < 2 for v in values):
            raise Mismatch
        try:
            return getattr(self.graph, name)(*values, **attributes)
        except (TypeMismatch, IndexError, ValueError):
            raise Mismatch from None

    def number(self, value: float) -> SSAValue:
        choose = self.random
        shape: tuple[int, ...] = ()
        if choose.random() < 0.12:
            shape = choose.choice(((1,), (1, 1), self.shape, self.own_shape()))
        return self.graph.constant(float(value), self.element, shape)

    def leaf(self) -> SSAValue:
        choose = self.random
        if choose.random() < 0.08:
            return self.number(choose.choice(NUMBERS))
        return choose.choice(self.pool) if choose.random() < 0.5 else choose.choice(self.graph.args)

    def subgraph(self, depth: int) -> SSAValue:
        choose = self.random
        if depth == 0 or choose.random() < 0.45:
            return self.leaf()
        value = self._operation(depth)
        if choose.random() < 0.5:
            self.pool.append(value)
        return value

    def _operation(self, depth: int) -> SSAValue:
        choose = self.random
        x = self.subgraph(depth - 1)
        shape = shape_of(x)
        kind = choose.random()
        if kind < 0.3:
            return self.add(choose.choice(UNARY), x)
        if kind < 0.7:
            return self.add(choose.choice(BINARY), x, self.subgraph(depth - 1))
        if kind < 0.82 and shape:
            axes = tuple(sorted(choose.sample(range(len(shape)), choose.randint(1, min(2, len(shape))))))
            return self.moved(self.add(choose.choice(REDUCTIONS), x, axes=axes))
        if kind < 0.86 and len(shape) >= 2:
            perm = list(range(len(shape)))
            choose.shuffle(perm)
            return self.add("transpose", x, perm=tuple(perm))
        if kind < 0.9 and len(shape) >= 2:
            return self.add("matmul", x, self.subgraph(depth - 1))
        if kind < 0.95:
            p = self.add("compare", x, self.subgraph(depth - 1), predicate=choose.choice(("lt", "ge", "eq", "gt")))
            return self.add("where", p, x, self.subgraph(depth - 1))
        return self.moved(x)

    def moved(self, x: SSAValue) -> SSAValue:
        """x, an axis of size 1 more or less, or broadcast."""
        choose = self.random
        shape = list(shape_of(x))
        draw = choose.random()
        if draw < 0.3 and 1 in shape:
            del shape[choose.choice([i for i, s in enumerate(shape) if s == 1])]
            x = self.add("reshape", x, shape=tuple(shape))
        if choose.random() < 0.2 and len(shape) < 4:
            shape.insert(choose.randint(0, len(shape)), 1)
            x = self.add("reshape", x, shape=tuple(shape))
        elif choose.random() < 0.1:
            x = self.add("broadcast", x, shape=tuple(self.shape))
        return x

    # patterns

    def instance(self, rule: core.Rule) -> SSAValue:
        for _ in range(40):
            try:
                side = rule.replacement if rule.both_ways and self.random.random() < 0.5 else rule.pattern
                return _Instance(self).build(side)
            except Mismatch:
                continue
        return self.add("neg", self.leaf())

    def dressed(self, value: SSAValue) -> SSAValue:
        """The value with terms, factors and users around it."""
        choose = self.random
        for _ in range(choose.choice((0, 1, 1, 2, 3))):
            try:
                draw = choose.random()
                if draw < 0.35:
                    value = self.add(choose.choice(("add", "sub", "mul", "div", "mul", "add")), *self.pair(value, self.leaf()))
                elif draw < 0.55:
                    value = self.add(choose.choice(("add", "sub", "mul", "div")), *self.pair(value, choose.choice(NUMBERS)))
                elif draw < 0.65:
                    value = self.moved(value)
                elif draw < 0.75 and shape_of(value):
                    axis = choose.randrange(len(shape_of(value)))
                    value = self.moved(self.add(choose.choice(REDUCTIONS), value, axes=(axis,)))
                elif draw < 0.85:
                    value = self.add(choose.choice(UNARY), value)
                elif draw < 0.9 and len(shape_of(value)) == 2:
                    value = self.add("transpose", value, perm=(1, 0))
                else:
                    self.pool.append(value)
            except Mismatch:
                continue
        return value

    def pair(self, a: Any, b: Any) -> tuple[Any, Any]:
        return (a, b) if self.random.random() < 0.5 else (b, a)


class _Instance:
    """A side of a rule with random values for its captures."""

    def __init__(self, maker: Maker) -> None:
        self.maker = maker
        self.captures: dict[str, SSAValue] = {}
        self.numbers: dict[str, float] = {}
        self.axes: dict[str, tuple[int, ...]] = {}
        self.sizes: dict[str, int] = {}
        self.rank = len(maker.shape)

    def faulty(self) -> bool:
        return self.maker.random.random() < self.maker.faults

    def build(self, node: core.Expr) -> SSAValue:
        choose = self.maker.random
        match node:
            case core.Capture(name, const=const):
                if const:
                    return self.maker.number(self.const(name))
                if name not in self.captures or self.faulty():
                    self.captures[name] = self.maker.subgraph(choose.choice((0, 1, 1, 2)))
                return self.captures[name]
            case core.Literal(value):
                return self.maker.number(float(value) if not self.faulty() else float(value) + choose.choice((1, -1, 0.5)))
            case core.Size(operand, axes):
                shape = shape_of(self.build(operand))
                size = float(np.prod([shape[a] for a in self.places(axes) if -a <= len(shape)]))
                return self.maker.number(size + choose.choice((0, 1)) * self.faulty())
        return self.apply(node)

    def const(self, name: str) -> float:
        return self.numbers.setdefault(name, self.maker.random.choice(NUMBERS))

    def places(self, axes: core.Axes) -> tuple[int, ...]:
        choose = self.maker.random
        result: list[int] = []
        for axis in axes:
            if isinstance(axis, int):
                result.append(axis)
                continue
            if axis not in self.axes or self.faulty():
                free = [a for a in range(-self.rank, 0) if all(a not in used for used in self.axes.values())]
                if not free:
                    raise Mismatch
                self.axes[axis] = tuple(choose.sample(free, min(len(free), choose.choice((1, 1, 1, 2)))))
            result += self.axes[axis]
        return tuple(sorted(set(result)))

    def apply(self, node: core.Apply) -> SSAValue:
        maker, choose = self.maker, self.maker.random
        operands = [self.build(operand) for operand in node.operands]
        name = node.name
        swapped = choose.random() < 0.5 and name in ("add", "mul", "maximum", "logaddexp", "hypot")
        if swapped or (self.faulty() and len(operands) == 2):
            operands.reverse()
        if is_movement(name, dict(node.attributes)):
            value = self.written(name, operands, self.settings(node, operands))
            if choose.random() < 0.06:
                maker.pool.append(value)
            return value
        attributes: dict[str, Any] = {}
        for key, value in node.attributes:
            rank = len(shape_of(operands[0]))
            if key == "axes":
                places = self.places(value)
                if any(-a > rank for a in places):
                    raise Mismatch
                attributes[key] = tuple(sorted({a + rank for a in places}))
            elif value == "last_two":
                if rank < 2:
                    raise Mismatch
                attributes["perm"] = (*range(rank - 2), rank - 1, rank - 2)
            elif isinstance(value, core.Capture):
                attributes[key] = float(self.const(value.name))
            elif isinstance(value, core.DTypeOf):
                attributes[key] = maker.element
            elif key in ("unsqueeze", "squeeze"):
                shape = list(shape_of(operands[0]))
                if key == "unsqueeze":
                    shape.insert(len(shape) + 1 + value, 1)
                elif -value <= len(shape) and shape[value] == 1:
                    del shape[value]
                else:
                    raise Mismatch
                attributes["shape"] = tuple(shape)
            else:
                attributes[key] = float(value) if isinstance(value, core.Fraction) else value
        value = self.written(name, operands, attributes)
        if choose.random() < 0.06:
            maker.pool.append(value)
        return value

    def settings(self, node: core.Apply, operands: list[SSAValue]) -> dict[str, Any]:
        """Random settings of a movement that fit the operands."""
        choose, given = self.maker.random, dict(node.attributes)
        shape = shape_of(operands[0])
        if node.name == "conv":
            raise Mismatch
        if node.name == "transpose":
            orders = list(itertools.permutations(range(len(shape))))
            return {"perm": orders[self.integer(given["perm"], operands) % len(orders)]}
        if node.name == "reshape":
            count = int(np.prod(shape))
            divisors = [(d, count // d) for d in range(1, count + 1) if count % d == 0]
            return {"shape": choose.choice([(count,), *divisors, (1, count)])}
        axis, *more = self.places((given["axis"],))
        if more or not -len(shape) <= axis < 0:
            raise Mismatch
        bounds = {key: value for key, value in given.items() if key != "axis"}
        values = {key: float(value.value) if key == "value" else self.integer(value, operands) for key, value in bounds.items()}
        found = properties(node.name, shape, axis, values)
        if node.name == "slice" and not (0 <= found["start"] <= found["stop"] <= shape[axis] and found["step"] >= 1):
            raise Mismatch
        if node.name == "broadcast" and (shape[axis] != 1 or values["size"] < 1):
            raise Mismatch
        return found

    def integer(self, value: Any, operands: list[SSAValue]) -> int:
        match value:
            case core.Capture(name):
                return self.sizes.setdefault(name, self.maker.random.choice((0, 0, 1, 1, 2, 3)))
            case core.Literal(number):
                return int(number) + self.faulty()
            case core.Size(operand, axes):
                shape = shape_of(self.build(operand))
                return int(np.prod([shape[a] for a in self.places(axes) if -a <= len(shape)])) - self.faulty()
            case core.Apply():
                numbers = [self.integer(operand, operands) for operand in value.operands]
                return numbers[0] * numbers[1] if value.name == "mul" else sum(numbers)
        raise Mismatch

    def written(self, name: str, operands: list[SSAValue], attributes: dict[str, Any]) -> SSAValue:
        """The operation in one of the ways that matching takes for the same."""
        maker, draw = self.maker, self.maker.random.random()
        if name == "mul" and operands[0] is operands[1] and draw < 0.4:
            return maker.add("square", operands[0])
        if name == "div" and draw < 0.2:
            return maker.add("mul", maker.add("reciprocal", operands[1]), operands[0])
        if name == "sub" and draw < 0.2:
            return maker.add("add", maker.add("neg", operands[1]), operands[0])
        if name in ("add", "mul") and draw < 0.08:
            return maker.add(name, maker.add(name, operands[0], maker.leaf()), operands[1])
        if name in ("add", "mul", "div", "exp") and draw > 0.97:
            return maker.add("neg", maker.add(name, *operands, **attributes))
        value = maker.add(name, *operands, **attributes)
        if name in ("sum", "mean", "max") and draw < 0.25:
            return self.maker.moved(value)
        return value


class Before:
    """What a function is before it is rewritten: its results over the reals on samples."""

    def __init__(self, block: Block, samples: list[dict[SSAValue, Array]]) -> None:
        self.samples = samples
        self.results = list(block.last_op.operands)
        self.values = [exactly(block, sample) for sample in samples]
        self.written = {op.value.value.data for op in block.ops if isinstance(op, ConstantOp)}

    def assert_kept(self, block: Block, report: str) -> None:
        """Wherever an old result is defined, the new one is defined and equal, and of the same type."""
        now = list(block.last_op.operands)
        assert [value.type for value in now] == [value.type for value in self.results], report
        for sample, values in zip(self.samples, self.values, strict=True):
            new = exactly(block, sample, self.written)
            for a, b in zip(self.results, now, strict=True):
                if a in values and b in new:
                    wrong = difference(values[a], new[b])
                    assert not wrong, f"{wrong}, {report}\nfor {[v.tolist() for v in sample.values()]}"


def shape_of(value: SSAValue) -> tuple[int, ...]:
    return tuple(value.type.get_shape())  # type: ignore[attr-defined]


def exactly(block: Block, inputs: dict[SSAValue, Array], written: set[float] | None = None, bits: int = 300) -> dict[SSAValue, Any]:
    """The balls of every value that has a formula. written: the constants that are what they say; others, such as log(2), were rounded."""
    exact: dict[SSAValue, Any] = {}
    with precision(bits):
        for value, array in inputs.items():
            exact[value] = Balls.of(np.asarray(array).astype(np.float64) if array.dtype.kind in "fV" else array)
        for operation in block.ops:
            if isinstance(operation, NumOp):
                compute_exactly(operation, exact, ArbMath(), None)
            if isinstance(operation, ConstantOp) and written is not None and operation.results[0] in exact:
                exact[operation.results[0]] = _perhaps_rounded(exact[operation.results[0]], operation.value.value.data, written)
    return exact


def _perhaps_rounded(constant: Balls, value: float, written: set[float]) -> Balls:
    """A constant with the numbers around it that are rounded to it, where no more than some of its bits are 0."""
    if value in written or -value in written or (value * 2**20).is_integer():
        return constant
    return Balls(np.vectorize(lambda _: arb(value, abs(value) * 2.0**-52), otypes=[object])(constant.values))


def difference(old: Any, new: Any, tolerance: float = 1e-10) -> str:
    """What is wrong with the new value, element by element: undefined where the old one is not, or surely another number."""
    if old.values.shape != new.values.shape:
        return f"shape {new.values.shape} instead of {old.values.shape}"
    with precision(300):
        for a, b in zip(old.values.reshape(-1).tolist(), new.values.reshape(-1).tolist(), strict=True):
            if a in (UNDEFINED, UNDECIDED) or b is UNDECIDED:
                continue
            if b is UNDEFINED:
                return f"undefined instead of {a}"
            if isinstance(a, bool) or isinstance(b, bool):
                if surely_different(a, b):
                    return f"{b} instead of {a}"
                continue
            x, y = arb(a), arb(b)
            if surely_different(a, b) and abs(x - y) > tolerance * abs(x) + arb(1e-12):
                return f"{y.str(15)} instead of {x.str(15)}"
    return ""
