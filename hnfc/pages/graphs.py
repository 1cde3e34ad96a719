"""The graph of a function as the page's script reads it: values by modules, before and after, with what is known of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import takewhile
from typing import Any

from hnfc.pages.document import Block, GraphBlock, TextBlock
from hnfc.pages.places import CHUNK, line_of, module_of
from hnfc.pipeline.graphs import FunctionGraph, GraphNode

MOST_VALUES = 20_000
"""Values of a function whose graph is a part of a page."""
MOST_INPUTS = 12
"""Inputs of a function that are all drawn at its outermost level."""


@dataclass(frozen=True)
class Column:
    """A fact of values. colour: how it becomes one: `number` and `range` by their logarithms between `from` and `to`, which are labelled
    `low` and `high`; `category` by name; or not at all."""

    key: str
    title: str
    help: str
    colour: str = ""
    start: float = 0.0
    end: float = 1.0
    low: str = ""
    high: str = ""
    after: str = ""
    """Key of the fact that has this place after the rewrites; empty where it is the same fact."""

    def data(self) -> dict[str, Any]:
        found = asdict(self)
        return {"from": found.pop("start"), "to": found.pop("end"), **found}


@dataclass
class GraphEntry:
    """One value. facts: by the keys of the columns. change: the id and the name of the part of the page on its rewrite."""

    node: GraphNode
    status: str = "same"
    before: Sequence[int] | None = None
    after: Sequence[int] | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    change: tuple[str, str] | None = None


def merged(before: FunctionGraph, after: FunctionGraph | None) -> tuple[list[GraphEntry], dict[int, int], dict[int, int]]:
    """The values of both graphs in one order, and the positions there of each one's nodes.

    A value that a rewrite replaced stands where it stood, before what came later in both.
    """
    if after is None:
        entries = [GraphEntry(node, before=node.operands) for node in before.nodes]
        same = {i: i for i in range(len(entries))}
        return entries, same, {}
    old_of = {position: value for value, position in before.index.items()}
    order: list[tuple[int | None, int | None]] = []
    passed, made = 0, list[tuple[int | None, int | None]]()
    for value, position in sorted(after.index.items(), key=lambda item: item[1]):
        old = before.index.get(value)
        if old is None:
            made.append((None, position))
            continue
        order += [*((gone, None) for gone in range(passed, old) if old_of[gone] not in after.index), *made]
        passed, made = max(passed, old + 1), []
        order.append((old, position))
    order += [*((gone, None) for gone in range(passed, len(before.nodes)) if old_of[gone] not in after.index), *made]
    from_before = {old: i for i, (old, _) in enumerate(order) if old is not None}
    from_after = {new: i for i, (_, new) in enumerate(order) if new is not None}
    entries = []
    for old, new in order:
        node = after.nodes[new] if new is not None else before.nodes[old or 0]
        status = "same" if old is not None and new is not None else "removed" if new is None else "new"
        entries.append(
            GraphEntry(
                node,
                status,
                None if old is None else [from_before[i] for i in before.nodes[old].operands if i in from_before],
                None if new is None else [from_after[i] for i in after.nodes[new].operands],
            )
        )
    return entries, from_before, from_after


def graph_block(
    number: int,
    name: str,
    entries: Sequence[GraphEntry],
    columns: Sequence[Column],
    first: str,
    titles: tuple[str, ...] = ("before", "after"),
) -> Block:
    """The graph of a function as a part of a page; words in its place where a browser could not hold it."""
    if len(entries) > MOST_VALUES:
        most = f"more than the {MOST_VALUES:,} that a page holds"
        words = f"`{name}` has {len(entries):,} values, {most}; the parts above have the worst of them."
        return TextBlock(words, "warn")
    return GraphBlock(f"graph-{number}", graph_data(name, entries, columns, first, titles))


def graph_data(
    name: str, entries: Sequence[GraphEntry], columns: Sequence[Column], first: str, titles: tuple[str, ...] = ("before", "after")
) -> dict[str, Any]:
    """The graph for the script. first: the key of the column that colours it at first. titles: one of a graph that did not change."""
    paths = _modules(entries)
    groups: dict[tuple[str, ...], int] = {}
    nodes = []
    for entry, path in zip(entries, paths, strict=True):
        group = groups.setdefault(path, len(groups))
        node = entry.node
        data = {
            "k": node.kind,
            "o": node.operation,
            "d": node.detail,
            "t": node.type,
            "g": group,
            "p": line_of(node.place),
            "s": entry.status,
            "b": entry.before,
            "a": entry.after,
            "f": entry.facts,
            "n": entry.notes,
            "c": entry.change,
        }
        nodes.append({key: value for key, value in data.items() if value not in ("", None, []) or key in ("d", "p", "b", "a")})
    return {
        "name": name,
        "single": len(titles) == 1,
        "titles": titles,
        "groups": list(groups),
        "columns": [c.data() for c in columns],
        "first": first,
        "nodes": nodes,
    }


def _modules(entries: Sequence[GraphEntry]) -> list[tuple[str, ...]]:
    """The module of each value; runs of values where the file names none and there are many."""
    paths = [module_of(entry.node.place) for entry in entries]
    computed = [i for i, entry in enumerate(entries) if entry.node.kind in ("operation", "opaque")]
    if any(paths[i] for i in computed) or len(computed) <= CHUNK:
        inputs = [i for i, entry in enumerate(entries) if entry.node.kind == "input"]
        # of many inputs most are parameters, which stand where they are read
        for position, path in _common_modules(entries, paths).items() if len(inputs) > MOST_INPUTS else ():
            paths[position] = path
        return paths
    count = {position: number for number, position in enumerate(computed)}
    found: list[tuple[str, ...]] = []
    part = 0
    for position, entry in enumerate(entries):
        part = count.get(position, part * CHUNK) // CHUNK
        first = part * CHUNK + 1
        name = f"values {first}–{min(first + CHUNK - 1, len(computed))}"
        found.append(() if entry.node.kind == "input" else (name,))
    return found


def _common_modules(entries: Sequence[GraphEntry], paths: Sequence[tuple[str, ...]]) -> dict[int, tuple[str, ...]]:
    """For each input the innermost module that all of its users are in."""
    found: dict[int, tuple[str, ...]] = {}
    for entry, path in zip(entries, paths, strict=True):
        for operand in {*(entry.before or ()), *(entry.after or ())}:
            if entries[operand].node.kind == "input":
                known = found.get(operand, path)
                found[operand] = tuple(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(known, path, strict=False)))
    return found


def neighbourhood(entries: Sequence[GraphEntry], side: str, changed: Sequence[int]) -> dict[str, Any]:
    """A small drawing of some values of one side, with what they read and what reads them directly."""
    inside = set(changed)
    items: dict[int, str] = dict.fromkeys(sorted(inside), "")
    edges = []
    for position, entry in enumerate(entries):
        operands = entry.before if side == "before" else entry.after
        for operand in dict.fromkeys(operands or ()):
            if entries[operand].node.kind in ("constant", "weight") or not (position in inside or operand in inside):
                continue
            for end in (operand, position):
                items.setdefault(end, "outside")
            edges.append((f"node:{operand}", f"node:{position}"))
    drawn = [_item(entries, i, kind or entries[i].status, side) for i, kind in sorted(items.items())]
    return {"items": drawn, "edges": edges}


def _item(entries: Sequence[GraphEntry], position: int, kind: str, side: str) -> dict[str, str]:
    entry = entries[position]
    title = label_of(entries, position, side)
    return {"id": f"node:{position}", "title": title, "sub": entry.node.type, "kind": kind, "label": f"{title}, {entry.node.type}"}


def label_of(entries: Sequence[GraphEntry], position: int, side: str) -> str:
    """The operation with its attributes and the constants that it reads."""
    entry = entries[position]
    operands = (entry.before if side == "before" else entry.after) or ()
    constants = (entries[i].node.detail for i in operands if entries[i].node.kind in ("constant", "weight"))
    return " · ".join(part for part in (entry.node.operation, entry.node.detail, *constants) if part)


def in_words(entries: Sequence[GraphEntry], side: str, changed: Sequence[int]) -> str:
    """The values of a drawing as lines of a program."""
    return "\n".join(_lines(entries, side, sorted(changed)))


def _lines(entries: Sequence[GraphEntry], side: str, changed: Sequence[int]) -> Iterator[str]:
    for position in changed:
        entry = entries[position]
        operands = (entry.before if side == "before" else entry.after) or ()
        names = ", ".join(entries[i].node.detail if entries[i].node.kind == "constant" else f"%{i}" for i in operands)
        detail = f" {{{entry.node.detail}}}" if entry.node.detail else ""
        yield f"%{position} = {entry.node.operation}({names}){detail}    {entry.node.type}"


def range_fact(low: float, high: float, more: str = "") -> tuple[float, float, str]:
    """Ends of a range, and its text."""
    return low, high, f"[{short(low)}, {short(high)}]{more}"


def short(number: float) -> str:
    """A number in three digits."""
    if math.isnan(number):
        return "NaN"
    return "0" if number == 0 else f"{number:.3g}"


def regions(entries: Sequence[GraphEntry], roots: Mapping[int, int | None]) -> list[tuple[list[int], list[int], list[int]]]:
    """Values that were replaced and those that replace them, in parts that do not touch: (roots, before, after).

    roots: for each rewrite, the position of what stands in the place of its root, or None where that was there before.
    """
    changed = [i for i, entry in enumerate(entries) if entry.status != "same"]
    parent = {i: i for i in changed}

    def find(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for i in changed:
        for operand in (*(entries[i].before or ()), *(entries[i].after or ())):
            if operand in parent:
                parent[find(operand)] = find(i)
    for old, new in roots.items():
        if old in parent and new in parent:
            parent[find(old)] = find(new)
    parts: dict[int, list[int]] = {}
    for i in changed:
        parts.setdefault(find(i), []).append(i)
    return [
        (
            [i for i in part if i in roots],
            [i for i in part if entries[i].status == "removed"],
            [i for i in part if entries[i].status == "new"],
        )
        for part in parts.values()
    ]
