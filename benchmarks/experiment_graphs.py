"""Random programs in which formulas occur that are known to be unstable, on arguments where some of them fail and some do not.

A program is a list of steps, each of which names a function below, the values that it is given, and one constant. It is drawn
step by step beside its values in float64: a step is kept where these stay finite and of moderate size, so that what goes wrong
in float32 goes wrong by rounding, overflow and underflow alone. What is drawn depends on the seed and on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

ROWS, COLUMNS = 4, 8
LEAST, MOST = 5, 40
"""Operations in a program."""
PART_UNSTABLE = 0.3
"""How often a step is one of the formulas known to be unstable; a program has at least one."""
PART_NEW = 0.7
"""How often an operand is a value that nothing uses yet."""
LARGEST = 1e4
"""No value that a step returns is larger."""

Tensor = torch.Tensor


@dataclass(frozen=True)
class Kind:
    """A function of one or two values and a constant; `operations` is about how many it has.

    spread: the range of the constant, drawn uniformly by its logarithm. fitted: the constant becomes the largest argument.
    """

    compute: Callable[..., Tensor]
    arity: int
    operations: int
    spread: tuple[float, float] = (1.0, 1.0)
    fitted: bool = False


def _scaled_exp(s: float, a: Tensor) -> Tensor:
    return torch.exp(s * a)


def _softmax(s: float, a: Tensor) -> Tensor:
    e = _scaled_exp(s, a)
    return e / e.sum(-1, keepdim=True)


def _variance(c: float, a: Tensor) -> Tensor:
    y = a + c
    mean = y.mean(-1, keepdim=True)
    return (y * y).mean(-1, keepdim=True) - mean * mean


def _distance(d: float, a: Tensor, b: Tensor) -> Tensor:
    near = a + d * b
    return (a * a).sum(-1, keepdim=True) + (near * near).sum(-1, keepdim=True) - 2 * (a * near).sum(-1, keepdim=True)


def _normalized(s: float, a: Tensor) -> Tensor:
    y = s * a
    return y / torch.sqrt((y * y).mean(-1, keepdim=True) + 1e-6)


def _tanh(s: float, a: Tensor) -> Tensor:
    e = torch.exp(2 * (s * a))
    return (e - 1) / (e + 1)


def _asinh(s: float, a: Tensor) -> Tensor:
    y = s * a
    return torch.log(y + torch.sqrt(y * y + 1))


def _root_difference(s: float, a: Tensor) -> Tensor:
    y = torch.abs(s * a)
    return torch.sqrt(y + 1) - torch.sqrt(y)


UNSTABLE: dict[str, Kind] = {
    "softmax": Kind(_softmax, 1, 4, (1, 200), fitted=True),
    "log of softmax": Kind(lambda s, a: torch.log(_softmax(s, a)), 1, 5, (1, 200), fitted=True),
    "log-sum-exp": Kind(lambda s, a: torch.log(_scaled_exp(s, a).sum(-1, keepdim=True)), 1, 4, (1, 200), fitted=True),
    "softplus": Kind(lambda s, a: torch.log(1 + _scaled_exp(s, a)), 1, 4, (1, 200), fitted=True),
    "sigmoid": Kind(lambda s, a: 1 / (1 + torch.exp(-(s * a))), 1, 5, (1, 200), fitted=True),
    "log of sigmoid": Kind(lambda s, a: torch.log(1 / (1 + torch.exp(-(s * a)))), 1, 6, (1, 200), fitted=True),
    "log(exp + exp)": Kind(lambda s, a, b: torch.log(_scaled_exp(s, a) + _scaled_exp(s, b)), 2, 6, (1, 200), fitted=True),
    "exp - 1": Kind(lambda s, a: _scaled_exp(s, a) - 1, 1, 3, (1e-7, 1), fitted=True),
    "log(1 + x)": Kind(lambda s, a: torch.log(1 + s * a), 1, 3, (1e-7, 0.9), fitted=True),
    "log(1 - exp)": Kind(lambda s, a: torch.log(1 - torch.exp(-torch.abs(s * a))), 1, 6, (1e-4, 50), fitted=True),
    "1 - cos": Kind(lambda s, a: 1 - torch.cos(s * a), 1, 3, (1e-4, 1), fitted=True),
    "1 - tanh": Kind(lambda s, a: 1 - torch.tanh(s * a), 1, 3, (0.1, 50), fitted=True),
    "tanh by exp": Kind(_tanh, 1, 6, (1e-4, 100), fitted=True),
    "asinh by log": Kind(_asinh, 1, 6, (1e-3, 1e5), fitted=True),
    "√(x + 1) - √x": Kind(_root_difference, 1, 6, (1, 1e6), fitted=True),
    "hypotenuse": Kind(lambda s, a, b: torch.sqrt((s * a) * (s * a) + (s * b) * (s * b)) / s, 2, 7, (1e-22, 1e22)),
    "one-pass variance": Kind(_variance, 1, 6, (1, 1e4)),
    "distance by squares": Kind(_distance, 2, 10, (1e-4, 1)),
    "root mean square": Kind(_normalized, 1, 6, (1, 1e22)),
}
PLAIN: dict[str, Kind] = {
    "add": Kind(lambda c, a, b: a + b, 2, 1),
    "sub": Kind(lambda c, a, b: a - b, 2, 1),
    "mul": Kind(lambda c, a, b: a * b, 2, 1),
    "div": Kind(lambda c, a, b: a / b, 2, 1),
    "shift": Kind(lambda c, a: a + c, 1, 1, (0.1, 10)),
    "scale": Kind(lambda c, a: a * c, 1, 1, (0.1, 10)),
    "square": Kind(lambda c, a: a * a, 1, 1),
    "sqrt": Kind(lambda c, a: torch.sqrt(a), 1, 1),
    "exp": Kind(lambda c, a: torch.exp(a), 1, 1),
    "log": Kind(lambda c, a: torch.log(a), 1, 1),
    "tanh": Kind(lambda c, a: torch.tanh(a), 1, 1),
    "sin": Kind(lambda c, a: torch.sin(a), 1, 1),
    "sum": Kind(lambda c, a: a.sum(-1, keepdim=True), 1, 1),
    "mean": Kind(lambda c, a: a.mean(-1, keepdim=True), 1, 1),
    "max": Kind(lambda c, a: a.amax(-1, keepdim=True), 1, 1),
}
KINDS = {**UNSTABLE, **PLAIN}


@dataclass(frozen=True)
class Step:
    kind: str
    operands: tuple[int, ...]
    constant: float


class RandomProgram(torch.nn.Module):
    """The steps of a program; value i is input i, or after them the result of a step. The last result is returned."""

    def __init__(self, steps: Sequence[Step]) -> None:
        super().__init__()
        self.steps = tuple(steps)

    def forward(self, *inputs: Tensor) -> Tensor:
        values = list(inputs)
        for step in self.steps:
            values.append(KINDS[step.kind].compute(step.constant, *(values[i] for i in step.operands)))
        return values[-1]


def drawn(seed: int, index: int) -> tuple[RandomProgram, tuple[Tensor, ...]]:
    """Program `index` of a seed, and its inputs in float32."""
    rng = np.random.default_rng([seed, index])
    inputs = tuple(torch.tensor(rng.standard_normal((ROWS, COLUMNS)), dtype=torch.float32) for _ in range(rng.integers(2, 5)))
    wanted = int(rng.integers(LEAST, MOST - 10 + 1))
    drawing = _Drawing(rng, [x.double() for x in inputs])
    while drawing.operations < wanted or not drawing.unstable:
        drawing.draw(UNSTABLE if rng.random() < PART_UNSTABLE else PLAIN)
    drawing.join()
    return RandomProgram(drawing.steps), inputs


class _Drawing:
    """A program under construction, and its values so far."""

    def __init__(self, rng: np.random.Generator, values: list[Tensor]) -> None:
        self.rng, self.values = rng, values
        self.steps: list[Step] = []
        self.unused = list(range(len(values)))
        self.operations = self.unstable = 0

    def draw(self, kinds: dict[str, Kind]) -> None:
        """Tries one step of a random kind."""
        name = str(self.rng.choice(sorted(kinds)))
        kind = kinds[name]
        operands = tuple(self._operand() for _ in range(kind.arity))
        constant = float(np.exp(self.rng.uniform(*np.log(kind.spread))))
        if kind.fitted:
            constant /= max(float(self.values[i].abs().max()) for i in operands) or 1.0
        self._tried(Step(name, operands, float(f"{constant:.3g}")))

    def join(self) -> None:
        """Adds or multiplies what nothing uses, until one value is left."""
        while len(self.unused) > 1:
            pair = (self.unused[0], self.unused[1])
            if not self._tried(Step(str(self.rng.choice(["add", "mul"])), pair, 1.0)):
                self._add(Step("add", pair, 1.0))

    def _operand(self) -> int:
        pool = self.unused if self.unused and self.rng.random() < PART_NEW else range(len(self.values))
        return int(self.rng.choice(list(pool)))

    def _tried(self, step: Step) -> bool:
        result = self._result(step)
        fine = bool(torch.isfinite(result).all()) and 0 < float(result.abs().max()) <= LARGEST
        if fine:
            self._add(step)
        return fine

    def _result(self, step: Step) -> Tensor:
        return KINDS[step.kind].compute(step.constant, *(self.values[i] for i in step.operands))

    def _add(self, step: Step) -> None:
        self.steps.append(step)
        self.values.append(self._result(step))
        self.unused = [i for i in self.unused if i not in step.operands] + [len(self.values) - 1]
        self.operations += KINDS[step.kind].operations
        self.unstable += step.kind in UNSTABLE
