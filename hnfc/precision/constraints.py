"""Requirements of a policy on a format assignment, as constraints that the solvers of hnfc.sheaf take and name in their reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hnfc.dialects.formats import Format
from hnfc.formats.named import format_named
from hnfc.precision.policy import Policy, SemanticDType
from hnfc.sheaf.difference import DifferenceConstraint, at_least, at_most
from hnfc.sheaf.graph import Node
from hnfc.sheaf.system import Constraint

_WHAT = {SemanticDType.PARAM: "a parameter", SemanticDType.COMPUTE: "computed", SemanticDType.OUTPUT: "an output"}


def policy_constraints(policy: Policy, roles: Mapping[Node, SemanticDType | str]) -> tuple[Constraint, ...]:
    """For systems whose values are formats, or names of formats: each node of a role has the format that the policy says."""
    return tuple(
        Constraint(_reason(policy, node, SemanticDType(role)), (node,), _is(SemanticDType(role).to_dtype(policy)))
        for node, role in roles.items()
    )


def policy_differences(
    policy: Policy, roles: Mapping[Node, SemanticDType | str], level: Callable[[Format], int] = lambda form: form.precision
) -> tuple[DifferenceConstraint, ...]:
    """For difference constraints on `level` of the formats, by default bits of significand: each node has that of its format."""
    found: list[DifferenceConstraint] = []
    for node, role in roles.items():
        bits, reason = level(SemanticDType(role).to_dtype(policy)), _reason(policy, node, SemanticDType(role))
        found += (at_least(node, bits, reason), at_most(node, bits, reason))
    return tuple(found)


def _reason(policy: Policy, node: Node, role: SemanticDType) -> str:
    return f"{node} is {_WHAT[role]}, and the policy says {policy.part(role)}"


def _is(wanted: Format) -> Callable[[Format | str], bool]:
    return lambda value: format_named(value) == wanted
