"""Every example of which the answer is known: sections, solutions, γ over ℤ, ℚ and 𝔽₂, ranks and torsion."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import pytest
from flint import fmpq_mat, fmpz_mat, nmod_mat

from hnfc.sheaf.cech import CechComplex
from hnfc.sheaf.cover import scopes, stars
from hnfc.sheaf.homology import Group
from hnfc.sheaf.obstruction import RelativeCohomology, obstructions
from hnfc.sheaf.presheaf import pairwise_consistent, presheaf
from hnfc.sheaf.system import System, restrict, uniform
from tests.sheaf.toys import (
    BITS,
    DIAMOND,
    GHZ_ALL,
    GHZ_PARITIES,
    SQUARE,
    VECTORS,
    cliques,
    colouring,
    cycle,
    different,
    equal,
    exactly_one,
    hardy,
    parity,
    path,
    relation,
    widths,
)


def brute_force(system):
    nodes = system.nodes
    if len(nodes) > 12:
        return system.sections(nodes)
    assignments = (dict(zip(nodes, values, strict=True)) for values in product(*system.domains.values()))
    return [assignment for assignment in assignments if not system.violated(assignment)]


def vanishing(pruned, over):
    """How many local sections are part of a family with values in a field, by theorem 1: the affine system r₁ = s is solvable."""
    complex_ = CechComplex(pruned)
    basis, d = complex_.basis(0), complex_.coboundary(0)
    columns = d.transpose().tolist()
    count = 0
    for (context,) in pruned.cover.simplices(0):
        unknowns = [columns[number] for (simplex, _), number in basis.items() if simplex != (context,)]
        rank = over(fmpz_mat(unknowns)).rank()
        for section in pruned.sections((context,)):
            count += over(fmpz_mat([*unknowns, columns[basis[(context,), section]]])).rank() == rank
    return count


def over_q(m):
    return fmpq_mat(m)


def over_f2(m):
    return nmod_mat(m, 2)


BITS_PX3 = ("fp8", "fp16")
RING = [lambda a, b: (a == "fp8") != (b == "fp8")]
PRECISION_TRIANGLE = System(
    {"x": ("fp16", "fp32"), "f": ("fp16", "fp32")},
    (
        relation("x", lambda x: x == "fp16"),
        relation("f", lambda f: f == "fp32"),
        relation("xf", equal),
    ),
)
WITH_CAST = System(
    {"x": ("fp16", "fp32"), "f": ("fp16", "fp32"), "c": ("fp16", "fp32")},
    (*PRECISION_TRIANGLE.constraints[:2], relation("fc", lambda f, c: True), relation("xc", equal)),
)


def castable(a, b):
    return {a, b} != {"fp16", "bf16"}


FORMATS = ("fp16", "bf16", "fp32")
NO_CAST = System(
    dict.fromkeys("ad", FORMATS),
    (relation("a", lambda a: a == "fp16"), relation("d", lambda d: d == "bf16"), relation("ad", castable)),
)
THROUGH_FP32 = System(
    dict.fromkeys("amd", FORMATS),
    (*NO_CAST.constraints[:2], relation("am", castable), relation("md", castable)),
)


def at_least(a, b):
    return a >= b


MIN_CLOSED = System(
    dict.fromkeys(("u", "v1", "v2", "w"), (8, 16, 32)),
    (
        *(relation(edge, at_least) for edge in (("u", "v1"), ("u", "v2"), ("v1", "w"), ("v2", "w"))),
        relation("w", lambda w: w >= 16),
    ),
)
T10 = exactly_one(("ABC", "BDE", "CDE", "ADF", "AEG"))
LIAR3 = cycle(equal, equal, lambda c, a: a == (c + 1) % 3, values=range(3))
SWAP = cycle(equal, equal, lambda c, a: a == {0: 0, 1: 2, 2: 1}[c], values=range(3))
K4, K5 = colouring(4, 3), colouring(5, 4)

EXAMPLES = {
    # name: system, cover, contexts, sections, solutions, γ = 0 over ℤ, ℚ, 𝔽₂, H⁰, H¹
    "T1": (System(dict.fromkeys("abc", BITS), (relation("ab", equal), relation("bc", equal))), None, 2, 4, 2, 4, 4, 4, 2, Group(0)),
    "T2": (cycle(equal, equal, equal), None, 3, 6, 2, 6, 6, 6, 2, Group(2)),
    "T3": (cycle(different, different, different), None, 3, 6, 0, 0, 0, 0, 1, Group(1)),
    "T4a": (cycle(*[different] * 4), None, 4, 8, 2, 8, 8, 8, 2, Group(2)),
    "T4b": (cycle(*[different] * 5), None, 5, 10, 0, 0, 0, 0, 1, Group(1)),
    "T4c": (cycle(*[different] * 6), None, 6, 12, 2, 12, 12, 12, 2, Group(2)),
    "T5": (cycle(equal, equal, equal, different), None, 4, 8, 0, 0, 0, 0, 1, Group(1)),
    "T6": (hardy(), None, 4, 13, 5, 13, 13, 13, 6, Group(1)),
    "T7": (parity(GHZ_ALL, {c: GHZ_PARITIES.get(c) for c in GHZ_ALL}), None, 8, 48, 0, 0, 48, 0, 11, Group(0)),
    "T7b": (parity(tuple(GHZ_PARITIES), GHZ_PARITIES), None, 4, 16, 0, 0, 16, 0, 7, Group(3)),
    "T8": (parity(SQUARE, {"cfi": 1}), None, 6, 24, 0, 0, 24, 0, 10, Group(4)),
    "T8b": (parity(SQUARE, {}), None, 6, 24, 16, 24, 24, 24, 10, Group(4, (2,))),
    "T9": (exactly_one(VECTORS), None, 9, 36, 0, 0, 36, 0, 10, Group(10)),
    "T10": (T10, None, 5, 15, 0, 9, 13, 9, 3, Group(3)),
    "T11a": (K4, None, 6, 36, 0, 36, 36, 36, 15, Group(3)),
    "T11b": (K4, cliques(4, 3), 4, 24, 0, 0, 0, 0, 1, Group(2)),
    "T12": (LIAR3, None, 3, 9, 0, 0, 0, 0, 1, Group(1)),
    "T13": (SWAP, None, 3, 9, 1, 3, 3, 3, 2, Group(2)),
    "PX1b": (WITH_CAST, None, 4, 4, 1, 4, 4, 4, 1, Group(0)),
    "PX2b": (THROUGH_FP32, None, 4, 4, 1, 4, 4, 4, 1, Group(0)),
    "PX3": (cycle(*RING * 3, values=BITS_PX3), None, 3, 6, 0, 0, 0, 0, 1, Group(1)),
    "PX3b": (cycle(*RING * 4, values=BITS_PX3), None, 4, 8, 2, 8, 8, 8, 2, Group(2)),
    "PX5": (MIN_CLOSED, None, 5, 14, 6, 14, 14, 14, 5, Group(1)),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_known_answers(name):
    system, cover, contexts, sections, solutions, over_z, rational, binary, h0, h1 = EXAMPLES[name]
    cover = cover or scopes(system)
    pruned = pairwise_consistent(presheaf(system, cover))
    assert len(cover.contexts) == contexts
    assert sum(len(pruned.sections(vertex)) for vertex in cover.simplices(0)) == sections
    assert len(list(pruned.global_sections())) == len(brute_force(system)) == solutions
    assert sum(gamma.vanishes for gamma in obstructions(pruned)) == over_z
    assert vanishing(pruned, over_q) == rational
    assert vanishing(pruned, over_f2) == binary
    complex_ = CechComplex(pruned)
    assert complex_.cohomology(0) == Group(h0)
    assert complex_.cohomology(1) == h1


@pytest.mark.parametrize("contexts", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_five_cliques_of_four_colours(contexts):
    """T11c: contexts of three nodes see that K₅ has no colouring with four colours; symmetries take each context to any other."""
    pruned = pairwise_consistent(presheaf(K5, cliques(5, 3)))
    assert sum(len(pruned.sections(vertex)) for vertex in pruned.cover.simplices(0)) == 240
    for context in range(contexts):
        relative = RelativeCohomology(pruned, context)
        assert all(relative.obstruction(section).refutes for section in pruned.sections((context,)))
    complex_ = CechComplex(pruned)
    assert complex_.cohomology(0) == Group(56)
    assert complex_.cohomology(1) == Group(0, (3,))


def test_the_vectors_are_orthogonal_bases():
    assert all(sum(a * b for a, b in zip(u, v, strict=True)) == 0 for basis in VECTORS for u, v in combinations(basis, 2))
    uses = [vector for basis in VECTORS for vector in basis]
    assert len(set(uses)) == 18 and all(uses.count(vector) == 2 for vector in uses)


CHAIN = ("q", "scale", "softmax", "av")
UNIFORM_CHAIN = uniform(
    System(
        dict.fromkeys(CHAIN, ("fp16", "fp32")),
        (
            relation(("q",), lambda p: p == "fp16"),
            relation(("softmax",), lambda p: p == "fp32"),
            *(relation(edge, lambda p, q: True) for edge in pairwise(CHAIN)),
        ),
    )
)


@pytest.mark.parametrize(
    ("system", "contexts"),
    [(PRECISION_TRIANGLE, 3), (NO_CAST, 3), (UNIFORM_CHAIN, 5)],
    ids=["PX1", "PX2", "PX4"],
)
def test_refuted_by_pairwise_consistency(system, contexts):
    cover = scopes(system)
    assert len(cover.contexts) == contexts
    pruned = pairwise_consistent(presheaf(system, cover))
    assert not any(pruned.sections(vertex) for vertex in cover.simplices(0))
    assert brute_force(system) == [] == list(pruned.global_sections())


def test_mixed_precision_is_forced():
    """The chain of PX4 has mixed assignments and no uniform one."""
    mixed = System(UNIFORM_CHAIN.domains, tuple(c for c in UNIFORM_CHAIN.constraints if "uniform" not in c.reason))
    assert len(brute_force(mixed)) == 4


STARS = {
    # name: system, graph, sections per star, solutions, sections that extend, γ = 0
    "equal ends": (widths(path(5), {}, (11, 24), 0), path(5), [2] * 5, 2, 10, 10),
    "24 to 11 over 5": (widths(path(5), {0: 24, 4: 11}, (11, 24), 0), path(5), [1, 1, 2, 1, 1], 0, 0, 0),
    "24 to 11 over 3": (widths(path(3), {0: 24, 2: 11}, (11, 24), 0), path(3), [1, 0, 1], 0, 0, 0),
    "24 to 8 over 4": (widths(path(4), {0: 24, 3: 8}, (8, 11, 24), 3), path(4), [1, 1, 4, 2], 0, 0, 0),
    "24 to 8 over 5": (widths(path(5), {0: 24, 4: 8}, (8, 11, 24), 13), path(5), [2, 5, 17, 5, 2], 8, 22, 22),
    "diamond, no cast": (widths(DIAMOND, {0: 24, 3: 11}, (11, 24), 0), DIAMOND, [1, 0, 0, 1], 0, 0, 0),
    "diamond, casts": (widths(DIAMOND, {0: 24, 3: 11}, (11, 24), 13), DIAMOND, [4, 2, 2, 4], 4, 12, 12),
}


@pytest.mark.parametrize("name", STARS)
def test_known_answers_on_stars(name):
    system, graph, sections, solutions, extend, zero = STARS[name]
    cover = stars(graph)
    given = presheaf(system, cover)
    assert [len(given.sections(vertex)) for vertex in cover.simplices(0)] == sections
    found = brute_force(system)
    assert len(found) == len(list(given.global_sections())) == solutions
    parts = {(i, tuple(s[node] for node in context)) for s in found for i, context in enumerate(cover.contexts)}
    assert len(parts) == extend
    vanish = {(gamma.context, gamma.section) for gamma in obstructions(given) if gamma.vanishes}
    assert parts <= vanish and len(vanish) == zero


@pytest.mark.parametrize("n", [3, 4, 5])
@pytest.mark.parametrize(("last", "solutions"), [(equal, 2), (different, 0)])
def test_cycles_of_bits(n, last, solutions):
    system = cycle(*[equal] * (n - 1), last)
    given = presheaf(system, scopes(system))
    assert len(list(given.global_sections())) == solutions
    found = list(obstructions(given))
    assert len(found) == 2 * n and sum(gamma.vanishes for gamma in found) == solutions * n


def test_colourings_of_a_triangle():
    given = presheaf(colouring(3, 3), scopes(colouring(3, 3)))
    assert len(list(given.global_sections())) == 6
    assert sum(gamma.vanishes for gamma in obstructions(given)) == 18
    given = presheaf(colouring(3, 2), scopes(colouring(3, 2)))
    assert [gamma.vanishes for gamma in obstructions(given)] == [False] * 6


def test_refuted_sections_are_dropped_again():
    """T10: dropping what γ refutes and pruning again leaves nothing after two rounds; on K₄ (T11a) nothing changes."""

    def drop(system):
        for _ in range(2):
            pruned = pairwise_consistent(presheaf(system, scopes(system)))
            refuted = [gamma for gamma in obstructions(pruned) if gamma.refutes]
            contexts = pruned.cover.contexts
            extra = tuple(relation(contexts[g.context], lambda *values, g=g: values != g.section, "refuted by cohomology") for g in refuted)
            system = System(system.domains, system.constraints + extra)
        pruned = pairwise_consistent(presheaf(system, scopes(system)))
        return sum(len(pruned.sections(vertex)) for vertex in pruned.cover.simplices(0))

    assert drop(T10) == 0
    assert drop(K4) == 36


def models_of_cycles(n):
    """All binary n-cycles of non-empty relations in which each node takes the same values on both of its edges."""
    relations = [set(r) for size in range(1, 5) for r in combinations(list(product(BITS, BITS)), size)]
    ends = [({a for a, _ in r}, {b for _, b in r}) for r in relations]
    for chosen in product(range(len(relations)), repeat=n):
        if all(ends[chosen[i]][1] == ends[chosen[(i + 1) % n]][0] for i in range(n)):
            yield [relations[index] for index in chosen]


@pytest.mark.parametrize(
    ("n", "models", "sections", "satisfiable", "undetected", "lost"),
    [(3, 405, 3312, 401, 360, 480), pytest.param(4, 2961, 32448, 2953, 2240, 2560, marks=pytest.mark.slow)],
)
def test_all_binary_cycles(n, models, sections, satisfiable, undetected, lost):
    """BC3, BC4: γ never refutes a section that extends, and refutes all sections of each model without solutions."""
    counts = dict.fromkeys(("models", "sections", "satisfiable", "undetected", "lost"), 0)
    for chosen in models_of_cycles(n):
        system = cycle(*(lambda a, b, r=r: (a, b) in r for r in chosen))
        pruned = pairwise_consistent(presheaf(system, scopes(system)))
        solutions = list(pruned.global_sections())
        nodes = system.nodes
        extends = {(i, restrict(tuple(s.values()), nodes, context)) for s in solutions for i, context in enumerate(pruned.cover.contexts)}
        counts["models"] += 1
        counts["satisfiable"] += bool(solutions)
        for gamma in obstructions(pruned):
            counts["sections"] += 1
            if (gamma.context, gamma.section) in extends:
                assert gamma.vanishes
            else:
                counts["lost"] += 1
                counts["undetected"] += gamma.vanishes
                assert solutions or not gamma.vanishes
    assert tuple(counts.values()) == (models, sections, satisfiable, undetected, lost)
