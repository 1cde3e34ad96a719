"""Parts of a tensor program in a wider element type: the last resort where digits are lost on the samples and no better form is known.

The part is as small as it can be: the operations that lose digits, what makes their operands as far as that helps, and what uses numbers
that the narrow type cannot hold. Over the reals nothing changes, since a cast changes no number.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from hnfc.accuracy.losses import Losses, OutputOfRun, float_type, is_narrowing, least_loss, losses_by_run, total_loss
from hnfc.analysis.cost import flops
from hnfc.core.dead_code import erase_dead
from hnfc.dialects.facts import Access
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.base import NumOp
from hnfc.dialects.num.constant import ConstantOp, WeightOp
from hnfc.dialects.num.opaque import OpaqueOp
from hnfc.dialects.torch import TorchType
from hnfc.dialects.types import tensor
from hnfc.dsl import core
from hnfc.dsl.rulebook import shipped
from hnfc.pipeline.request import WIDE
from hnfc.rewrite.record import Rewrite, RewriteOutcome

WIDER = {"f16": ("f32", "f64"), "bf16": ("f32", "f64"), "f32": ("f64",)}
WIDE_ELEMENTS = ("f32", "f64")
NAMES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
MOST_OPERATIONS = 2000
"""Operations of all parts together."""
MOST_WORK = 2.0**27
"""Multiplications and additions that may move to the wider type."""
SECONDS = 10.0
"""Time for the choice of the parts."""
_MOST_OF_KERNEL = 32
"""Operations of a kernel that rounds its result at the end."""
LEAST_GAIN = 2.0
"""Bits beyond chance that some output must gain."""
SLACK = 0.5
"""Bits that a smaller region may lose."""
_CAST = OPERATIONS["cast"]


@dataclass(frozen=True)
class WidePart:
    """Connected operations that compute in a wider type. marks: of each the type and its mark, by which other captures find them."""

    operations: tuple[Operation, ...]
    marks: frozenset[str]
    element: str
    name: str


def wide_parts(
    block: Block, found: Losses, excluded: Collection[str] = (), elements: Sequence[str] = WIDE_ELEMENTS
) -> list[WidePart]:  # fmt: skip
    """The parts that must be wide so that the outputs lose hardly a digit on the samples; none where that does not help.

    The next wider type of `elements` is tried first, and one beyond it where that keeps more.
    """
    parts: list[WidePart] = []
    least = total_loss(found.now)
    for element in elements:
        choice = _Choice(block, found, element)
        region = choice.region()
        left = choice.losses_with(region) if region else found.now
        of_element = choice.parts(region, excluded)
        if of_element and total_loss(left) <= least - LEAST_GAIN:
            parts, least = of_element, total_loss(left)
            if all(bits < least_loss(found.counted[value]) for (value, _), bits in left.items()):
                break
    return parts


@dataclass
class _Choice:
    """Choice of the operations that are to compute in `element`, by the bits that the outputs lose then."""

    block: Block
    losses: Losses
    element: str
    deadline: float = field(default_factory=lambda: time.monotonic() + SECONDS)

    def region(self) -> Collection[Operation]:
        """The smallest region that is about as good as the best one; empty where none gains enough."""
        if self.losses.lost:
            return self._around(self.losses.lost, self._can_be_wide)
        # where no operation loses digits by itself, a chain of them loses a little each; products of matrices are no such chain
        ends = [value.owner for value in self.losses.inaccurate if isinstance(value.owner, Operation)]
        return self._around(ends, lambda op: self._can_be_wide(op) and op.FACTS.access is not Access.CONTRACTION)

    def parts(self, region: Collection[Operation], excluded: Collection[str]) -> list[WidePart]:
        """The parts of a region that are not excluded; of a larger one where some are."""
        found = parted(region, self.block, self.element)
        if any(part.name in excluded for part in found):
            # what was too small for some probe may be right with all that its operands and results are made of
            grown = list(_growing({*region, *_uses(region, self._is_of_narrow)}, self._is_of_narrow))
            larger = [part for part in parted(grown[-1], self.block, self.element) if part.name not in excluded] if grown else []
            if larger:
                return larger
        return [part for part in found if part.name not in excluded]

    def losses_with(self, region: Collection[Operation]) -> dict[OutputOfRun, float]:
        """The bits that each output loses on each sample if the region is wide."""
        wide = frozenset(region)
        runs = [run.outputs(wide, self.element) for run in self.losses.runs]
        return losses_by_run(self.losses.counted, runs, self.losses.truth)

    def _around(self, seeds: Collection[Operation], can_be_wide: Callable[[Operation], bool]) -> Collection[Operation]:
        before = total_loss(self.losses.now)
        least, best = before, frozenset[Operation]()
        for region in _growing(set(filter(can_be_wide, seeds)), can_be_wide):
            if self._late():
                break
            after = self._lost(region)
            if after < least - 1:
                least, best = after, region
        return self._smallest(best, least + SLACK) if least <= before - LEAST_GAIN else ()

    def _smallest(self, region: Collection[Operation], enough: float) -> set[Operation]:
        """The region without operations at its borders that gain nothing. What lies between others stays: each border is a cast."""
        kept = set(region)
        for inner in (_makers, _users):
            needed: set[Operation] = set()
            while edge := [op for op in self.block.ops if op in kept and op not in needed and not kept & inner(op)]:
                for op in edge:
                    if not self._late() and len(kept) > 1 and self._lost(kept - {op}) <= enough:
                        kept.discard(op)
                    else:
                        needed.add(op)
        return kept

    def _lost(self, region: Collection[Operation]) -> float:
        return total_loss(self.losses_with(region))

    def _can_be_wide(self, op: Operation) -> TypeGuard[NumOp]:
        return can_be_wide(op, self.element)

    def _is_of_narrow(self, op: Operation) -> bool:
        return can_be_wide(op, self.element) or comes_back(op, self.element)

    def _late(self) -> bool:
        return time.monotonic() > self.deadline


def _makers(op: Operation) -> set[Operation]:
    return {operand.owner for operand in _tensors(op) if isinstance(operand.owner, Operation)}


def _users(op: Operation) -> set[Operation]:
    return {use.operation for result in op.results for use in result.uses}


def _uses(region: Collection[Operation], can_be_wide: Callable[[Operation], bool]) -> set[Operation]:
    """The operations behind a region that can be wide too."""
    edge = set(region)
    seen: set[Operation] = set()
    while edge:
        edge = {user for op in edge for user in _users(op) if user not in seen and can_be_wide(user)}
        seen |= edge
    return seen


def _growing(seeds: Collection[Operation], can_be_wide: Callable[[Operation], bool]) -> Iterator[frozenset[Operation]]:
    """Regions around the seeds: alone, then with what makes their operands, 1, 2, 4 … operations away, as far as that is affordable."""
    region, edge = set(seeds), set(seeds)
    depth, shown = 0, 0
    while edge and len(region) <= MOST_OPERATIONS and math.fsum(map(flops, region)) <= MOST_WORK:
        edge = {op for used in edge for op in _makers(used) if op not in region and can_be_wide(op)}
        if depth < 4 or depth >= 2 * shown or not edge:
            shown = depth
            yield frozenset(region)
        region |= edge
        depth += 1


def can_be_wide(op: Operation, element: str) -> TypeGuard[NumOp]:
    """Return whether the operation gives numbers of a type that is narrower than `element`, and computes in any type."""
    if not isinstance(op, NumOp) or isinstance(op, ConstantOp | WeightOp) or len(op.results) != 1:
        return False
    if element not in WIDER.get(float_type(op.results[0]), ()) or is_narrowing(op):
        return False
    # what hnfc does not know may be run by torch, in the type of its operands
    return any(map(float_type, _tensors(op))) if isinstance(op, OpaqueOp) else op.FACTS.evaluate is not None


def comes_back(op: Operation, element: str) -> bool:
    """Return whether a cast rounds to the type, narrower than `element`, of all that its operand is computed of, as a kernel does that
    accumulates in a wider type. A cast of wider inputs is the model's own."""
    if not isinstance(op, _CAST) or element not in WIDER.get(float_type(op.results[0]), ()):
        return False
    narrow, seen, stack = float_type(op.results[0]), set[SSAValue](), list(op.operands)
    while stack:
        value = stack.pop()
        if value in seen or float_type(value) in ("", narrow) or isinstance(value.owner, ConstantOp):
            continue
        if not isinstance(value.owner, NumOp) or not value.owner.operands or len(seen) == _MOST_OF_KERNEL:
            return False
        seen.add(value)
        stack += _tensors(value.owner)
    return True


def _tensors(op: Operation) -> Iterator[SSAValue]:
    """The tensors that an operation takes, those in lists too."""
    for operand in op.operands:
        if isinstance(operand.type, TensorType):
            yield operand
        elif isinstance(operand.owner, Operation):
            yield from (v for v in operand.owner.operands if isinstance(v.type, TensorType))


def parted(region: Collection[Operation], block: Block, element: str) -> list[WidePart]:
    """The connected parts of a region."""
    marks = marks_of(block)
    part_of: dict[Operation, set[Operation]] = {}
    for op in [op for op in block.ops if op in region]:
        whole = {op}
        for maker in _makers(op):
            whole |= part_of.get(maker, set())
        for member in whole:
            part_of[member] = whole
    parts = {id(whole): whole for whole in part_of.values()}
    found = []
    for whole in parts.values():
        ordered = tuple(op for op in block.ops if op in whole)
        its_marks = frozenset(f"{element} {marks[op]}" for op in ordered)
        label = hashlib.sha256(" ".join(sorted(its_marks)).encode()).hexdigest()[:4]
        found.append(WidePart(ordered, its_marks, element, f"in_{NAMES[element]}_{label}"))
    return found


def marks_of(block: Block) -> dict[Operation, str]:
    """A text for each operation that says how it is made from the arguments, whatever their sizes: the same in every capture of a model."""
    marks: dict[Operation, str] = {}
    for op in block.ops:
        # sizes differ between captures, and with them where a slice ends
        parts = [op.name, *(f"{name} {value}" for name, value in sorted(op.properties.items()) if name not in ("stop", "carried"))]
        for operand in _tensors(op):
            owner = operand.owner
            parts.append(marks[owner] if isinstance(owner, Operation) else f"argument {operand.index}")  # type: ignore[attr-defined]
        marks[op] = hashlib.sha256(" ".join(parts).encode()).hexdigest()
    return marks


def marked_parts(block: Block, known: Collection[str], excluded: Collection[str]) -> list[WidePart]:
    """The parts whose operations have these marks."""
    marks = marks_of(block)
    parts = []
    for element in WIDE_ELEMENTS:
        marked = (op for op, mark in marks.items() if f"{element} {mark}" in known)
        region = [op for op in marked if can_be_wide(op, element) or comes_back(op, element)]
        parts += parted(region, block, element)
    return [part for part in parts if part.name not in excluded]


def widen(part: WidePart, rule: core.Rule, outcome: RewriteOutcome, place: Callable[[Operation], str]) -> dict[Operation, Operation]:
    """Replaces the operations of a part by wide ones and casts at its borders, and records that; the origin of each new operation.

    rule: the identity by which a number is itself after it was cast to a wider type and back.
    """
    wide: dict[SSAValue, SSAValue] = {}
    origins: dict[Operation, Operation] = {}
    inside = set(part.operations)
    made: list[Operation] = []

    def insert(new: Operation, before: Operation) -> SSAValue:
        Rewriter.insert_op(new, InsertPoint.before(before))
        origins[new] = before
        made.append(new)
        return new.results[0]

    def widened(value: SSAValue, user: Operation) -> SSAValue:
        owner = value.owner
        if isinstance(owner, OpaqueOp) and not isinstance(value.type, TensorType) and any(map(float_type, owner.operands)):
            return insert(_list_of(owner, [widened(v, user) for v in owner.operands]), user)
        if not float_type(value) or float_type(value) == part.element:
            return value
        if value not in wide:
            if isinstance(owner, ConstantOp):
                maker: Operation = ConstantOp.create(result_types=[_typed(value, part.element)], properties=dict(owner.properties))
            else:
                maker = _CAST.create(operands=[value], result_types=[_typed(value, part.element)])
            wide[value] = insert(maker, user)
        return wide[value]

    replaced: list[tuple[SSAValue, SSAValue]] = []
    narrow: SSAValue
    for op in part.operations:
        old: SSAValue = op.results[0]
        operands = [widened(operand, op) for operand in op.operands]
        if isinstance(op, _CAST) and operands[0].type == _typed(old, part.element):
            wide[old] = operands[0]
        else:
            computing = type(op).create(operands=operands, result_types=[_typed(old, part.element)], properties=dict(op.properties))
            wide[old] = insert(computing, op)
        if any(use.operation not in inside for use in old.uses):
            narrow = insert(_CAST.create(operands=[wide[old]], result_types=[old.type]), op)
            narrow.name_hint = old.name_hint
            replaced.append((old, narrow))
    for old, new in replaced:
        owner = old.owner
        assert isinstance(owner, Operation)
        outcome.rewrites.append(Rewrite(rule, place(owner), old, new, made=tuple(made)))
        outcome.replaced[old] = new
        old.replace_all_uses_with(new)
    erase_dead(reversed(part.operations))
    return origins


def _list_of(op: OpaqueOp, tensors: Sequence[SSAValue]) -> OpaqueOp:
    """A list like the one that the operation makes, of other tensors."""
    (old,) = op.results
    text = old.type.text.data if isinstance(old.type, TorchType) else ""
    for before, after in zip(op.operands, tensors, strict=True):
        if float_type(before):
            text = text.replace(f",{float_type(before)}>", f",{float_type(after)}>")
    return OpaqueOp.create(operands=tensors, result_types=[TorchType(StringAttr(text))], properties=dict(op.properties))


def _typed(value: SSAValue, element: str) -> Attribute:
    assert isinstance(value.type, TensorType)
    return tensor(element, value.type.get_shape())


def _name(op: Operation) -> str:
    """The name without its dialect; of what hnfc does not know, torch's."""
    return op.operation.data.removeprefix("torch.aten.") if isinstance(op, OpaqueOp) else op.name.removeprefix("num.")


def identity_of(part: WidePart) -> core.Rule:
    """The shipped rule that a number is itself after it was cast to the wider type and back."""
    narrow = next(name for name in WIDER if any(float_type(op.results[0]) == name for op in part.operations))
    known = {rule.name: rule for rule in shipped().only((WIDE,)).rules}
    return known[f"{NAMES[narrow]}_in_{NAMES[part.element]}"]


def as_rule(part: WidePart, identity: core.Rule, fault: str) -> core.Rule:
    """The identity under the name of the part, with what it is for. fault: what is wrong in the narrow type."""
    names = list(dict.fromkeys(map(_name, part.operations)))
    narrow = " and ".join(dict.fromkeys(NAMES[float_type(op.results[0])] for op in part.operations))
    count = f"{len(part.operations)} operation{'s' if len(part.operations) > 1 else ''}"
    listed = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    reason = f"{count} ({listed}) in {NAMES[part.element]}: {fault} in {narrow}, and no form was found that keeps them"
    return replace(identity, name=part.name, reason=reason)
