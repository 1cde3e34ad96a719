"""The syntax tree of a rule file, as it was written: every node has the span of its source."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from hnfc.dsl.diagnostics import Span

OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@", "pow": "**", "logical_and": "and", "logical_or": "or"}
"""Operations of two operands that rule files write as operators: by the name of the operation, which the grammar shares."""


@dataclass(frozen=True)
class Name:
    name: str
    span: Span
    const: bool = False


@dataclass(frozen=True)
class Number:
    text: str
    span: Span

    @property
    def value(self) -> Fraction:
        return Fraction(self.text)


@dataclass(frozen=True)
class Operator:
    """`+ - * / @ **`, comparisons, `and or not`, and unary minus (one operand)."""

    symbol: str
    operands: tuple[Tree, ...]
    span: Span


@dataclass(frozen=True)
class Call:
    function: str
    axes: tuple[str | int, ...]
    arguments: tuple[Tree, ...]
    keywords: tuple[tuple[str, Tree], ...]
    span: Span
    name_span: Span


@dataclass(frozen=True)
class Annotated:
    operand: Tree
    dtypes: tuple[str, ...]
    span: Span


Tree: TypeAlias = Name | Number | Operator | Call | Annotated

Value: TypeAlias = "float | list[Value]"


@dataclass(frozen=True)
class Let:
    name: str
    value: Tree
    span: Span


@dataclass(frozen=True)
class RuleParameter:
    """`for s > 0`: a condition on one name, or that name alone; or `for orthogonal h`."""

    condition: Tree
    orthogonal: bool
    span: Span


@dataclass(frozen=True)
class Library:
    name: str
    title: str
    span: Span


@dataclass(frozen=True)
class Import:
    path: str
    span: Span


@dataclass(frozen=True)
class Definition:
    name: str
    axes: tuple[str, ...]
    parameters: tuple[str, ...]
    body: Tree
    span: Span


@dataclass(frozen=True)
class RuleDeclaration:
    name: str
    reason: str
    group: str
    source: str
    arrow: str
    pattern: Tree
    replacement: Tree
    lets: tuple[Let, ...]
    parameters: tuple[RuleParameter, ...]
    where: Tree | None
    when: Tree | None
    within: Tree | None
    structural: bool
    span: Span
    name_span: Span
    arrow_span: Span
    clause_spans: tuple[tuple[str, Span], ...] = ()


@dataclass(frozen=True)
class TestInput:
    name: str
    dtype: str
    value: Value
    span: Span


@dataclass(frozen=True)
class Gives:
    """With these values for its captures (and axes for its axis variables) the rule fires and the result is `expected`."""

    assignments: tuple[TestInput, ...]
    expected: Value
    span: Span


@dataclass(frozen=True)
class Unchanged:
    """In the graph of this expression the rule does not fire."""

    expression: Tree
    span: Span


@dataclass(frozen=True)
class Test:
    rule: str
    cases: tuple[Gives | Unchanged, ...]
    span: Span


@dataclass(frozen=True)
class Parameter:
    name: str
    default: Tree | None
    span: Span


@dataclass(frozen=True)
class Field:
    name: str
    value: Tree
    span: Span
    name_span: Span


@dataclass(frozen=True)
class FormatDeclaration:
    """A number format by its fields (`kind` may be left out); or, where `same` is given, another name for what that calls."""

    name: str
    parameters: tuple[Parameter, ...]
    title: str
    kind: str
    fields: tuple[Field, ...]
    same: Tree | None
    span: Span
    name_span: Span
    kind_span: Span


@dataclass(frozen=True)
class TargetDeclaration:
    """A machine, by what it does in a second."""

    name: str
    title: str
    fields: tuple[Field, ...]
    span: Span
    name_span: Span


Declaration: TypeAlias = Library | Import | Definition | RuleDeclaration | Test | FormatDeclaration | TargetDeclaration


@dataclass(frozen=True)
class Comment:
    text: str
    line: int
    column: int


@dataclass
class File:
    """One parsed `.hnf` file."""

    path: str
    source: str
    declarations: tuple[Declaration, ...]
    comments: tuple[Comment, ...] = field(default=())
