"""The imports of all files, read from their sources, and what is wrong with them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TREES = ("dialects", "dsl", "hnfc")
"""Folders of the repository; all are parts of the package `hnfc`."""
Folders = Mapping[str, Mapping[str, str]]
Exceptions = Mapping[tuple[str, str], str]


@dataclass(frozen=True)
class Import:
    """One module that a file imports: when it is loaded, in a function (`late`), or for types only (`typing`)."""

    file: str
    line: int
    module: str
    late: bool
    typing: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.module}"


@dataclass(frozen=True)
class _Statement:
    line: int
    module: str
    """Empty for `import a, b`."""
    names: tuple[str, ...]
    late: bool
    typing: bool


@cache
def _statements(text: str) -> tuple[_Statement, ...]:
    return tuple(_within(ast.parse(text), False, False))


def _within(tree: ast.AST, late: bool, typing: bool) -> Iterator[_Statement]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            relative = isinstance(node, ast.ImportFrom) and node.level
            assert not relative, f"line {node.lineno}: imports are absolute"
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            yield _Statement(node.lineno, module, tuple(alias.name for alias in node.names), late, typing)
        elif isinstance(node, ast.stmt):
            in_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            yield from _within(node, late or in_function, typing or for_types)
        elif isinstance(node, ast.ExceptHandler | ast.match_case):
            yield from _within(node, late, typing)


def imports(root: Path) -> tuple[dict[str, str], list[Import]]:
    """The file of each module below the root, and all imports; links are not followed, as they are folders of the root."""
    files = {}
    for tree in TREES:
        for path in sorted((root / tree).rglob("*.py")):
            if any(part.is_symlink() for part in path.parents):
                continue
            name = path.relative_to(root).as_posix()
            module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            files[module if tree == "hnfc" else f"hnfc.{module}"] = name
    found = []
    for file in files.values():
        for each in _statements((root / file).read_text(encoding="utf-8")):
            modules = list(each.names)
            if each.module:
                within = [f"{each.module}.{name}" for name in each.names]
                modules = [module if module in files else each.module for module in within]
            found += [Import(file, each.line, module, each.late, each.typing) for module in dict.fromkeys(modules)]
    return files, found


def place(module: str, files: Mapping[str, str]) -> str:
    """The folder of one of our modules; the name of the package of another."""
    if module in files:
        return str(Path(files[module]).parent)
    parts = module.split(".")
    if parts[0] != "hnfc":
        return parts[0]
    return "/".join(parts[1:] if parts[1:2] in (["dsl"], ["dialects"]) else parts[:2])


def misplaced(root: Path, allowed: Folders, exceptions: Exceptions, packages: frozenset[str]) -> list[str]:
    """Imports that the folder of their file does not allow. packages: those that anything may import."""
    files, found = imports(root)
    wrong = []
    for each in found:
        source, target = str(Path(each.file).parent), place(each.module, files)
        if target == source or target in packages or (each.file, target) in exceptions or target in allowed.get(source, {}):
            continue
        wrong.append(f"{each}, but {source}/ may not import {target}")
    return wrong


def circles(root: Path) -> list[list[str]]:
    """Files that import each other, directly or through others; also in functions, and for types."""
    files, found = imports(root)
    edges: dict[str, set[str]] = {file: set() for file in files.values()}
    for each in found:
        target = files.get(each.module)
        if target is not None and target != each.file:
            edges[each.file].add(target)
    # what imports nothing that is left is in no circle, nor is what nothing that is left imports
    while True:
        used = set().union(*edges.values()) if edges else set()
        kept = {file: {t for t in targets if t in edges} for file, targets in edges.items() if file in used}
        kept = {file: targets for file, targets in kept.items() if targets}
        if kept == edges:
            return [sorted(edges)] if edges else []
        edges = kept


def loading(root: Path, package: str) -> set[str]:
    """The files that load the package when they are imported, through whatever other files and packages."""
    files, found = imports(root)
    edges: dict[str, set[str]] = {}
    reached = set()
    for each in found:
        if each.late or each.typing:
            continue
        if each.module.split(".")[0] == package:
            reached.add(each.file)
        parts = each.module.split(".")
        above = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
        edges.setdefault(each.file, set()).update(files[module] for module in above if module in files)
    while more := {file for file, targets in edges.items() if targets & reached} - reached:
        reached |= more
    return reached
