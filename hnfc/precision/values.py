"""The values of a model that need a format, each once: what only moves elements keeps the format of what it moves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue, Use

from hnfc.analysis.cost import MATRIX, flops
from hnfc.dialects.facts import Access, Exactness
from hnfc.dialects.num.base import NumOp, as_tensor
from hnfc.dialects.num.constant import ConstantOp, WeightOp
from hnfc.dialects.num.elementary import DetachOp
from hnfc.dialects.num.movement import ConcatOp
from hnfc.dialects.num.opaque import OpaqueOp
from hnfc.dialects.types import DYNAMIC, ELEMENT_NAMES, format_of
from hnfc.formats.granular import Granular
from hnfc.formats.named import format_named
from hnfc.formats.scaled import ceiling, is_plain, split, stored_format
from hnfc.frontend.torch_mlir import GRADIENT
from hnfc.precision.policy import SemanticDType

if TYPE_CHECKING:
    from hnfc.analysis.calibrated import Calibration
    from hnfc.frontend.torch_mlir import Imported

_DIMENSION = 128
"""Stand-in for an unknown size."""


@dataclass(frozen=True)
class Effect:
    """Perturbation of one output: for relative errors of up to 1, and by the name of a format, as in PrecisionSite."""

    sensitivity: float
    moved: Mapping[str, float] = field(repr=False)


@dataclass(frozen=True)
class PrecisionSite:
    """One node of the precision sheaf: a value, and those that hold the same elements elsewhere.

    name: what the reader calls it, unlike all others. module: the path of the module that computes it. moved: by the name of a format, how
    far the outputs move where the value is rounded to it (root mean square; infinite where it overflows).
    nodes: the places of its values in the FX graph.
    """

    name: str
    operation: str
    module: str
    place: str
    role: SemanticDType
    elements: int
    low: float
    high: float
    sensitivity: float
    moved: Mapping[str, float] = field(repr=False)
    vanishing: frozenset[str] = frozenset()
    """The formats in which an element that is not 0 becomes 0."""
    nodes: tuple[int, ...] = ()
    work: float = 0.0
    """Operations on elements that compute it."""
    matrix: bool = False
    """True if they are a product of matrices or a convolution."""
    reads: float = 0
    """Number of times that operations read it as a whole."""
    apart: Mapping[int, Effect] = field(default_factory=dict, repr=False)
    """The same for single outputs, where targets are for these."""
    shape: tuple[int, ...] = ()
    """Of the elements, where it is known: blocks lie along its last axes."""
    live: tuple[int, int] = (0, 0)
    """The first and the last operation, by their places in the FX graph, at which it takes memory; what the model is given always does."""
    least: float = 0.0
    """The size of the least element that is not 0, where one becomes 0 in a format; 0 where it is not known."""
    backward: bool = False
    """True if a backward pass computes it; `module` is that of the operation whose gradient it is."""
    ordinary: float = 0.0
    """The size of the greatest element that is no mask."""
    own: str = ""
    """Format in which an input is given, or a result is wanted; "" for other sites."""
    lacking: frozenset[str] = frozenset()
    """Formats that torch cannot compute it in."""
    copied: int = 0
    """Elements of it that operations copy besides, to read them in another order."""

    @property
    def magnitude(self) -> float:
        """The size of the greatest finite element, 0 where there is none, as in a constant that is infinite."""
        return max(abs(self.low), abs(self.high)) if self.low <= self.high else 0.0

    def size_in(self, form: str) -> float:
        """The size of the greatest element that the format must hold: where it saturates, of those that are no masks."""
        return self.magnitude if ceiling(form) is None else self.ordinary

    def effect(self, output: int | None) -> Effect:
        """On one output, or on all together."""
        return Effect(self.sensitivity, self.moved) if output is None else self.apart[output]

    def bits_for(self, error: float, output: int | None = None) -> int:
        """Bits of significand with which a rounding moves the outputs by at most `error`: u·sensitivity ≤ error, u = 2^-p."""
        sensitivity = self.effect(output).sensitivity
        return 0 if sensitivity <= error else math.ceil(math.log2(sensitivity / error)) if error > 0 else 10**6


@dataclass(frozen=True)
class PrecisionSites:
    """All sites of a model, in the order of the program, and which of them feed which."""

    sites: tuple[PrecisionSite, ...]
    edges: tuple[tuple[str, str], ...]
    rms: float
    outputs: Mapping[int, float] = field(default_factory=dict)
    """The size of each output, where targets are for single ones."""
    parts: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """By edge the part of a value's elements that an operation reads; all where it is not known."""
    names: Mapping[int, str] = field(default_factory=dict)
    """Names of outputs, where they are not "output 0" and so on."""
    lacking: frozenset[tuple[int, str]] = frozenset()
    """The places of operations in the FX graph, with formats that torch cannot do them in."""

    def __getitem__(self, name: str) -> PrecisionSite:
        return next(site for site in self.sites if site.name == name)


def sites_of(
    imported: Imported, block: Block, calibration: Calibration, parameters: Mapping[int, str] | None = None, results: Sequence[str] = ()
) -> PrecisionSites:
    """parameters: the names of those arguments of the function that are parameters or buffers, by their places. results: of all results,
    where these have names."""
    parameters = parameters or {}
    roots = _roots(block, calibration)
    members: dict[SSAValue, list[SSAValue]] = {}
    for value, root in roots.items():
        members.setdefault(root, []).append(value)
    returned = block.last_op.operands if block.last_op is not None else ()
    outputs = {roots[v] for v in returned if v in roots}
    called = {roots[v]: name for v, name in reversed(list(zip(returned, results, strict=False))) if v in roots}
    points = _program_points(block, calibration)
    counts: dict[str, int] = {}
    named: dict[SSAValue, PrecisionSite] = {}
    for root, values in members.items():
        seen = calibration.values[root]
        operation, module, place, role = _described(imported, root, parameters)
        if root in outputs:
            role = SemanticDType.OUTPUT
        backward, module = module.startswith(GRADIENT), module.removeprefix(GRADIENT)
        base = f"{module}.{operation}" if module and role is not SemanticDType.PARAM else operation
        base = called.get(root, f"{GRADIENT}{base}" if backward else base)
        counts[base] = counts.get(base, 0) + 1
        name = base if counts[base] == 1 else f"{base}#{counts[base]}"
        moved = {form: _moved(calibration, root, values, form) for form in seen.moved}
        apart = {
            output: Effect(seen.reach(output).sensitivity, {form: _moved(calibration, root, values, form, output) for form in seen.moved})
            for output in calibration.outputs
        }
        shape = _shape(root)
        named[root] = PrecisionSite(
            name, operation, module, place, role, math.prod(shape), seen.low, seen.high, seen.sensitivity, moved, frozenset(seen.vanishing),
            tuple(sorted(calibration.nodes[v] for v in values)), *_work(root, values, roots), apart, shape, _live(values, points),
            seen.least if seen.least < math.inf else 0.0, backward, seen.ordinary, _own(root, root in outputs, parameters),
            frozenset(form for place, form in calibration.lacking if place in {calibration.nodes[v] for v in values}),
        )  # fmt: skip
    edges = tuple(_edges(block, roots, named))
    return PrecisionSites(tuple(named.values()), edges, calibration.rms, dict(calibration.outputs), lacking=frozenset(calibration.lacking))


def _own(root: SSAValue, is_result: bool, parameters: Mapping[int, str]) -> str:
    is_input = isinstance(root, BlockArgument) and root.index not in parameters
    return format_named(ELEMENT_NAMES[as_tensor(root.type).element_type]).name if is_input or is_result else ""


def _moved(calibration: Calibration, root: SSAValue, values: Sequence[SSAValue], form: str, output: int | None = None) -> float:
    """The largest movement of outputs where the values are rounded: to the format that they are computed in by the operation itself."""
    own = format_of(root.type)
    reach = calibration.values[root].reach(output)
    found = max(reach.moved[form] if v is root else _overflow(calibration, v, form) for v in values)
    if form in calibration.values[root].vanishing:
        # a small number in a divisor matters, and so does one that somebody wrote down
        written = isinstance(_computing(root), ConstantOp | WeightOp) and not isinstance(stored_format(form), Granular)
        if written or any(_has_pole(use) for v in values for use in v.uses):
            return math.inf
    owner = _computing(root)
    rounds = isinstance(owner, NumOp) and not owner.FACTS.exact and owner.operands
    if rounds and own is not None and stored_format(form).unit_roundoff <= own.unit_roundoff:
        return max(found, reach.sensitivity * stored_format(form).unit_roundoff)
    return found


def _work(root: SSAValue, values: Sequence[SSAValue], roots: Mapping[SSAValue, SSAValue]) -> tuple[float, bool, int]:
    """Operations on elements, whether some are of matrices, and how many operations read the values. One operation of torch may be several
    here: those whose results are no sites belong to the one that they lead to."""
    reads = sum(not _only_moves(use.operation) for v in values for use in v.uses)
    work, matrix = 0.0, False
    waiting = [_computing(root)]
    for owner in waiting:
        if isinstance(owner, Operation):
            work, matrix = work + flops(owner), matrix or owner.name in MATRIX
            inner = (o.owner for o in owner.operands if o not in roots and isinstance(o.owner, NumOp))
            waiting += [found for found in inner if found not in waiting]
    return work, matrix, reads


def _program_points(block: Block, calibration: Calibration) -> dict[Operation, int]:
    """The place in the FX graph of the operation of torch that each is part of: that of the next result which was observed."""
    following = 1 + max(calibration.nodes.values(), default=0)
    found: dict[Operation, int] = {}
    for operation in reversed(list(block.ops)):
        following = min((calibration.nodes[r] for r in operation.results if r in calibration.nodes), default=following)
        found[operation] = following
    return found


def _live(values: Sequence[SSAValue], points: Mapping[Operation, int]) -> tuple[int, int]:
    """Live range of some of the values, and of the values that only move their elements."""
    made = [points[v.owner] for v in values if isinstance(v.owner, Operation) and not isinstance(v.owner, ConstantOp | WeightOp)]
    if len(made) < len(values):
        return -1, max(points.values(), default=0)
    waiting, seen, last = list(values), set(values), max(made)
    for value in waiting:
        for use in value.uses:
            # what is in no block is not run
            last = max(last, points.get(use.operation, last))
            if _only_moves(use.operation):
                waiting += (moved := [result for result in use.operation.results if result not in seen])
                seen.update(moved)
    return min(made), last


def _only_moves(operation: Operation) -> bool:
    """Return whether every element of the result is one of the first operand, which keeps its format."""
    if isinstance(operation, DetachOp):
        return True
    moves = isinstance(operation, NumOp) and operation.FACTS.access is Access.MOVEMENT and operation.FACTS.exactness is Exactness.SELECTION
    return moves and not isinstance(operation, ConcatOp)


def _has_pole(use: Use) -> bool:
    """Return whether an operation has no value where this operand is 0."""
    if not isinstance(use.operation, NumOp):
        return False
    facts = use.operation.FACTS
    excluded = facts.domain.pole or (facts.domain.least == 0 and facts.domain.open and not facts.domain.irregular)
    return excluded or (facts.divisor and use.index == 1)


def _overflow(calibration: Calibration, value: SSAValue, form: str) -> float:
    """Infinite where a value that holds elements of another does not fit the format that this has."""
    moved = calibration.values[value].moved
    overflows = moved.get(split(form)[0]) == math.inf
    if is_plain(form):
        return math.inf if overflows else 0.0
    return math.inf if overflows and ceiling(form) is not None and moved.get(form, math.inf) == math.inf else 0.0


def _roots(block: Block, calibration: Calibration) -> dict[SSAValue, SSAValue]:
    """For every observed floating-point value the one whose elements it holds."""
    roots: dict[SSAValue, SSAValue] = {}
    source: dict[SSAValue, SSAValue] = {}

    def note(value: SSAValue, moved_from: SSAValue | None) -> None:
        source[value] = source.get(moved_from, moved_from) if moved_from is not None else value
        if value in calibration.values and format_of(value.type) is not None:
            roots[value] = source[value] if source[value] in calibration.values else value

    for argument in block.args:
        note(argument, None)
    for operation in block.ops:
        moves = _only_moves(operation) and len(operation.operands) == 1
        for result in operation.results:
            note(result, operation.operands[0] if moves else None)
    return roots


def _computing(root: SSAValue) -> Operation | Block:
    """Operation that computes the elements: one of torch may be several here, of which only the result of the last is observed."""
    owner = root.owner
    while isinstance(owner, Operation) and _only_moves(owner) and isinstance(owner.operands[0].owner, Operation):
        owner = owner.operands[0].owner
    return owner


def _described(imported: Imported, value: SSAValue, parameters: Mapping[int, str]) -> tuple[str, str, str, SemanticDType]:
    """Operation, module, place and role."""
    owner = _computing(value)
    if not isinstance(owner, Operation):
        assert isinstance(value, BlockArgument)
        index = value.index
        if index in parameters:
            name = parameters[index]
            return name, name.rpartition(".")[0], name, SemanticDType.PARAM
        return f"input {index}", "", f"input {index}", SemanticDType.COMPUTE
    location = imported.location(owner)
    module, separator, rest = location.partition(" (")
    if location.startswith(GRADIENT) and not separator:
        # of an operation that has no place in the model's source
        module, separator, rest = location, GRADIENT, ""
    place = rest.rstrip(")") if separator else location
    if owner.name in ("num.weight", "num.constant"):
        role = SemanticDType.PARAM
    else:
        role = SemanticDType.COMPUTE
    return _operation(owner), module if separator else "", place, role


def _operation(owner: Operation) -> str:
    if isinstance(owner, OpaqueOp):
        return owner.operation.data.removeprefix("torch.").removeprefix("aten.").partition(".")[0]
    return owner.name.removeprefix("num.") if isinstance(owner, NumOp) else "operation"


def _edges(block: Block, roots: Mapping[SSAValue, SSAValue], named: Mapping[SSAValue, PrecisionSite]) -> Sequence[tuple[str, str]]:
    """From each site to those that are computed from it; operations that are no sites are passed through."""
    behind: dict[SSAValue, tuple[str, ...]] = {}

    def names(value: SSAValue) -> tuple[str, ...]:
        root = roots.get(value)
        return (named[root].name,) if root is not None and root in named else behind.get(value, ())

    found: dict[tuple[str, str], None] = {}
    for operation in block.ops:
        before = tuple(dict.fromkeys(name for operand in operation.operands for name in names(operand)))
        for result in operation.results:
            behind[result] = before
            for name in names(result) if result in roots else ():
                found.update({(other, name): None for other in before if other != name})
    return list(found)


def _shape(value: SSAValue) -> tuple[int, ...]:
    assert isinstance(value.type, TensorType)
    return tuple(_DIMENSION if size == DYNAMIC else size for size in value.type.get_shape())
