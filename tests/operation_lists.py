"""Lists of operation names in Python files: literals, keys and `match` patterns that name several operations of the dialect."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from hnfc.dialects.num import OPERATIONS

NAMES = frozenset((*OPERATIONS, *(operation.name for operation in OPERATIONS.values())))
LEAST = 4
"""Names from which on literals count as a list."""


def lists_in(path: Path) -> Iterator[str]:
    """The names of what holds each list: an assigned name, or the function around it."""
    yield from _below(ast.parse(path.read_text()), "module")


def _below(node: ast.AST, holder: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        inner = holder
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            inner = child.name
        elif isinstance(child, ast.Assign | ast.AnnAssign) and holder == "module":
            target = child.targets[0] if isinstance(child, ast.Assign) else child.target
            inner = ast.unparse(target)
        if _operations(child) >= LEAST:
            yield inner
        else:
            yield from _below(child, inner)


def _operations(node: ast.AST) -> int:
    """Number of operations that the node lists itself, where they are most of its items."""
    match node:
        case ast.Set(elts=items) | ast.Tuple(elts=items) | ast.List(elts=items):
            texts = [item.value for item in items if isinstance(item, ast.Constant)]
        case ast.Dict(keys=keys):
            items, texts = keys, [key.value for key in keys if isinstance(key, ast.Constant)]
        case ast.Match(cases=cases):
            patterns = [part for case in cases for part in ast.walk(case.pattern) if isinstance(part, ast.MatchValue)]
            items, texts = patterns, [p.value.value for p in patterns if isinstance(p.value, ast.Constant)]
        case _:
            return 0
    found = sum(isinstance(text, str) and text in NAMES for text in texts)
    return found if 2 * found >= len(items) else 0
