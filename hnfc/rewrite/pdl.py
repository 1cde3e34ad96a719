"""Rules as patterns of the PDL dialect, for any interpreter of PDL: `hnfc rules my.hnf --emit pdl`.

PDL matches the tree that is written, without associativity or commutativity, and computes neither types nor numbers. A rule becomes a
pattern if every type on its right side stands on its left side; tensors that meet in an elementwise operation then have one type.
Two native constraints say what PDL has no words for: `CONSTRAINTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from xdsl.builder import Builder
from xdsl.dialects import pdl
from xdsl.dialects.builtin import AnyFloat, ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import OptPropertyDef
from xdsl.rewriter import InsertPoint

from hnfc.dialects.facts import Access, Result
from hnfc.dialects.num.base import AlongAxesOp, NumOp, ReductionOp, encode
from hnfc.dialects.types import FORMATS, Kind
from hnfc.dsl import core

REAL, PLAIN = "hnfc.real_tensor", "hnfc.no_optional_attribute"
_LARGEST = min(form.largest for form in FORMATS.values())
"""Numbers up to this fit every format."""


def _is_real(type_: Attribute) -> bool:
    return isinstance(type_, TensorType) and isinstance(type_.element_type, AnyFloat) and all(size > 0 for size in type_.get_shape())


def _is_plain(operation: Operation) -> bool:
    return isinstance(operation, NumOp) and not operation.properties.keys() & _optional(type(operation))


CONSTRAINTS: Mapping[str, Callable[..., bool]] = {REAL: _is_real, PLAIN: _is_plain}
"""Native constraints of the patterns: a tensor of real floating-point numbers of known sizes, none 0; no optional attribute is set."""


class NotInPdl(Exception):
    """A rule that PDL cannot say; the message says why."""


def pdl_module(rules: Iterable[core.Rule]) -> tuple[ModuleOp, dict[str, str]]:
    """A pattern for each rule that PDL can say, and by the names of the others the reason why not."""
    patterns, reasons = [], {}
    for rule in rules:
        try:
            patterns.append(pdl_pattern(rule))
        except NotInPdl as reason:
            reasons[rule.name] = str(reason)
    return ModuleOp(patterns), reasons


def pdl_pattern(rule: core.Rule) -> pdl.PatternOp:
    """The pattern of a rule. Raises NotInPdl."""
    if rule.parameters:
        raise NotInPdl("its parameters have no value")
    if rule.where != core.TRUE or rule.when != core.TRUE:
        raise NotInPdl("it has a condition")
    if rule.both_ways:
        raise NotInPdl("it holds in both directions, and a cost decides between them")
    if not isinstance(rule.pattern, core.Apply):
        raise NotInPdl("its left side is no operation")
    types = _TypeTerms()
    types.read_pattern(rule.pattern)
    body = Block()
    writer = _PatternWriter(types, Builder(InsertPoint.at_end(body)))
    root = writer.pattern(rule.pattern)
    right = Block()
    writer.builder = Builder(InsertPoint.at_end(right))
    value = writer.replacement(rule.replacement, types.of(rule.pattern))
    writer.builder.insert(pdl.ReplaceOp(root, repl_values=[value]))
    body.add_op(pdl.RewriteOp(root, Region(right)))
    size = sum(isinstance(node, core.Apply) for node in core.walk(rule.pattern))
    return pdl.PatternOp(size, rule.name, Region(body))


Term = tuple[Any, ...]
"""A type as a term: of a captured tensor, of truth values in the shape of another, or of an operation's result."""


@dataclass
class _TypeTerms:
    """The types of expressions as terms; equal terms are equal types. None: a number, in any shape that fits what it meets."""

    equal: dict[Term, Term] = field(default_factory=dict)
    known: set[Term] = field(default_factory=set)
    """Terms of the left side."""
    meets: dict[str, Term] = field(default_factory=dict)
    """Of a constant that has a name: the type of the result of the operation that it is an operand of."""

    def find(self, term: Term) -> Term:
        while term in self.equal:
            term = self.equal[term]
        kind, *parts = term
        return (kind, *(self.find(part) if isinstance(part, tuple) and part and part[0] in _KINDS else part for part in parts))

    def read_pattern(self, pattern: core.Apply) -> None:
        # each round joins types that the round before found equal
        size = -1
        while size != len(self.equal):
            size = len(self.equal)
            self.known = {term for node in core.walk(pattern) if (term := self.of(node, joining=True)) is not None}
        self.known = {self.find(term) for term in self.known}

    def of(self, node: core.Expr, joining: bool = False) -> Term | None:
        """The type of the node; joining: operands of an elementwise operation are taken to have one type."""
        match node:
            case core.Capture(name, dtypes, const):
                if dtypes:
                    raise NotInPdl(f"the element type of `{name}` is given")
                return None if const else self.find((_CAPTURED, name))
            case core.Literal():
                return None
            case core.Size():
                raise NotInPdl("it has a size as a number")
        facts = node.facts
        if facts.access is Access.CONTRACTION:
            raise NotInPdl(f"the rank of the operands of `{node.name}` would have to be compared")
        operands = [self.of(operand, joining) for operand in node.operands]
        if len(node.operation.get_irdl_definition().results) != 1:
            raise NotInPdl(f"`{node.name}` has several results")
        if facts.access is Access.ELEMENTWISE and facts.result in (Result.SAME, Result.TRUTH):
            together = [term for index, term in enumerate(operands) if index in facts.alike]
            shape = self._together(together, joining)
            if not joining:
                for index, term in enumerate(operands):
                    if index not in facts.alike and term != (_TRUTH, shape):
                        raise NotInPdl(f"the shape of the condition of `{node.name}` would have to be compared")
            for operand in node.operands if joining else ():
                if isinstance(operand, core.Capture) and operand.const:
                    self.meets[operand.name] = shape
            return shape if facts.result is Result.SAME else self.find((_TRUTH, shape))
        if None in operands:
            raise NotInPdl(f"`{node.name}` of a number would have to be computed")
        if issubclass(node.operation, AlongAxesOp) and operands[0] is not None:
            return operands[0]
        kind = _REDUCED if issubclass(node.operation, ReductionOp) else _RESULT
        rule = "reduced" if kind is _REDUCED and facts.result is Result.SAME else node.operation.name
        return self.find((kind, operands[0], rule, *operands[1:], node.attributes))

    def _together(self, terms: list[Term | None], joining: bool) -> Term:
        """The type of an elementwise result."""
        found = list(dict.fromkeys(self.find(term) for term in terms if term is not None))
        if not found:
            raise NotInPdl("an operation on numbers would have to be computed")
        # a tensor and its own reduction give the shape of the tensor
        found = [term for term in found if not any((term[0] is _REDUCED and term[1] == other) for other in found)]
        first, *others = found
        for other in others:
            if not joining:
                raise NotInPdl("the shape of tensors that meet on the right side would have to be computed")
            self.equal[self.find(other)] = first
        return first


_CAPTURED, _TRUTH, _REDUCED, _RESULT = _KINDS = ("captured", "truth", "reduced", "result")


@dataclass
class _PatternWriter:
    """Writes one pattern: the left side first, then what replaces it."""

    types: _TypeTerms
    builder: Builder
    type_values: dict[Term, SSAValue] = field(default_factory=dict)
    captured: dict[str, SSAValue] = field(default_factory=dict)
    axes: dict[str, tuple[SSAValue, Term]] = field(default_factory=dict)
    """The attribute of each name of axes, and the type of the tensor whose axes they are."""
    real: set[SSAValue] = field(default_factory=set)
    """Types that are constrained to real numbers."""
    made: dict[core.Expr, SSAValue] = field(default_factory=dict)

    def pattern(self, node: core.Apply) -> SSAValue:
        """The operation that matches the node."""
        term = self.types.of(node)
        assert term is not None
        operands = [self._operand(node, index) for index in range(len(node.operands))]
        result = self._type(term)
        operation = self._operation(node, operands, result)
        if _optional(node.operation) - dict(node.attributes).keys():
            self.builder.insert(pdl.ApplyNativeConstraintOp(PLAIN, [operation], []))
        return operation

    def _operand(self, node: core.Apply, index: int) -> SSAValue:
        match node.operands[index]:
            case core.Literal(value):
                return self._constant(self._attribute(_number(value)), self._any_type())
            case core.Capture(name) as capture:
                term = self.types.of(capture)
                if term is not None and index in node.facts.alike and Kind.FLOAT in node.facts.accepts:
                    self._is_real(term)
                if name not in self.captured:
                    found = self._insert(pdl.OperandOp(self._type(term))) if term is not None else None
                    self.captured[name] = found or self._constant(self._attribute(None), self._any_type())
                return self.captured[name]
            case core.Apply() as operand:
                return self._insert(pdl.ResultOp(0, self.pattern(operand)))
        raise NotInPdl("it has a size as a number")

    def replacement(self, node: core.Expr, wanted: Term | None) -> SSAValue:
        """The value of the node, which has the type `wanted`."""
        if node not in self.made:
            self.made[node] = self._value(node, wanted)
        return self.made[node]

    def _value(self, node: core.Expr, wanted: Term | None) -> SSAValue:
        match node:
            case core.Literal(value):
                assert wanted is not None
                return self._constant(self._attribute(_number(value)), self._type(wanted))
            case core.Capture(name, _, const):
                if const and self.types.find(self.types.meets[name]) != wanted:
                    raise NotInPdl(f"the shape of the constant `{name}` would have to be compared")
                if not const and self.types.of(node) != wanted:
                    raise NotInPdl("the right side would have to be broadcast")
                return self.captured[name]
            case core.Apply():
                term = self.types.of(node)
                if term not in self.types.known:
                    raise NotInPdl(f"the type of `{node.name}` on its right side would have to be computed")
                if wanted is not None and term != wanted:
                    raise NotInPdl("the right side would have to be broadcast")
                if Kind.FLOAT not in node.facts.accepts:
                    raise NotInPdl(f"`{node.name}` takes no real numbers")
                operands = [self.replacement(operand, self._meeting(operand, term)) for operand in node.operands]
                return self._insert(pdl.ResultOp(0, self._operation(node, operands, self._type(term))))
        raise NotInPdl("it has a size as a number")

    def _meeting(self, operand: core.Expr, result: Term) -> Term | None:
        """The type of an operand; a number takes that of the result."""
        found = self.types.of(operand)
        if found is not None:
            return found
        return result[1] if result[0] is _TRUTH else result

    def _operation(self, node: core.Apply, operands: list[SSAValue], result: SSAValue) -> SSAValue:
        attributes = [(key, self._setting(node, key, value)) for key, value in node.attributes if key not in node.operation.FROM_TYPE]
        if len(attributes) != len(node.attributes):
            raise NotInPdl(f"the type of `{node.name}` would have to be computed")
        names, values = [StringAttr(key) for key, _ in attributes], [value for _, value in attributes]
        return self._insert(pdl.OperationOp(node.operation.name, names, operands, values, [result]))

    def _setting(self, node: core.Apply, key: str, value: Any) -> SSAValue:
        if key == "axes":
            if len(value) != 1 or not isinstance(value[0], str):
                raise NotInPdl(f"the axes of `{node.name}` count from the right, or are of several names")
            base = self.types.of(node.operands[0])
            assert base is not None
            base = base[1] if base[0] is _REDUCED else base
            if value[0] not in self.axes:
                self.axes[value[0]] = self._attribute(None), base
            attribute, owner = self.axes[value[0]]
            if self.types.find(owner) != base:
                raise NotInPdl(f"the axes `{value[0]}` are those of tensors of several types")
            return attribute
        if not isinstance(value, bool | int | float | str) or key in ("axis", "perm"):
            raise NotInPdl(f"`{key}` of `{node.name}` would have to be computed")
        return self._attribute(encode(value))

    def _constant(self, value: SSAValue, type_: SSAValue) -> SSAValue:
        return self._insert(pdl.ResultOp(0, self._insert(pdl.OperationOp("num.constant", [StringAttr("value")], [], [value], [type_]))))

    def _attribute(self, value: Attribute | None) -> SSAValue:
        return self._insert(pdl.AttributeOp(value))

    def _any_type(self) -> SSAValue:
        return self._insert(pdl.TypeOp())

    def _type(self, term: Term) -> SSAValue:
        term = self.types.find(term)
        if term not in self.type_values:
            self.type_values[term] = self._any_type()
        return self.type_values[term]

    def _is_real(self, term: Term) -> None:
        value = self._type(term)
        if value not in self.real:
            self.real.add(value)
            self.builder.insert(pdl.ApplyNativeConstraintOp(REAL, [value], []))

    def _insert(self, operation: Operation) -> SSAValue:
        return self.builder.insert(operation).results[0]


def _optional(operation: type[NumOp]) -> set[str]:
    return {name for name, found in operation.get_irdl_definition().properties.items() if isinstance(found, OptPropertyDef)}


def _number(value: Fraction | float) -> Attribute:
    if not isinstance(value, Fraction) or Fraction(float(value)) != value or abs(value) > _LARGEST:
        raise NotInPdl(f"not every format holds the number {value}")
    return encode(float(value))
