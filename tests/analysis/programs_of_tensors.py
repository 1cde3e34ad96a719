"""Random programs of tensors: as torch runs them, as `num` says them, and in balls, each written by itself.

A step is an operation on values made before. The reference knows nothing of hnfc: arrays of python-flint's balls and NumPy's loops.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from flint import arb, ctx
from xdsl.ir import SSAValue

from hnfc.analysis.certified import Bounds, certified
from hnfc.analysis.ranges import Ranges, interval_of_array
from hnfc.dialects.types import FORMATS
from tests.analysis.sweeping import FORMS, SIZES, box, numbers, problems
from tests.dialects.building import to_numpy, to_torch
from tests.graphs import Graph

Balls = Any
BITS = 200


def each(name: str) -> Callable[[Balls], Balls]:
    """A method of balls on all elements."""
    return lambda x: np.frompyfunc(lambda a: getattr(a, name)(), 1, 1)(x)


def exact(value: float) -> Any:
    return arb(value)


def known(x: Any) -> bool:
    return bool(x.is_finite())


def choose(p: Balls, x: Balls, y: Balls) -> Balls:
    """x where the comparison surely holds, y where it surely fails, their union where that is not known."""
    return np.frompyfunc(lambda c, a, b: a if c is True else b if c is False else a.union(b), 3, 1)(p, x, y)


def above(x: Balls, y: Balls) -> Balls:
    return np.frompyfunc(lambda a, b: True if a > b else False if a <= b else None, 2, 1)(x, y)


def largest(x: Balls, y: Balls) -> Balls:
    return np.frompyfunc(lambda a, b: a.max(b), 2, 1)(x, y)


def least(x: Balls, y: Balls) -> Balls:
    return -largest(-x, -y)


def top(x: Balls, axis: int) -> Balls:
    return np.frompyfunc(lambda a, b: a.max(b), 2, 1).reduce(x, axis=axis, keepdims=True)


def full(value: float) -> Balls:
    return np.array(exact(value), dtype=object)


def sigmoid(x: Balls) -> Balls:
    return 1 / (1 + each("exp")(-x))


def softmax(x: Balls) -> Balls:
    e = each("exp")(x - top(x, -1))
    return e / e.sum(axis=-1, keepdims=True)


def standardized(x: Balls, eps: float) -> Balls:
    n = x.shape[-1]
    d = x - x.sum(axis=-1, keepdims=True) / n
    return d * each("rsqrt")((d * d).sum(axis=-1, keepdims=True) / n + exact(eps))


@dataclass(frozen=True)
class Step:
    """One operation three times: in torch, in `num`, and on balls. takes: what its operands are, "x" any value, others as `Program`."""

    name: str
    torch: Callable[..., Any]
    num: Callable[..., SSAValue]
    real: Callable[..., Balls]
    takes: str = "x"


def _unary(name: str, torch_: Any, real: Any) -> Step:
    return Step(name, torch_, lambda p, x: getattr(p.graph, name)(x), real)


NUMBERS = (0.1, 0.3, 1.7, -0.1, 1.0, 2.0, -2.5, 1e-3, 12.3)


def steps_with(c: float, d: float) -> list[Step]:
    """The steps, with the numbers that occur in them."""
    low, high = min(c, d), max(c, d)
    power = {0.1: 2.0, 0.3: 0.5, -0.1: -1.0, 1.0: 3.0, 2.0: -2.0, -2.5: -0.5, 1e-3: 0.1}.get(c, c)

    def bounded(p: Program, x: SSAValue) -> SSAValue:
        return p.graph.minimum(p.graph.maximum(x, p.number(low)), p.number(high))

    def chosen(p: Program, x: SSAValue, y: SSAValue) -> SSAValue:
        return p.graph.where(p.graph.compare(x, p.number(c), predicate="gt"), y, p.number(d))

    return [
        _unary("exp", torch.exp, each("exp")), _unary("tanh", torch.tanh, each("tanh")), _unary("sin", torch.sin, each("sin")),
        _unary("cos", torch.cos, each("cos")), _unary("sigmoid", torch.sigmoid, sigmoid), _unary("erf", torch.erf, each("erf")),
        _unary("expm1", torch.expm1, each("expm1")), _unary("sinh", torch.sinh, each("sinh")), _unary("cosh", torch.cosh, each("cosh")),
        _unary("atan", torch.atan, each("atan")), _unary("asinh", torch.asinh, each("asinh")), _unary("neg", torch.neg, lambda x: -x),
        _unary("relu", torch.relu, lambda x: largest(x, full(0.0))), _unary("abs", torch.abs, lambda x: abs(x)),
        _unary("square", torch.square, lambda x: x * x), _unary("silu", F.silu, lambda x: x * sigmoid(x)),
        _unary("softplus", F.softplus, lambda x: each("log1p")(each("exp")(x))),
        _unary("sqrt", torch.sqrt, each("sqrt")), _unary("log", torch.log, each("log")), _unary("log1p", torch.log1p, each("log1p")),
        _unary("reciprocal", torch.reciprocal, lambda x: 1 / x), _unary("rsqrt", torch.rsqrt, each("rsqrt")),
        Step("gelu", F.gelu, lambda p, x: p.graph.gelu(x, approximate="none"), lambda x: x * each("erfc")(-x / exact(2).sqrt()) / 2),
        Step("softmax", lambda x: x.softmax(-1), lambda p, x: p.graph.softmax(x, axes=(1,)), softmax),
        Step("log_softmax", lambda x: x.log_softmax(-1), lambda p, x: p.graph.log_softmax(x, axes=(1,)),
             lambda x: x - top(x, -1) - each("log")(each("exp")(x - top(x, -1)).sum(axis=-1, keepdims=True))),
        Step("logsumexp", lambda x: x.logsumexp(-1, keepdim=True), lambda p, x: p.graph.logsumexp(x, axes=(1,)),
             lambda x: top(x, -1) + each("log")(each("exp")(x - top(x, -1)).sum(axis=-1, keepdims=True))),
        Step("sum", lambda x: x.sum(-1, keepdim=True), lambda p, x: p.graph.sum(x, axes=(1,)), lambda x: x.sum(axis=-1, keepdims=True)),
        Step("mean", lambda x: x.mean(-1, keepdim=True), lambda p, x: p.graph.mean(x, axes=(1,)),
             lambda x: x.sum(axis=-1, keepdims=True) / x.shape[-1]),
        Step("max", lambda x: x.amax(-1, keepdim=True), lambda p, x: p.graph.max(x, axes=(1,)), lambda x: top(x, -1)),
        Step("prod", lambda x: x.prod(-1, keepdim=True), lambda p, x: p.graph.prod(x, axes=(1,)),
             lambda x: np.multiply.reduce(x, axis=-1, keepdims=True)),
        Step("cumsum", lambda x: x.cumsum(-1), lambda p, x: p.graph.cumsum(x, axis=1), lambda x: np.cumsum(x, axis=-1)),
        Step("layer_norm", lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, 1e-5),
             lambda p, x, w, b: p.graph.layer_norm(x, w, b, axes=(1,), eps=1e-5), lambda x, w, b: standardized(x, 1e-5) * w + b, "xvv"),
        Step("rms_norm", lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-5), lambda p, x, w: p.graph.rms_norm(x, w, axes=(1,), eps=1e-5),
             lambda x, w: x * each("rsqrt")((x * x).sum(axis=-1, keepdims=True) / x.shape[-1] + exact(1e-5)) * w, "xv"),
        Step("add", torch.add, lambda p, x, y: p.graph.add(x, y), lambda x, y: x + y, "xx"),
        Step("sub", torch.sub, lambda p, x, y: p.graph.sub(x, y), lambda x, y: x - y, "xx"),
        Step("mul", torch.mul, lambda p, x, y: p.graph.mul(x, y), lambda x, y: x * y, "xx"),
        Step("div", torch.div, lambda p, x, y: p.graph.div(x, y), lambda x, y: x / y, "xx"),
        Step("maximum", torch.maximum, lambda p, x, y: p.graph.maximum(x, y), largest, "xx"),
        Step("minimum", torch.minimum, lambda p, x, y: p.graph.minimum(x, y), least, "xx"),
        Step("add a number", lambda x: x + c, lambda p, x: p.graph.add(x, p.number(c)), lambda x: x + exact(c)),
        Step("times a number", lambda x: x * c, lambda p, x: p.graph.mul(x, p.number(c)), lambda x: x * exact(c)),
        Step("clamp", lambda x: x.clamp(low, high), bounded, lambda x: least(largest(x, full(low)), full(high))),
        Step("clamp from 0", lambda x: x.clamp(min=0), lambda p, x: p.graph.maximum(x, p.number(0.0)), lambda x: largest(x, full(0.0))),
        Step("where", lambda x, y: torch.where(x > c, y, d), chosen, lambda x, y: choose(above(x, full(c)), y, full(d)), "xx"),
        Step("pad", lambda x: F.pad(x, (1, 1), value=c), lambda p, x: p.graph.pad(x, low=(0, 1), high=(0, 1), value=c),
             lambda x: np.concatenate([np.full((x.shape[0], 1), exact(c)), x, np.full((x.shape[0], 1), exact(c))], axis=1)),
        Step("power", lambda x: x**power, lambda p, x: p.graph.pow(x, p.number(power)), lambda x: _power(x, power)),
        Step("leaky_relu", lambda x: F.leaky_relu(x, 0.1),
             lambda p, x: p.graph.where(p.graph.compare(x, p.number(0.0), predicate="gt"), x, p.graph.mul(x, p.number(0.1))),
             lambda x: choose(above(x, full(0.0)), x, x * exact(0.1))),
        Step("elu", F.elu, lambda p, x: p.graph.where(p.graph.compare(x, p.number(0.0), predicate="gt"), x, p.graph.expm1(x)),
             lambda x: choose(above(x, full(0.0)), x, each("expm1")(x))),
        Step("lerp", lambda x, y: torch.lerp(x, y, c), lambda p, x, y: p.graph.add(x, p.graph.mul(p.graph.sub(y, x), p.number(c))),
             lambda x, y: x + exact(c) * (y - x), "xx"),
        Step("addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=c),
             lambda p, x, y, z: p.graph.add(x, p.graph.mul(p.graph.mul(y, p.number(c)), z)), lambda x, y, z: x + exact(c) * y * z, "xxx"),
        Step("addcdiv", lambda x, y, z: torch.addcdiv(x, y, z, value=c),
             lambda p, x, y, z: p.graph.add(x, p.graph.div(p.graph.mul(y, p.number(c)), z)), lambda x, y, z: x + exact(c) * y / z, "xxx"),
        Step("add with alpha", lambda x, y: torch.add(x, y, alpha=c), lambda p, x, y: p.graph.add(x, p.graph.mul(y, p.number(c))),
             lambda x, y: x + exact(c) * y, "xx"),
        Step("softsign", F.softsign, lambda p, x: p.graph.div(x, p.graph.add(p.graph.abs(x), p.number(1.0))), lambda x: x / (abs(x) + 1)),
        Step("norm", lambda x: x.norm(dim=-1, keepdim=True), lambda p, x: p.graph.sqrt(p.graph.sum(p.graph.square(x), axes=(1,))),
             lambda x: each("sqrt")((x * x).sum(axis=-1, keepdims=True))),
        Step("std", lambda x: x.std(-1, correction=0, keepdim=True), lambda p, x: p.graph.sqrt(p.graph.var(x, axes=(1,), correction=0.0)),
             lambda x: each("sqrt")(((x - x.sum(axis=-1, keepdims=True) / x.shape[-1]) ** 2).sum(axis=-1, keepdims=True) / x.shape[-1])),
        Step("linear", lambda x, w, b: F.linear(x, w, b),
             lambda p, x, w, b: p.graph.add(p.graph.matmul(x, p.graph.transpose(w, perm=(1, 0))), b), lambda x, w, b: x @ w.T + b, "xWb"),
        Step("addmm", lambda x, w, b: torch.addmm(b, x, w.T, beta=c, alpha=d),
             lambda p, x, w, b: p.graph.add(p.graph.mul(p.graph.matmul(x, p.graph.transpose(w, perm=(1, 0))), p.number(d)),
                                            p.graph.mul(b, p.number(c))), lambda x, w, b: exact(d) * (x @ w.T) + exact(c) * b, "xWb"),
        Step("addmv", lambda x, w, b: torch.addmv(b, w, x[0])[None],
             lambda p, x, w, b: p.graph.reshape(p.graph.add(p.graph.matmul(w, p.graph.reshape(p.graph.slice(
                 x, axis=0, start=0, stop=1, step=1), shape=(p.columns(x),))), b), shape=(1, p.columns(b))),
             lambda x, w, b: (w @ x[0] + b)[None], "xWb"),
        Step("conv", lambda x, w, b: F.conv1d(x[:, None], w[:, None], b, padding=0)[:, 0] if w.shape[1] <= x.shape[1] else x[:, :1] * 0,
             lambda p, x, w, b: p.convolved(x, w, b), lambda x, w, b: _convolved(x, w, b), "xWb"),
    ]  # fmt: skip


def _power(x: Balls, power: float) -> Balls:
    if power == int(power):
        return x ** int(power)
    return np.frompyfunc(lambda a: a ** exact(power) if a > 0 else arb(0) if a == 0 and power > 0 else arb.nan(), 1, 1)(x)


def _convolved(x: Balls, w: Balls, b: Balls) -> Balls:
    """The first channel of a convolution of rows with the rows of w."""
    size = w.shape[1]
    windows = np.stack([x[:, i : x.shape[1] - size + 1 + i] for i in range(size)], axis=-1)
    return windows @ w[0] + b[0]


@dataclass
class Program:
    """One program under construction: values in `num`, in torch, and in balls."""

    seed: int
    element: str
    graph: Graph = field(default_factory=Graph)
    arrays: list[Any] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    values: list[tuple[SSAValue, torch.Tensor, Balls]] = field(default_factory=list)

    def number(self, value: float) -> SSAValue:
        return self.graph.constant(value, self.element)

    def columns(self, value: SSAValue) -> int:
        return int(value.type.get_shape()[-1])  # type: ignore[attr-defined]

    def convolved(self, x: SSAValue, w: SSAValue, b: SSAValue) -> SSAValue:
        rows, columns = x.type.get_shape()  # type: ignore[attr-defined]
        outputs, size = w.type.get_shape()  # type: ignore[attr-defined]
        made = self.graph.conv(
            self.graph.reshape(x, shape=(rows, 1, columns)), self.graph.reshape(w, shape=(outputs, 1, size)), stride=(1,), padding=(0,),
            dilation=(1,), groups=1,
        )  # fmt: skip
        summed = self.graph.add(made, self.graph.reshape(b, shape=(1, outputs, 1)))
        return self.graph.reshape(self.graph.slice(summed, axis=1, start=0, stop=1, step=1), shape=(rows, columns - size + 1))

    def argument(self, array: Any) -> tuple[SSAValue, torch.Tensor, Balls]:
        from hnfc.dialects.types import tensor

        value = self.graph.block.insert_arg(tensor(self.element, array.shape), len(self.graph.block.args))
        self.arrays.append(array)
        wide = np.asarray(array).astype(np.float64)
        return value, to_torch(array), np.frompyfunc(lambda a: arb(float(a)), 1, 1)(wide).reshape(array.shape).astype(object)


def made(seed: int) -> Program:
    """A random program of up to six steps; steps that torch lacks for a format are left out."""
    pick = random.Random(seed)
    generator = np.random.default_rng(seed)
    program = Program(seed, pick.choice(FORMS))
    count, rows = pick.choice(SIZES), pick.choice((1, 1, 2, 3, 4, 8))

    def drawn(shape: tuple[int, ...]) -> tuple[SSAValue, torch.Tensor, Balls]:
        return program.argument(np.asarray(numbers(generator, shape, program.element, (-2.0, 2.0))))

    pool = [drawn((rows, count)) for _ in range(pick.choice((1, 2)))]
    for _ in range(pick.choice((1, 2, 3, 4, 6))):
        step = pick.choice(steps_with(pick.choice(NUMBERS), pick.choice(NUMBERS)))
        x = pick.choice(pool[-3:])
        columns = x[1].shape[1]
        outputs = pick.choice((1, 2, 3, 8, 17)) if step.name != "conv" else 1
        width = columns if step.name != "conv" else pick.choice([n for n in (1, 2, 3, 5) if n <= columns])
        operands = [x]
        for kind in step.takes[1:]:
            fitting = [v for v in pool if v[1].shape == x[1].shape]
            operands.append({"x": lambda: pick.choice(fitting), "v": lambda: drawn((columns,)),  # noqa: B023
                             "W": lambda: drawn((outputs, width)), "b": lambda: drawn((outputs,))}[kind]())  # noqa: B023 # fmt: skip
        try:
            with torch.no_grad():
                run = step.torch(*(o[1] for o in operands))
        except (NotImplementedError, RuntimeError):
            continue
        value = step.num(program, *(o[0] for o in operands))
        pool.append((value, run, np.asarray(step.real(*(o[2] for o in operands)), dtype=object)))
        program.values.append(pool[-1])
        program.names.append(step.name)
    program.graph.returns(*(v for v, _, _ in program.values))
    return program


def trial(seed: int) -> Counter[str]:
    """One program: every value that torch computes, against its bound, its range and its interval."""
    before, ctx.prec = ctx.prec, BITS
    try:
        program = made(seed)
        wide = random.Random(seed).random() < 0.3
        arguments = dict(zip(program.graph.block.args, program.arrays, strict=True))
        bounds = certified(program.graph.block, {v: box(a, wide) for v, a in arguments.items()}, per="element").bounds
        ranges = Ranges({v: interval_of_array(a) for v, a in arguments.items()})
        counts: Counter[str] = Counter(programs=1)
        unknown = Bounds(-np.inf, np.inf, np.inf, np.inf, np.inf, np.inf, nan=True)
        for name, (value, run, balls) in zip(program.names, program.values, strict=True):
            true = [t if known(t) else None for t in balls.reshape(-1).tolist()]
            found = problems(bounds.get(value, unknown), ranges.of(value), to_numpy(run), true)
            counts += Counter({k if k in ("checked", "no bound") else f"{name} in {' → '.join(program.names)} {program.element} "
                               f"{tuple(run.shape)} seed {seed}: {k}": n for k, n in found.items() if n})  # fmt: skip
        return counts
    finally:
        ctx.prec = before


def checked(seeds: Sequence[int]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in seeds:
        counts += trial(seed)
    return counts


assert set(FORMS) <= set(FORMATS)
