"""Certified bounds of rounding errors: for every value, how far what is computed may lie from what the formula means over the reals.

Each operation's own rounding is a noise symbol ε, bounded by `rounding.local_error`. The result is a function F(x, ε), F(x, 0) being the
true one, so that |F(x, ε) - F(x, 0)| ≤ Σ |∂F/∂εᵢ|·|εᵢ| with the derivatives taken somewhere between, by the mean value theorem. All
derivatives by one output come from one reverse sweep over intervals that hold the values there, rounded or not: the remainder of higher
order that symbolic Taylor forms need (Solovyev and others: Rigorous estimation of floating-point round-off errors with symbolic Taylor
expansions, 2018) is part of the width of these intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from hnfc.analysis.batch_axis import filled
from hnfc.analysis.composed import composed
from hnfc.analysis.nodes import KleeneTruth, TapeNode, running_error
from hnfc.analysis.products import Products
from hnfc.analysis.rounding import Arithmetic, local_error, other_algorithm, rounded_to, working_format
from hnfc.analysis.structure import softmax, softmax_of, standardized, standardized_of
from hnfc.analysis.tape import Tape
from hnfc.core.interpreter import WeightReader
from hnfc.dialects.facts import Access, NoFormula, Result, Storage
from hnfc.dialects.interval_arrays import Array, IntervalArray
from hnfc.dialects.num.base import NumOp, as_tensor, element_name
from hnfc.dialects.num.comparison import WhereOp
from hnfc.dialects.num.constant import ConstantOp, WeightOp
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dialects.types import FORMATS, TypeMismatch
from hnfc.dsl.core import Apply, Capture, Expr, Literal, Size
from hnfc.dsl.error.algorithms import algorithm

STANDARD = Arithmetic()


class NotAnalyzed(Exception):
    """A value that no bound is known for; the message says which operation is in the way."""


@dataclass
class Forms:
    """Recording of a function: the node of every value, and the values that have none, with the reason."""

    tape: Tape = field(default_factory=Tape)
    known: dict[SSAValue, TapeNode | KleeneTruth] = field(default_factory=dict)
    walls: dict[SSAValue, str] = field(default_factory=dict)

    def node(self, value: SSAValue) -> TapeNode:
        """Raises NotAnalyzed."""
        if value not in self.known:
            raise NotAnalyzed(self.walls.get(value, "the value is not part of what was analyzed"))
        return self.tape.node(self.known[value])

    def bound(self, value: SSAValue) -> Array:
        """A bound of the error of every element, in the shape of the value (behind the first axis of the boxes)."""
        node = self.node(value)
        size = math.prod(node.shape)
        if size == 0:
            return np.zeros((1, *node.shape))
        if size == 1:
            bound = self._swept(node, IntervalArray.of(np.ones((1, *node.shape)))).reshape(-1, *node.shape)
        elif node.value.shape[0] != 1:
            raise NotAnalyzed("many boxes at once are for values of one element")
        else:
            bound = self._swept(node, IntervalArray.of(np.eye(size).reshape(size, *node.shape))).reshape(1, *node.shape)
        return bound if node.lost is None else np.where(node.lost, np.inf, bound)

    def running(self, value: SSAValue) -> Array:
        """A bound of the error of every element, in its shape, from one pass forward; `bound` is often smaller, and takes longer."""
        return running_error(self.node(value))

    def _swept(self, node: TapeNode, seed: IntervalArray) -> Array:
        lead = max(seed.lo.shape[0], node.value.shape[0])
        bound = np.zeros(lead)
        for part in self.contributions(node, seed).values():
            bound = bound + part
        return bound * (1 + 2.0**-40)

    def contributions(self, node: TapeNode, seed: IntervalArray) -> dict[int, Array]:
        """Contribution of each operation's rounding to the error, by the node's place on the tape."""
        found = {}
        with np.errstate(all="ignore"):
            adjoints = self.tape.adjoints(node, seed)
        for index, adjoint in adjoints.items():
            source = self.tape.nodes[index]
            if source.noise is None:
                continue
            lead = max(adjoint.lo.shape[0], source.value.shape[0])
            with np.errstate(invalid="ignore", over="ignore"):
                each = adjoint.magnitude * source.noise
            # an infinite error behind a derivative of 0 belongs to a branch that is not taken
            each = np.where((source.noise == 0) | (adjoint.magnitude == 0), 0.0, each)
            found[index] = np.broadcast_to(each, (lead, *source.shape)).reshape(lead, math.prod(source.shape)).sum(axis=1)
        return found


def forms(block: Block, inputs: Mapping[SSAValue, IntervalArray], weights: WeightReader | None = None,
          arithmetic: Arithmetic = STANDARD, tape: Tape | None = None, whole: bool = True) -> Forms:  # fmt: skip
    """Records a function of `num` on boxes: `inputs` gives each argument's, with a first axis for what is done at once."""
    recorder = Recorder(Forms(tape or Tape()), weights, arithmetic, whole=whole)
    for value, box in inputs.items():
        recorder.forms.known[value] = recorder.tape.input(box)
    with np.errstate(all="ignore"):
        for operation in block.ops:
            recorder.record(operation)
    return recorder.forms


@dataclass
class Recorder:
    """Records operations one by one. rounding: whether each has an error of its own."""

    forms: Forms
    weights: WeightReader | None
    arithmetic: Arithmetic = STANDARD
    rounding: bool = True
    whole: bool = True
    """True if softmax and normalization are functions of their own (see `structure`), and not only the steps of their algorithm."""
    stored: str | None = None
    """The narrow format that every step of an algorithm is rounded to besides; None where only its result is."""
    products: Products = field(default_factory=Products)

    @property
    def tape(self) -> Tape:
        return self.forms.tape

    def record(self, operation: Operation) -> None:
        """Adds the result of an operation, or the reason why it has none."""
        if not isinstance(operation, NumOp) or len(operation.results) != 1:
            for result in operation.results:
                self.forms.walls[result] = f"{operation.name} has no bound"
            return
        result = operation.results[0]
        missing = [o for o in operation.operands if o not in self.forms.known]
        if missing:
            self.forms.walls[result] = self.forms.walls.get(missing[0], "an input has no range")
            return
        try:
            self.forms.known[result] = self.recorded(operation, [self.forms.known[o] for o in operation.operands])
        except (NoFormula, TypeMismatch, NotImplementedError, MemoryError) as error:
            self.forms.walls[result] = f"{operation.name.removeprefix('num.')} has no bound" + (f" ({error})" if str(error) else "")

    def recorded(self, operation: NumOp, operands: list[TapeNode | KleeneTruth]) -> TapeNode | KleeneTruth:
        """Result of the operation on these operands. Raises NoFormula."""
        storage = element_name(as_tensor(operation.results[0].type))
        if isinstance(operation, ConstantOp):
            return self._constant(operation, storage)
        if isinstance(operation, WeightOp):
            if self.weights is None:
                raise NoFormula("the weights are not at hand")
            return self.tape.node(np.asarray(self.weights(operation.weight_name)).astype(np.float64))
        attributes = operation.attributes_as_python()
        short, facts = operation.name.removeprefix("num."), operation.FACTS
        working = storage if facts.storage is Storage.WHOLE and storage in FORMATS else working_format(storage)
        if facts.storage is Storage.STEPS and storage != working and self.stored is None and storage in FORMATS:
            return replace(self, stored=storage).recorded(operation, operands)
        if facts.access is Access.MOVEMENT:
            return self._moved(operation, [self.tape.node(o) for o in operands], attributes)
        if storage not in FORMATS:
            return self._integral(operation, operands, attributes)
        if short in ("cast", "round_to"):
            return self._stored(self.tape.copy(self.tape.node(operands[0])), attributes.get("format", storage), operation)
        if short == "var" and math.prod(self.tape.node(operands[0]).shape[axis] for axis in attributes["axes"]) <= attributes["correction"]:
            raise NoFormula("it divides by 0")
        whole = composed(self, operation, operands, attributes, working)
        captures = [Capture(f"x{i}") for i in range(len(operands))]
        steps = algorithm(Apply(type(operation), tuple(captures), tuple(attributes.items()))) if whole is None else None
        if short in ("matmul", "affine", "conv"):
            self.products.note(operation, *(self.tape.node(o) for o in operands[:2]), whole=short == "matmul" and working == storage)
        result: TapeNode | KleeneTruth
        if whole is not None:
            result = whole
        elif steps is not None:
            named = dict(zip((c.name for c in captures), operands, strict=True))
            result = self.steps(steps, named, working, operation)
        else:
            result = self.applied(type(operation), operands, attributes, working, operation)
        if short in ("add", "sub") and self.rounding and isinstance(result, TapeNode) and not self.arithmetic.correct:
            terms, independent = [self.tape.node(o) for o in operands], self.arithmetic.independent
            for extra in self.products.onto_sums(operation, terms, result, FORMATS[working], independent):
                result = self.tape.round(self.tape.copy(result), np.broadcast_to(extra, result.value.shape), operation)
        plain = [self.tape.node(o) for o in operands] if self.rounding and whole is None else []
        more = other_algorithm(short, plain, attributes, FORMATS[working], self.arithmetic.independent) if plain else None
        if more is not None and isinstance(result, TapeNode):
            result = self.tape.round(self.tape.copy(result), np.broadcast_to(more, result.value.shape), operation)
        if isinstance(result, TapeNode) and working != storage:
            if operation.FACTS.stray_half and self.rounding and not self.arithmetic.correct:
                result = self.tape.round(self.tape.copy(result), np.full(result.value.shape, operation.FACTS.stray_half), operation)
            result = self._stored(self.tape.copy(result), storage, operation)
            if operation.FACTS.roundings > 1 and self.rounding and not self.arithmetic.correct:
                form = FORMATS[storage]
                size = result.value.magnitude
                again = size * (form.unit_roundoff * (1 + 8 * form.unit_roundoff)) + form.tiny
                again = np.where((operation.FACTS.early > 1) & (size > form.largest / operation.FACTS.early), np.inf, again)
                result = self.tape.round(self.tape.copy(result), again * (operation.FACTS.roundings - 1), operation)
        return result

    def _constant(self, operation: ConstantOp, storage: str) -> TapeNode:
        shape = as_tensor(operation.results[0].type).get_shape()
        exact = np.broadcast_to(np.asarray(operation.attributes_as_python()["value"], np.float64), shape)
        node = self.tape.node(exact)
        if storage in FORMATS and self.rounding:
            # beside a narrow tensor a number without axes keeps its digits in some kernels, and is rounded in others
            away = np.zeros(np.shape(exact))
            for kind in {storage} if shape else {storage, working_format(storage)}:
                stored = exact.astype(NUMPY_TYPES[kind]).astype(np.float64)
                near = np.isfinite(exact) & np.isfinite(stored)
                away = np.maximum(away, np.where(exact == stored, 0.0, np.where(near, np.abs(stored - exact) * (1 + 2.0**-50), np.inf)))
            if np.any(away):
                self.tape.round(node, away[None], operation)
        return node

    def _moved(self, operation: NumOp, operands: list[TapeNode], attributes: dict[str, Any]) -> TapeNode:
        filling = float(attributes.pop("value", 0.0))
        extra = {"value": -1} if operation.name == "num.pad" else {}
        assert operation.FACTS.evaluate is not None
        compute = operation.FACTS.evaluate
        result = self.tape.moved(operands, lambda arrays: np.asarray(compute(*arrays, **attributes, **extra)), IntervalArray.of(filling))
        storage = element_name(as_tensor(operation.results[0].type))
        stored = float(NUMPY_TYPES[storage](filling)) if extra and storage in FORMATS and self.rounding else filling
        if stored != filling and stored == stored:
            filled_in = compute(np.ones(operands[0].shape), **attributes, value=0.0) == 0
            result = self.tape.round(self.tape.copy(result), filled_in[None] * (abs(stored - filling) * (1 + 2.0**-50)), operation)
        return result

    def _integral(self, operation: NumOp, operands: list[TapeNode | KleeneTruth], attributes: dict[str, Any]) -> TapeNode | KleeneTruth:
        """Truth values, which are followed; an integer computed from floating-point numbers has no bound."""
        if operation.FACTS.real is None or not (operation.FACTS.result is Result.TRUTH or isinstance(operation, WhereOp)):
            # integers wrap around, and are cut off
            raise NoFormula("a result that is no floating-point number")
        found: TapeNode | KleeneTruth = operation.FACTS.real(self.tape, *operands, **attributes)
        return found

    def applied(
        self, kind: type[NumOp], operands: list[Any], attributes: dict[str, Any], working: str, origin: Operation
    ) -> TapeNode | KleeneTruth:
        if kind.FACTS.real is None:
            raise NoFormula("it is no formula over the reals")
        short = kind.name.removeprefix("num.")
        nodes = [self.tape.node(o) if short != "where" or i else o for i, o in enumerate(operands)]
        plain = {k: v for k, v in attributes.items() if not isinstance(v, Apply | Literal | Size)}
        if kind.FACTS.derivative is not None:
            found = self.tape.rising(self.tape.node(operands[0]), kind.FACTS)
        else:
            found = kind.FACTS.real(self.tape, *nodes, **plain)
        if not isinstance(found, TapeNode):
            if isinstance(found, KleeneTruth):
                return found
            raise NoFormula("several results")
        if not self.rounding:
            return found
        noise = local_error(
            short, kind.FACTS, found, [n for n in nodes if isinstance(n, TapeNode)], plain, FORMATS[working], self.arithmetic
        )
        found = self.tape.round(self.tape.copy(found), np.broadcast_to(noise, found.value.shape), origin) if np.any(noise) else found
        return found if self.stored is None or kind.FACTS.exact else self._stored(self.tape.copy(found), self.stored, origin)

    def steps(
        self, expression: Expr, named: Mapping[str, TapeNode | KleeneTruth], working: str, origin: Operation
    ) -> TapeNode | KleeneTruth:
        """The algorithm of an operation, step by step; a step that occurs twice is one."""
        memo: dict[Expr, TapeNode | KleeneTruth] = {}

        def value(node: Expr) -> TapeNode | KleeneTruth:
            if node not in memo:
                memo[node] = compute(node)
            return memo[node]

        def compute(node: Expr) -> TapeNode | KleeneTruth:
            match node:
                case Capture(name):
                    return named[name]
                case Literal(number):
                    return self._number(number, working)
                case Size(operand, axes):
                    return self.tape.size(value(operand), [axis for axis in axes if isinstance(axis, int)])
                case Apply(kind, operands):
                    found = self._whole(node, value, working, origin) if self.whole else None
                    if found is not None:
                        return found
                    return self._sharpened(node, self.applied(kind, [value(o) for o in operands], dict(node.attributes), working, origin))
            raise NoFormula(f"no expression: {node!r}")

        return value(expression)

    def _whole(self, node: Apply, value: Callable[[Expr], TapeNode | KleeneTruth], working: str, origin: Operation) -> TapeNode | None:
        """A softmax or a normalization: what it does to errors as a function, and its own error from the steps of its algorithm."""
        soft, standard = softmax_of(node), standardized_of(node)
        if soft is not None:
            x = self.tape.node(value(soft[0]))
            result = softmax(self.tape, x, [axis for axis in soft[1] if isinstance(axis, int)])
        elif standard is not None:
            inner, axes, eps, centred = standard
            x = self.tape.node(value(inner))
            result = standardized(self.tape, x, [axis for axis in axes if isinstance(axis, int)], eps, centred)
        else:
            return None
        if not self.rounding:
            return result
        alone = replace(self, forms=Forms(Tape(recording=False)), whole=False)
        exact = TapeNode(alone.tape, x.value, exact=False, lost=x.lost)
        stepped = alone.steps(_with_operand(node, soft[0] if soft is not None else inner), {"x": exact}, working, origin)
        assert isinstance(stepped, TapeNode)
        return self.tape.round(result, filled(running_error(stepped), result.value.shape), origin)

    def _sharpened(self, node: Apply, found: TapeNode | KleeneTruth) -> TapeNode | KleeneTruth:
        """x - max x ≤ 0 and Σ e^(x - max x) ≥ 1, rounded or not: e^0 is 1, up to the guarantee of the exponential."""
        if node.name == "sub" and isinstance(node.operands[1], Apply) and isinstance(found, TapeNode):
            other = node.operands[1]
            if other.name == "max" and other.operands[0] == node.operands[0]:
                found.value = found.value.meet(-np.inf, 0.0)
        if node.name == "sum" and isinstance(node.operands[0], Apply) and node.operands[0].name == "exp" and isinstance(found, TapeNode):
            shifted = node.operands[0].operands[0]
            if isinstance(shifted, Apply) and shifted.name == "sub" and isinstance(shifted.operands[1], Apply):
                top = shifted.operands[1]
                if top.name == "max" and top.operands[0] == shifted.operands[0] and dict(top.attributes) == dict(node.attributes):
                    found.value = found.value.meet(1 - 2.0**-18, np.inf)
        return found

    def _number(self, number: Any, working: str) -> TapeNode:
        node = self.tape.const(number)
        stored = float(NUMPY_TYPES[working](float(number)))
        away = max(abs(float(node.value.lo.reshape(-1)[0]) - stored), abs(float(node.value.hi.reshape(-1)[0]) - stored))
        if away and self.rounding:
            self.tape.round(node, np.full((1,), away * (1 + 2.0**-50)))
        return node

    def _stored(self, x: TapeNode, storage: str, origin: Operation) -> TapeNode:
        """Rounded once to the format; exact where every number of a narrower one is kept."""
        if not self.rounding:
            return x
        form = FORMATS[storage]
        source = origin.operands[0].type if origin.name == "num.cast" else None
        narrower = source is not None and FORMATS.get(element_name(as_tensor(source)))
        if narrower and narrower.unit_roundoff >= form.unit_roundoff and narrower.tiny >= form.tiny and narrower.largest <= form.largest:
            return x
        return self.tape.round(x, rounded_to(x.value, form), origin)


def _with_operand(node: Expr, x: Expr) -> Expr:
    """The expression with a capture `x` in the place of an operand."""
    if node == x:
        return Capture("x")
    match node:
        case Apply(kind, operands, attributes):
            return Apply(kind, tuple(_with_operand(o, x) for o in operands), attributes)
        case Size(operand, axes):
            return Size(_with_operand(operand, x), axes)
    return node


def returned(block: Block) -> list[SSAValue]:
    """The values that a function returns."""
    return list(block.last_op.operands) if block.last_op is not None else []
