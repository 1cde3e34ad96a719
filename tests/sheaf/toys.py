"""Constraint systems whose cohomology and solutions are known."""

from __future__ import annotations

from itertools import combinations

from hnfc.sheaf.cover import Cover
from hnfc.sheaf.graph import Graph
from hnfc.sheaf.system import Constraint, System

BITS = (0, 1)


def relation(scope, holds, reason=None):
    return Constraint(reason or f"on {scope}", tuple(scope), holds)


def equal(a, b):
    return a == b


def different(a, b):
    return a != b


def cycle(*relations, values=BITS):
    """One relation from each node to the next, and from the last to node 0."""
    n = len(relations)
    return System(dict.fromkeys(range(n), values), tuple(relation((i, (i + 1) % n), r) for i, r in enumerate(relations)))


def parity(contexts, odd, values=BITS):
    """The sum over each context is even, or odd for the contexts named; contexts mapped to None are free."""
    nodes = dict.fromkeys(node for context in contexts for node in context)
    constraints = []
    for context in contexts:
        wanted = odd.get(context, 0)
        constraints.append(relation(context, lambda *bits, wanted=wanted: wanted is None or sum(bits) % 2 == wanted))
    return System(dict.fromkeys(nodes, values), tuple(constraints))


def exactly_one(contexts):
    nodes = dict.fromkeys(node for context in contexts for node in context)
    return System(dict.fromkeys(nodes, BITS), tuple(relation(context, lambda *bits: sum(bits) == 1) for context in contexts))


def colouring(n, colours):
    return System(dict.fromkeys(range(n), range(colours)), tuple(relation(edge, different) for edge in combinations(range(n), 2)))


def cliques(n, size):
    return Cover(tuple(combinations(range(n), size)))


def hardy():
    def except_for(*excluded):
        return lambda *values: values != excluded

    return System(
        dict.fromkeys("abAB", BITS),
        (
            relation("ab", lambda a, b: True),
            relation("aB", except_for(0, 0)),
            relation("Ab", except_for(0, 0)),
            relation("AB", except_for(1, 1)),
        ),
    )


SQUARE = ("abc", "def", "ghi", "adg", "beh", "cfi")
GHZ_PARITIES = {"xyz": 0, "xYZ": 1, "XyZ": 1, "XYz": 1}
"""x, y, z: the first observable of each of the three; X, Y, Z: the second."""
GHZ_ALL = tuple(a + b + c for a in "xX" for b in "yY" for c in "zZ")

VECTORS = (
    ((0, 0, 0, 1), (0, 0, 1, 0), (1, 1, 0, 0), (1, -1, 0, 0)),
    ((0, 0, 0, 1), (0, 1, 0, 0), (1, 0, 1, 0), (1, 0, -1, 0)),
    ((1, -1, 1, -1), (1, -1, -1, 1), (1, 1, 0, 0), (0, 0, 1, 1)),
    ((1, -1, 1, -1), (1, 1, 1, 1), (1, 0, -1, 0), (0, 1, 0, -1)),
    ((0, 0, 1, 0), (0, 1, 0, 0), (1, 0, 0, 1), (1, 0, 0, -1)),
    ((1, -1, -1, 1), (1, 1, 1, 1), (1, 0, 0, -1), (0, 1, -1, 0)),
    ((1, 1, -1, 1), (1, 1, 1, -1), (1, -1, 0, 0), (0, 0, 1, 1)),
    ((1, 1, -1, 1), (-1, 1, 1, 1), (1, 0, 1, 0), (0, 1, 0, -1)),
    ((1, 1, 1, -1), (-1, 1, 1, 1), (1, 0, 0, 1), (0, 1, -1, 0)),
)
"""The nine orthogonal bases of Cabello, Estebaranz and García-Alcaine 1996, on 18 vectors."""


def widths(graph: Graph, fixed, choices, tolerance):
    """Bit widths on a graph: some nodes are fixed, the others choose; neighbours differ by at most the tolerance."""
    domains = dict.fromkeys(graph.nodes, choices)
    pins = tuple(relation((node,), lambda p, bits=bits: p == bits, f"{node} is pinned to {bits}") for node, bits in fixed.items())
    casts = tuple(relation(edge, lambda p, q: abs(p - q) <= tolerance, f"no cast of more than {tolerance}: {edge}") for edge in graph.edges)
    return System(domains, pins + casts)


def path(n):
    return Graph(tuple(range(n)), tuple((i, i + 1) for i in range(n - 1)))


DIAMOND = Graph((0, 1, 2, 3), ((0, 1), (1, 3), (0, 2), (2, 3)))
