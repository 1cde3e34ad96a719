"""Names while an expression is read, and its reader as those see it who read a part of one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from hnfc.dsl import core, syntax
from hnfc.dsl.diagnostics import HnfError, Span


@dataclass
class Scope:
    """Meanings of names in the expression being read. `bound` is None while the pattern itself binds names."""

    bindings: dict[str, core.Expr] = field(default_factory=dict)
    lets: dict[str, syntax.Let] = field(default_factory=dict)
    axes: dict[str, core.Axes] = field(default_factory=dict)
    binding_allowed: bool = True
    used: set[str] = field(default_factory=set)
    entering: tuple[str, ...] = ()


class Reader(Protocol):
    """Reads expressions (see `expressions`)."""

    def expression(self, tree: syntax.Tree, scope: Scope) -> core.Expr: ...
    def axes(self, tree: syntax.Call, scope: Scope) -> core.Axes: ...
    def arity(self, tree: syntax.Call, *allowed: int) -> None: ...
    def error(self, code: str, message: str, span: Span, help_: str) -> HnfError: ...
