"""What holds on every graph and every cover: d∘d = 0, functoriality, Euler characteristic, H⁰, and what γ may say."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest
from flint import fmpz_mat
from hypothesis import given, settings
from hypothesis import strategies as st

from hnfc.sheaf.cech import CechComplex
from hnfc.sheaf.cover import Cover, scopes, stars
from hnfc.sheaf.graph import Graph
from hnfc.sheaf.homology import Group, Lattice, cohomology, invariant_factors
from hnfc.sheaf.obstruction import RelativeCohomology, obstructions
from hnfc.sheaf.presheaf import Presheaf, pairwise_consistent, presheaf
from hnfc.sheaf.system import Constraint, System, restrict, uniform


@st.composite
def graphs(draw, largest=5):
    n = draw(st.integers(0, largest))
    pairs = [(u, v) for u in range(n) for v in range(u + 1, n)]
    return Graph(tuple(range(n)), tuple(draw(st.lists(st.sampled_from(pairs), max_size=6))) if pairs else ())


@st.composite
def systems(draw, largest=5):
    graph = draw(graphs(largest))
    values = (0, 1, 2)
    pairs = list(product(values, repeat=2))
    constraints = []
    for edge in graph.edges:
        allowed = draw(st.sets(st.sampled_from(pairs), min_size=3))
        constraints.append(Constraint(f"edge {edge}", edge, lambda a, b, allowed=allowed: (a, b) in allowed))
    for node in graph.nodes:
        kept = draw(st.sets(st.sampled_from(values), min_size=1))
        constraints.append(Constraint(f"node {node}", (node,), lambda a, kept=kept: a in kept))
    return System(dict.fromkeys(graph.nodes, values), tuple(constraints))


def covers(system):
    return [stars(system.graph()), scopes(system)]


def brute_force(system):
    nodes = system.nodes
    assignments = [dict(zip(nodes, values, strict=True)) for values in product(*system.domains.values())]
    return [assignment for assignment in assignments if not system.violated(assignment)]


def as_set(assignments):
    return {frozenset(assignment.items()) for assignment in assignments}


@settings(max_examples=50, deadline=None)
@given(systems())
def test_h0_is_the_set_of_solutions(system):
    expected = as_set(brute_force(system))
    for cover in covers(system):
        whole = presheaf(system, cover)
        for sheaf in (whole, pairwise_consistent(whole)):
            found = list(sheaf.global_sections())
            assert as_set(found) == expected and len(found) == len(expected)


@settings(max_examples=30, deadline=None)
@given(systems(largest=4))
def test_complex(system):
    """d∘d = 0 in every degree, and both sides of the Euler characteristic agree."""
    for cover in covers(system):
        whole = presheaf(system, cover)
        for sheaf in (whole, pairwise_consistent(whole)):
            complex_ = CechComplex(sheaf)
            for degree in range(complex_.dimension):
                assert not any(entry != 0 for entry in (complex_.coboundary(degree + 1) * complex_.coboundary(degree)).entries())
            ranks = [complex_.cohomology(degree).free for degree in range(complex_.dimension + 1)]
            assert complex_.euler_characteristic() == sum((-1) ** degree * rank for degree, rank in enumerate(ranks))


@settings(max_examples=50, deadline=None)
@given(systems(largest=4), st.data())
def test_restriction_is_a_functor(system, data):
    nodes = system.nodes
    inner = tuple(node for node in nodes if data.draw(st.booleans()))
    innermost = tuple(node for node in inner if data.draw(st.booleans()))
    for section in system.sections(nodes):
        assert restrict(section, nodes, nodes) == section
        once = restrict(section, nodes, inner)
        assert once in system.sections(inner)
        assert restrict(once, inner, innermost) == restrict(section, nodes, innermost)
    cover = stars(system.graph())
    sheaf = presheaf(system, cover)
    for simplex in cover.simplices(2):
        i, j, k = simplex
        whole = sheaf.restriction((i,), simplex)
        for edge in ((i, j), (i, k)):
            first, second = sheaf.restriction((i,), edge), sheaf.restriction(edge, simplex)
            for section in sheaf.sections((i,)):
                assert first(section) in sheaf.sections(edge)
                assert second(first(section)) == whole(section)


@settings(max_examples=30, deadline=None)
@given(systems(largest=4))
def test_gamma_is_sound_and_solves_the_affine_system(system):
    """Theorems 1 and 2: γ(s) = 0 for each s that extends, and exactly where integer families of total 1 with r_U = s agree on overlaps."""
    solutions = brute_force(system)
    for cover in covers(system):
        sheaf = presheaf(system, cover)
        families = affine_families(sheaf)
        extends = {(i, tuple(s[node] for node in context)) for s in solutions for i, context in enumerate(cover.contexts)}
        for gamma in obstructions(sheaf):
            assert gamma.vanishes or (gamma.context, gamma.section) not in extends
            assert gamma.vanishes == families(gamma.context)(gamma.section)
            if gamma.blocked_by is not None:
                assert gamma.refutes


def affine_families(sheaf):
    """For a context and a section on it: whether integer combinations, each of total 1, extend it and agree on all overlaps."""
    complex_ = CechComplex(sheaf)
    basis, d = complex_.basis(0), complex_.coboundary(0)
    vertices = len(sheaf.cover.contexts)
    columns = [{vertices + row: int(entry) for row, entry in enumerate(column) if entry} for column in d.transpose().tolist()]

    @cache
    def on(context):
        unknowns = [{vertex: 1} | columns[number] for ((vertex,), _), number in basis.items() if vertex != context]
        lattice = Lattice(vertices + d.nrows(), unknowns)
        ones = {vertex: 1 for vertex in range(vertices) if vertex != context}

        def extends(section):
            return ones | {row: -entry for row, entry in columns[basis[(context,), section]].items()} in lattice

        return extends

    return on


@settings(max_examples=30, deadline=None)
@given(systems(largest=4))
def test_a_refinement_sees_no_more(system):
    """Scopes refine stars: where γ(s) = 0 over the stars, γ of what s restricts to is 0 over the scopes."""
    coarse, fine = covers(system)
    vanishing = {(g.context, g.section) for g in obstructions(presheaf(system, fine)) if g.vanishes}
    for gamma in obstructions(presheaf(system, coarse)):
        star = coarse.contexts[gamma.context]
        if gamma.vanishes:
            for index, scope in enumerate(fine.contexts):
                if set(scope) <= set(star):
                    assert (index, restrict(gamma.section, star, scope)) in vanishing


@settings(max_examples=30, deadline=None)
@given(systems(largest=4))
def test_the_obstruction_is_a_relative_cocycle(system):
    """z vanishes on the overlaps with U and d¹z = 0: it lies in Z¹(𝒰, F_Ū)."""
    cover = stars(system.graph())
    sheaf = presheaf(system, cover)
    complex_ = CechComplex(sheaf)
    index, d1 = complex_.basis(1), complex_.coboundary(1)
    for gamma in obstructions(sheaf):
        inside = set(cover.contexts[gamma.context])
        z = fmpz_mat(len(index), 1)
        seen = {}
        for (edge, section), entry in gamma.cocycle.items():
            z[index[edge, section], 0] = entry
            nodes = cover.meet(edge)
            key = edge, restrict(section, nodes, tuple(node for node in nodes if node in inside))
            seen[key] = seen.get(key, 0) + entry
        assert not any(seen.values())
        assert not any(entry != 0 for entry in (d1 * z).entries())


@settings(max_examples=50, deadline=None)
@given(systems(largest=2), systems(largest=2))
def test_a_disjoint_union_has_the_product_of_solutions(left, right):
    def tagged(system, tag):
        domains = {(tag, node): values for node, values in system.domains.items()}
        return domains, tuple(Constraint(c.reason, tuple((tag, n) for n in c.scope), c.holds) for c in system.constraints)

    (domains, constraints), (more, further) = tagged(left, "l"), tagged(right, "r")
    both = System(domains | more, constraints + further)
    assert len(both.graph().components()) == len(left.graph().components()) + len(right.graph().components())
    for cover in covers(both):
        count = len(list(presheaf(both, cover).global_sections()))
        assert count == len(brute_force(left)) * len(brute_force(right))


def test_gamma_sees_the_other_component():
    """A section on one component is refuted by an odd cycle on the other."""
    different = [Constraint("differ", edge, lambda a, b: a != b) for edge in ((0, 1), (1, 2), (2, 0))]
    system = System(dict.fromkeys((0, 1, 2, "alone"), (0, 1)), tuple(different))
    sheaf = presheaf(system, scopes(system))
    assert sheaf.cover.contexts[-1] == ("alone",)
    assert all(gamma.refutes for gamma in obstructions(sheaf))


def test_small_graphs():
    empty = System({})
    assert empty.sections(()) == ((),)
    sheaf = presheaf(empty, stars(empty.graph()))
    assert list(sheaf.global_sections()) == [{}]
    complex_ = CechComplex(sheaf)
    assert (complex_.dimension, complex_.euler_characteristic(), complex_.cohomology(0)) == (-1, 0, Group(0))
    assert list(obstructions(pairwise_consistent(sheaf))) == []
    point = System({"a": (8, 16)})
    complex_ = CechComplex(presheaf(point, stars(point.graph())))
    assert (complex_.cohomology(0), complex_.cohomology(1)) == (Group(2), Group(0))
    assert [gamma.vanishes for gamma in obstructions(complex_.presheaf)] == [True, True]


@settings(max_examples=50, deadline=None)
@given(systems(largest=4))
def test_uniform_assignments_give_one_value_to_a_component(system):
    components = system.graph().components()
    expected = [s for s in brute_force(system) if all(len({s[node] for node in part}) == 1 for part in components)]
    assert as_set(brute_force(uniform(system))) == as_set(expected)


matrices = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(st.integers(-3, 3), min_size=width, max_size=width), min_size=1, max_size=4)
)


@settings(deadline=None)
@given(matrices)
def test_smith_form_through_the_hermite_form(rows):
    m = fmpz_mat(rows)
    smith = m.snf()
    diagonal = [abs(int(smith[i, i])) for i in range(min(m.nrows(), m.ncols()))]
    assert list(invariant_factors(m)) == [factor for factor in diagonal if factor]


@settings(deadline=None)
@given(matrices, st.data())
def test_lattice_membership(rows, data):
    """A vector lies in the lattice exactly where adding it changes no invariant factor."""
    width = len(rows[0])
    vector = data.draw(st.lists(st.integers(-4, 4), min_size=width, max_size=width))
    lattice = Lattice(width, [dict(enumerate(row)) for row in rows])
    assert (dict(enumerate(vector)) in lattice) == (invariant_factors(fmpz_mat(rows)) == invariant_factors(fmpz_mat([*rows, vector])))
    coefficients = data.draw(st.lists(st.integers(-3, 3), min_size=len(rows), max_size=len(rows)))
    inside = [sum(c * row[j] for c, row in zip(coefficients, rows, strict=True)) for j in range(width)]
    assert dict(enumerate(inside)) in lattice


def test_what_is_refused():
    with pytest.raises(ValueError, match="named twice"):
        Graph((0, 0))
    with pytest.raises(ValueError, match="leaves the graph"):
        Graph((0,), ((0, 1),))
    with pytest.raises(ValueError, match="itself"):
        Graph((0,), ((0, 0),))
    with pytest.raises(ValueError, match="no list of values"):
        System({}, (Constraint("pin", ("a",), bool),))
    with pytest.raises(ValueError, match="a scope names"):
        Constraint("pin", ("a", "a"), bool)
    with pytest.raises(ValueError, match="a context names"):
        Cover(((),))
    system = System({0: (0, 1), 1: (0, 1)}, (Constraint("equal", (0, 1), lambda a, b: a == b),))
    with pytest.raises(ValueError, match="equal: its scope lies in no context"):
        presheaf(system, Cover(((0,), (1,))))
    with pytest.raises(ValueError, match="1 lies in no context"):
        presheaf(system, Cover(((0,),)))
    with pytest.raises(ValueError, match="no local section"):
        RelativeCohomology(presheaf(system, scopes(system)), 0).obstruction((0, 1))
    with pytest.raises(ValueError, match="not zero"):
        cohomology(fmpz_mat([[1]]), fmpz_mat([[1]]))
    with pytest.raises(ValueError, match="that compose"):
        cohomology(fmpz_mat([[1]]), fmpz_mat([[1, 0]]))


def test_complete_graphs_have_trivial_star_covers():
    graph = Graph(tuple(range(4)), tuple((u, v) for u in range(4) for v in range(4) if u != v))
    assert len(graph.edges) == 6
    cover = stars(graph)
    assert all(set(context) == set(range(4)) for context in cover.contexts)
    assert [len(cover.simplices(q)) for q in range(5)] == [4, 6, 4, 1, 0]
    assert isinstance(presheaf(System(dict.fromkeys(range(4), (0,))), cover), Presheaf)
