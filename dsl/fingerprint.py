"""Fingerprints: a hash of everything that a finding about a rule rests on.

That is the rule's syntax tree after elaboration, so with its definitions inlined; the facts of the operations that it uses, as far as the
code that finds reads them; that code itself; and the versions of the programs that it calls. Comments, docstrings and layout count nowhere,
and of the rule neither its name nor its place in a file; the names of captures count, because messages and counterexamples show them.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from functools import cache
from importlib import metadata
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from hnfc.dsl.core import Apply, Rule
from hnfc.dsl.rule_depth import of_rule
from hnfc.dsl.source_modules import WHOLE
from hnfc.dsl.sources import FOLDERS, Place, Sources
from hnfc.dsl.store import add_to_store, cache_directory, read_store


@dataclass(frozen=True)
class Finder:
    """The function that finds something out of a rule, and the packages whose version matters to it."""

    entry: Place
    packages: tuple[str, ...]


REALS = Finder(Place("hnfc.dsl.soundness.judge", "verdict"), ("z3-solver", "python-flint"))
IEEE = Finder(Place("hnfc.dsl.ieee.judge", "judged"), ("z3-solver", "python-flint"))
ERROR = Finder(Place("hnfc.dsl.error.analysis", "error_of"), ("z3-solver", "python-flint"))

RULES = Place("hnfc.dsl.core", WHOLE)
"""Module that a finder receives its input from, and so need not name."""


@dataclass(frozen=True)
class Basis:
    """The code of a finder, and the operations of the dialect as it reads them: digests."""

    code: str
    operations: dict[str, str]


def fingerprint(rule: Rule, finder: Finder = REALS, *settings: Any, basis: Basis | None = None) -> str:
    """The fingerprint of what the finder says of the rule under the settings."""
    return of_rule(rule, _hashed, rule, finder, settings, basis or current_basis(finder))


def _hashed(rule: Rule, finder: Finder, settings: tuple[Any, ...], basis: Basis) -> str:
    used: set[str] = set()
    content = {
        "rule": [_plain(x, used) for x in (rule.pattern, rule.replacement, rule.where, rule.both_ways, rule.within, rule.parameters)],
        "operations": {name: basis.operations[name] for name in sorted(used)},
        "code": basis.code,
        "packages": versions(finder.packages),
        "settings": _plain(settings, used),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _plain(x: Any, used: set[str]) -> Any:
    """The value as lists and texts; spans say where a rule stands, not what it is. Adds the operations in it to `used`."""
    if isinstance(x, Apply):
        used.add(x.name)
    if is_dataclass(x) and not isinstance(x, type):
        return [type(x).__name__, *(_plain(getattr(x, name), used) for name in _compared(type(x)))]
    if isinstance(x, type):
        return getattr(x, "name", x.__name__)
    if isinstance(x, tuple | list):
        return [_plain(part, used) for part in x]
    return f"{type(x).__name__}:{x!r}"


@cache
def _compared(kind: Any) -> list[str]:
    """The fields of a data class that say what a value is."""
    return [f.name for f in fields(kind) if f.compare]


def versions(packages: Iterable[str]) -> list[str]:
    return [f"{package} {_installed(package)}" for package in packages]


@cache
def _installed(package: str) -> str:
    """The version; read once, since metadata are parsed anew each time, for every rule."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # not installed by a Python package manager
        return ""


@cache
def current_basis(finder: Finder) -> Basis:
    """The basis in this installation; from the user's cache where its sources were read before.

    Where the sources changed after they were imported, it is one that no other process has: what runs is not what stands in the files.
    """
    root = files("hnfc")
    raw = _raw_digest(root)
    if raw != _IMPORTED:
        return replace(basis_in(Sources(root), finder), code=secrets.token_hex(32))
    path = cache_directory() / "sources.json"
    key = f"{' '.join(finder.entry)} {raw}"
    try:
        return Basis(**read_store(path)[key])
    except (KeyError, TypeError):
        basis = basis_in(Sources(root), finder)
        add_to_store(path, {key: asdict(basis)})
        return basis


def basis_in(sources: Sources, finder: Finder) -> Basis:
    """Reads the sources. Operations that the finder's code names itself, to build expressions of, are part of that code."""
    code = sources.closure([finder.entry, RULES])
    operations = {name: sources.closure([place], code.mentions) for name, place in sources.operations.items()}
    named = set(code.operations)
    while further := named.union(*(operations[name].operations for name in named)) - named:
        named |= further
    own = [code.digest, *(operations[name].digest for name in sorted(named))]
    digests = {name: _with_named(name, operations) for name in operations}
    return Basis(hashlib.sha256(json.dumps(own).encode()).hexdigest(), digests)


def _with_named(name: str, operations: dict[str, Any]) -> str:
    """The digest of an operation, and of those that its formula gets by name."""
    named, waiting = set(), [name]
    while waiting:
        named.add(here := waiting.pop())
        waiting += operations[here].operations - named
    return hashlib.sha256(json.dumps([operations[each].digest for each in sorted(named)]).encode()).hexdigest()


def _raw_digest(root: Traversable) -> str:
    """A hash of the bytes of every module that may count."""
    digest = hashlib.sha256()
    for folder in FOLDERS:
        for path, content in _modules(root / folder):
            digest.update(path.encode() + b"\0" + content + b"\0")
    return digest.hexdigest()


def _modules(folder: Traversable, prefix: str = "") -> Iterable[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if entry.is_dir():
            yield from _modules(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".py"):
            yield prefix + entry.name, entry.read_bytes()


_IMPORTED = _raw_digest(files("hnfc"))
