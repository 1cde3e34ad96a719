"""docs/dialect.md: every operation of the `num` dialect, read from its class. `make docs` writes it."""

from __future__ import annotations

import ast
import inspect
import math
import sys
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import groupby
from pathlib import Path

from xdsl.irdl import OpDef
from xdsl.traits import ConstantLike

from hnfc.dialects.assembly import TYPES
from hnfc.dialects.facts import Access, Accumulation, Exactness, Facts, Parity, RealDomain, Result, Storage
from hnfc.dialects.num import COMMUTATIVE, OPERATIONS, NumOp
from hnfc.dialects.num.base import kind_names

HEAD = """# The num dialect

Pure tensor mathematics, one class for each operation in [dialects/num](../dialects/num). This page is generated: `make docs`.

`hnfc-opt` and `xdsl-opt` read, verify and print it. `types` are those of the operands, one where all are alike; a result whose type does
not follow from them has it after `->`. Operands broadcast as in NumPy, and axes count from 0. `torch` names the operations of the torch
dialect with exactly this meaning; the first one is exported.
"""
_LEGEND: tuple[tuple[str, type[Enum]], ...] = (
    ("access", Access), ("exactness", Exactness), ("accumulation", Accumulation), ("storage", Storage),
)  # fmt: skip


def dialect_markdown() -> str:
    """The page: the families, the words for facts, then a section for each operation."""
    families = {name: list(found) for name, found in groupby(OPERATIONS.values(), key=_family)}
    lines = [HEAD, "## Contents", ""]
    for family, operations in families.items():
        names = ", ".join(f"[{_short(operation)}](#num{_short(operation)})" for operation in operations)
        lines.append(f"- [{family}](#{family}): {names}")
    lines += ["", "## Facts", "", "Words of the rows that classify operations."]
    for row, kind in _LEGEND:
        lines += ["", f"**{row}**: {inspect.cleandoc(kind.__doc__ or '')}", ""]
        lines += [f"- {_word(member)}: {text}" for member, text in member_docs(kind)]
    for family, operations in families.items():
        lines += ["", f"## {family}", "", inspect.cleandoc(sys.modules[operations[0].__module__].__doc__ or "")]
        for operation in operations:
            lines += ["", *_section(operation)]
    return "\n".join(lines) + "\n"


def _family(operation: type[NumOp]) -> str:
    return operation.__module__.rpartition(".")[2]


def _short(operation: type[NumOp]) -> str:
    return operation.name.removeprefix("num.")


def _section(operation: type[NumOp]) -> list[str]:
    definition = operation.get_irdl_definition()
    lines = [f"### {operation.name}", "", inspect.cleandoc(operation.__doc__ or ""), ""]
    if definition.assembly_format is not None:
        lines += ["```", f"{operation.name} {_syntax(operation, definition.assembly_format)}", "```", ""]
    return [*lines, "| | |", "| --- | --- |", *(f"| {row} | {text} |" for row, text in _rows(operation, definition))]


def _syntax(operation: type[NumOp], assembly_format: str) -> str:
    types = "attr-dict : types -> type" if operation.FROM_TYPE else "attr-dict : types"
    return assembly_format.replace(TYPES, types).replace("`", "").replace(" ,", ",").replace("( ", "(").replace(" )", ")")


def _rows(operation: type[NumOp], definition: OpDef) -> Iterator[tuple[str, str]]:
    facts = operation.FACTS
    if definition.operands:
        yield "operands", ", ".join(f"`{name}`" for name, _ in definition.operands)
    yield "results", ", ".join(f"`{name}`" for name, _ in definition.results)
    if definition.properties:
        yield "attributes", ", ".join(f"`{name}`" for name in sorted(definition.properties))
    yield "element types", _elements(facts)
    if operation in COMMUTATIVE:
        yield "commutative", "the operands may change places"
    if operation.has_trait(ConstantLike):
        yield "constant", "known when compiling"
    yield "access", _word(facts.access)
    bounded = facts.ulps and facts.accumulation is Accumulation.NONE
    yield "exactness", f"{_word(facts.exactness)}; error at most {facts.ulps:g} u of the result" if bounded else _word(facts.exactness)
    if facts.accumulation is not Accumulation.NONE:
        yield "accumulation", _word(facts.accumulation)
    if facts.storage is not Storage.END:
        yield "storage", _word(facts.storage)
    if facts.domain != RealDomain() or facts.divisor:
        yield "domain", _domain(facts, [name for name, _ in definition.operands])
    if facts.parity is not Parity.NONE:
        yield "parity", _word(facts.parity)
    if facts.real is None:
        yield "proofs", "an unknown function: it has no formula over the reals"
    if facts.torch:
        yield "torch", ", ".join(f"`{name}`" for name in facts.torch)


def _elements(facts: Facts) -> str:
    results = {Result.SAME: "", Result.TRUTH: "; result: i1", Result.INDEX: "; result: si64", Result.ATTRIBUTE: "; result: by an attribute"}
    others = f"; other operands: {kind_names(facts.others)}" if facts.alike != Facts.alike else ""
    return kind_names(facts.accepts) + others + results[facts.result]


def _domain(facts: Facts, operands: Sequence[str]) -> str:
    domain, first, last = facts.domain, operands[0], operands[-1]
    parts = []
    less = "<" if domain.open else "≤"
    low, high = domain.least > -math.inf, domain.greatest < math.inf
    if low or high:
        parts.append(f"{domain.least:g} {less} {first}" * low + first * (not low) + f" {less} {domain.greatest:g}" * high)
    if domain.pole:
        parts.append(f"{first} ≠ 0")
    if facts.divisor:
        parts.append(f"{last} ≠ 0")
    if domain.irregular:
        parts.append("without other values at which the formula is undefined")
    return ", ".join(parts)


def _word(member: Enum) -> str:
    return member.name.lower()


def member_docs(kind: type[Enum]) -> list[tuple[Enum, str]]:
    """The members of an enumeration with the strings that stand after them in its source."""
    (tree,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(tree, ast.ClassDef)
    found = []
    for statement, following in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(statement, ast.Assign) and isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            (target,) = statement.targets
            assert isinstance(target, ast.Name)
            found.append((kind[target.id], inspect.cleandoc(str(following.value.value))))
    return found


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(dialect_markdown(), encoding="utf-8")
