"""Bounds of rounding errors that hold with a stated probability, if roundings are independent of each other and of mean 0.

An error is Σ J·ε over all roundings to first order, each |ε| ≤ c. With independent ε of mean 0, also where each only has mean 0 given the
ones before it, the Euclidean norm of the outputs' error is above t with a probability of at most 2·exp(-t²/(2·Σ|J|²c²)): Hoeffding's
inequality for martingales of vectors (Pinelis 1994). So √n takes the place of n in sums (Higham and Mary: A new approach to probabilistic
rounding error analysis, 2019; Connolly, Higham and Mary: Stochastic rounding and its probabilistic backward error analysis, 2021), and the
root of squares that of sums between layers.

Σ|J|²c² is the sum of the squares that one sweep backward gives from each output. From many outputs, it is estimated from normally
distributed combinations of them, and raised by a factor: of k of these the mean is below x·Σ with a probability of at most
(x·e^(1 - x))^(k/2), whatever J is (Chernoff's bound; one dominant direction is the worst case).

The second order is checked, not bounded: the same sum is taken at values that a rounding by ±c of every operation gives. Where both differ
by more than a half there is no bound, and elsewhere it is raised by as much as they differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from hnfc.analysis.linear import LinearTape
from hnfc.analysis.nodes import TapeNode
from hnfc.analysis.outputs import TOGETHER, Outputs, root_mean_squares
from hnfc.analysis.rounding import Arithmetic
from hnfc.analysis.taylor import Forms, forms, returned
from hnfc.core.interpreter import WeightReader
from hnfc.dialects.interval_arrays import Array, IntervalArray
from hnfc.dialects.types import format_of

PROBABILITY = 0.99
ASSUMPTION = (
    "if roundings are independent and unbiased, functions off by at most an ulp, and sums taken in the order of their terms or in lanes"
)
_EXACT_WORK = 2**28
"""Elements that the sweep from every output may touch; beyond, combinations of outputs stand for them."""
_PROBES = 32
"""Number of these combinations."""
_PROBE_SHARE = 0.1
"""Part of the probability of an exception that is for the combinations."""
_AT_ONCE = 512
"""Outputs, or combinations, in one sweep."""
_MOST_CHANGED = 0.5


@dataclass
class ProbableError:
    """Bounds of the root mean square error of the outputs, by the places of those that are looked at apart; None: of all together.

    values: the ends of each value. shares: the part of each operation in the squared bound of all outputs. second: by how much the
    second order changes the squares. scale: the root mean square of the outputs.
    """

    errors: dict[int | None, float]
    scale: float
    values: dict[SSAValue, tuple[float, float]]
    shares: dict[Operation, float]
    second: float
    missing: dict[SSAValue, str]


def probable_error(
    block: Block,
    inputs: Mapping[SSAValue, Array],
    weights: WeightReader | None,
    probability: float = PROBABILITY,
    outputs: Outputs = TOGETHER,
) -> ProbableError:
    """Bounds for these inputs, all of which hold together with the probability."""
    floats = [value for value in returned(block) if format_of(value.type) is not None]
    each = (1 - probability) / max(len(floats), 1)
    at, moved = (_recorded(block, inputs, weights, signs) for signs in (None, np.random.default_rng(0)))
    squares: dict[int, tuple[float, int]] = {}
    sizes: dict[int, tuple[float, int]] = {}
    by_operation: dict[Operation, float] = {}
    second = 0.0
    for place, value in enumerate(returned(block)):
        if format_of(value.type) is None:
            continue
        node = at.known.get(value)
        if not isinstance(node, TapeNode) or node.lost is not None:
            squares[place] = math.inf, 1
            continue
        count = math.prod(node.shape)
        assert isinstance(at.tape, LinearTape)
        exact = count <= _PROBES or at.tape.work_of(node) <= _EXACT_WORK
        parts, changed = (_squares(run, value, None if exact else each * _PROBE_SHARE) for run in (at, moved))
        there, elsewhere = sum(parts.values()), sum(changed.values())
        change = abs(elsewhere - there) / there if there else (math.inf if elsewhere else 0.0)
        second = max(second, change if change == change else math.inf)
        holds = change <= _MOST_CHANGED
        squares[place] = (
            (max(there, elsewhere) * (1 + change) * _quantile(each * (1 if exact else 1 - _PROBE_SHARE)) if holds else math.inf),
            count,
        )
        sizes[place] = float(np.square(node.line.centre).sum()), count
        for operation, part in parts.items():
            by_operation[operation] = by_operation.get(operation, 0.0) + part * outputs.weight(place) ** 2
    total = sum(by_operation.values())
    values = {
        v: (float(n.value.lo.min()), float(n.value.hi.max())) for v, n in at.known.items() if isinstance(n, TapeNode) and n.value.lo.size
    }
    scale = root_mean_squares(sizes, TOGETHER)[None]
    shares = {operation: part / total for operation, part in by_operation.items()} if total else {}
    return ProbableError(root_mean_squares(squares, outputs), scale, values, shares, second, at.walls)


def _recorded(block: Block, inputs: Mapping[SSAValue, Array], weights: WeightReader | None, signs: np.random.Generator | None) -> Forms:
    boxes = {value: IntervalArray.of(np.asarray(array).astype(np.float64)[None]) for value, array in inputs.items()}
    tape = LinearTape(points=True, signs=signs)
    return forms(block, boxes, weights, Arithmetic(independent=True), tape, whole=False)


def _squares(run: Forms, value: SSAValue, risk: float | None) -> dict[Operation, float]:
    """Σ|J|²c² of an output, by operations: exact, or an estimate raised so that it is too small with a probability of at most `risk`."""
    tape, node = run.tape, run.node(value)
    assert isinstance(tape, LinearTape)
    size = math.prod(node.shape)
    count = size if risk is None else _PROBES
    factor = 1.0 if risk is None else 1 / (_PROBES * _least_part(_PROBES, risk))
    # the same combinations for both runs, whose difference is then that of the derivatives
    generator = np.random.default_rng(1)
    found: dict[Operation, float] = {}
    for first in range(0, count, _AT_ONCE):
        rows = min(_AT_ONCE, count - first)
        seeds = np.eye(rows, size, first) if risk is None else generator.standard_normal((rows, size))
        for source, adjoint in tape.adjoint_arrays({node: seeds.reshape(-1, *node.shape)}):
            if source.noise is not None:
                with np.errstate(all="ignore"):
                    moved = np.where((adjoint == 0) | (source.noise == 0), 0.0, adjoint * source.noise)
                found[source.origin] = found.get(source.origin, 0.0) + float(np.square(moved).sum()) * factor
    return found


def _least_part(k: int, risk: float) -> float:
    """x with (x·e^(1 - x))^(k/2) = risk."""
    low, high = 0.0, 1.0
    for _ in range(60):
        x = (low + high) / 2
        low, high = (x, high) if x > 0 and k / 2 * (math.log(x) + 1 - x) < math.log(risk) else (low, x)
    return low


def _quantile(risk: float) -> float:
    """t²/Σ|J|²c² at which 2·exp(-t²/(2·Σ|J|²c²)) is the risk."""
    return 2 * math.log(2 / risk)
