"""Gradients of an FX graph that are finite and right where torch's chain rule multiplies 0 by infinity.

- The branch of a `where` that is not taken has gradient 0, also where its derivative is infinite or its value NaN.
- The root of a sum of squares has gradient 0 at 0, a subgradient of the norm.
- An input that a rule took out, since it cancels, has gradient 0 and not None.

Values do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import fx

from hnfc.backend import functions

aten = torch.ops.aten


def _overloads(*names: str) -> set[Any]:
    """All overloads of ATen operations of these names, as far as this torch has them."""
    packets = [getattr(aten, name) for name in names if hasattr(aten, name)]
    return {getattr(packet, overload) for packet in packets for overload in packet.overloads()}


# The derivative of one of these is infinite, or its value not finite, at some finite operand.
_UNSAFE = _overloads(
    "sqrt", "rsqrt", "log", "log2", "log10", "log1p", "pow", "div", "reciprocal", "exp", "exp2", "expm1", "sinh", "cosh", "tan", "asin",
    "acos", "acosh", "atanh", "hypot", "xlogy", "special_xlogy", "lgamma", "digamma", "logit", "erfinv", "special_erfcx", "atan2",
    "addcdiv", "square", "float_power", "elu", "special_log_ndtr", "logaddexp", "softplus",
) | {
    getattr(functions, name)
    for name in (
        "expm1", "log1p", "hypot", "acosh", "atanh", "cbrt", "erfcx", "log_ndtr", "root_of_squares", "softplus", "logaddexp",
        "ending_expm1", "ending_log1p", "ending_acosh", "ending_atanh", "ending_cbrt", "ending_exp", "ending_sqrt", "ending_rsqrt",
        "ending_log", "ending_reciprocal", "ending_div",
    )
}  # fmt: skip
_POINTWISE = _UNSAFE | _overloads(
    "add", "sub", "rsub", "mul", "neg", "abs", "sign", "sgn", "sin", "cos", "atan", "tanh", "asinh", "sigmoid", "erf", "erfc",
    "special_erfc", "relu", "silu", "gelu", "log_sigmoid_forward", "mish", "leaky_relu", "hardtanh", "relu6", "clamp", "clamp_min",
    "clamp_max",
    "maximum", "minimum", "where", "masked_fill", "floor", "ceil", "trunc", "round", "to", "_to_copy", "clone", "alias", "addcmul", "lerp",
    "fmod", "remainder", "nan_to_num",
) | {
    getattr(functions, name)
    for name in ("tanh", "asinh", "ending_asinh", "sigmoid", "log_sigmoid", "erfc", "silu", "mish", "selected", "not_selected")
}  # fmt: skip
_MOVING = _overloads(
    "clone", "alias", "view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "expand", "transpose", "permute", "slice", "select",
    "flatten",
)  # fmt: skip
_MOST_COPIED = 16
"""Operations that branches share which are computed once for each."""
_WHERE = _overloads("where")
_MASKED_FILL = _overloads("masked_fill")
_NO_GRADIENT = _overloads(
    "detach", "eq", "ne", "lt", "le", "gt", "ge", "argmax", "argmin", "isnan", "isinf", "isfinite", "isposinf", "isneginf", "sym_size",
    "logical_not", "logical_and", "logical_or", "full_like", "zeros_like", "ones_like", "empty_like", "new_zeros", "new_ones", "new_full",
)  # fmt: skip


def mend_gradients(graph: fx.Graph) -> int:
    """Changes the graph so that untaken branches and norms at 0 have right gradients; the number of places that were changed."""
    conditional = _conditional(graph)
    changed = sum(_protect(graph, node, conditional) for node in list(graph.nodes) if node.target in _WHERE | _MASKED_FILL)
    for node in list(graph.nodes):
        if _is_root(node) and isinstance(node.args[0], fx.Node) and _is_of_squares(node.args[0]):
            node.target, node.args, node.kwargs = functions.root_of_squares, (node.args[0],), {}
            changed += 1
    return changed


_WITH_INFINITE_DERIVATIVES: dict[Any, Callable[..., Any]] = {
    aten.exp.default: functions.ending_exp, aten.sqrt.default: functions.ending_sqrt, aten.rsqrt.default: functions.ending_rsqrt,
    aten.log.default: functions.ending_log, aten.reciprocal.default: functions.ending_reciprocal,
    aten.div.Tensor: functions.ending_div, functions.expm1: functions.ending_expm1, functions.log1p: functions.ending_log1p,
    functions.atanh: functions.ending_atanh, functions.acosh: functions.ending_acosh, functions.cbrt: functions.ending_cbrt,
    functions.asinh: functions.ending_asinh,  # of what is no number behind a root or logarithm
}  # fmt: skip


def ignore_unused(graph: fx.Graph) -> int:
    """Lets a result that a caller does not differentiate add nothing to gradients: its cotangent of 0 meets no infinite derivative.
    Returns the number of operations that were changed."""
    return _ignore_unused_among(graph.nodes)


def _ignore_unused_among(nodes: Iterable[fx.Node]) -> int:
    changed = 0
    for node in nodes:
        better = _WITH_INFINITE_DERIVATIVES.get(node.target) if node.op == "call_function" and not node.kwargs else None
        if better is not None:
            node.target = better
            changed += 1
    return changed


# branches


def _protect(graph: fx.Graph, node: fx.Node, conditional: set[fx.Node]) -> int:
    """Lets gradients into what each branch alone is made of only where the branch is taken; the number of such branches."""
    changed = 0
    for place, condition, gate in _branches(node):
        _copy_shared(graph, node, place, conditional)
        changed += _protect_branch(graph, node, node.args[place], condition, gate, conditional)
    return changed


def _branches(node: fx.Node) -> list[tuple[int, Any, Callable[..., Any]]]:
    """Places of the branches among the operands, each with its condition and gate."""
    if node.target in _MASKED_FILL:
        return [(0, node.args[1], functions.not_selected)]
    if node.target in _WHERE and len(node.args) == 3:
        return [(1, node.args[0], functions.selected), (2, node.args[0], functions.not_selected)]
    return []


def _conditional(graph: fx.Graph) -> set[fx.Node]:
    """Operations of which every use that has a derivative lies in a branch."""
    found: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        if node.target not in _POINTWISE or not node.users:
            continue
        if all(user in found or user.target in _NO_GRADIENT or _only_in_branches(node, user) for user in node.users):
            found.add(node)
    return found


def _only_in_branches(part: fx.Node, user: fx.Node) -> bool:
    places = {place for place, *_ in _branches(user)}
    return bool(places) and all(place in places for place, operand in enumerate(user.args) if operand is part)


def _copy_shared(graph: fx.Graph, node: fx.Node, place: int, conditional: set[fx.Node]) -> None:
    """Gives a branch operations of its own in place of those that it shares with other branches only."""
    branch = node.args[place]
    if not isinstance(branch, fx.Node):
        return
    alone = _alone(branch, node, _POINTWISE)
    shared: set[fx.Node] = set()
    stack = [branch]
    seen: set[fx.Node] = set()
    while stack:
        part = stack.pop()
        if part in seen or part not in alone | conditional:
            continue
        seen.add(part)
        if part not in alone:
            shared.add(part)
        stack += part.all_input_nodes
    if not 0 < len(shared) <= _MOST_COPIED or not any(part.target in _UNSAFE for part in shared):
        return
    copies: dict[fx.Node, fx.Node] = {}
    with graph.inserting_before(node):
        for part in sorted(shared):
            copies[part] = graph.node_copy(part, lambda operand: copies.get(operand, operand))
    conditional.update(copies.values())
    for part in alone:
        for operand in part.all_input_nodes:
            if operand in copies:
                part.replace_input_with(operand, copies[operand])
    node.update_arg(place, copies.get(branch, branch))
    for part in sorted(alone):
        node.prepend(part)


def _protect_branch(
    graph: fx.Graph, node: fx.Node, branch: Any, condition: Any, gate: Callable[..., Any], conditional: set[fx.Node]
) -> int:  # fmt: skip
    if not isinstance(branch, fx.Node) or not isinstance(condition, fx.Node):
        return 0
    cone = _alone(branch, node, _POINTWISE)
    # behind a reshape the condition has another shape, but the cotangent of what is not taken is 0 there too
    behind = _ignore_unused_among(_alone(branch, node, _POINTWISE | _MOVING) - cone)
    if not any(part.target in _UNSAFE for part in cone) or condition in cone:
        return min(behind, 1)
    gated: dict[fx.Node, fx.Node] = {}
    for part in sorted(cone):
        node.prepend(part)  # behind the condition; nothing else uses it
    first = min(cone)
    for part in sorted(cone):
        for operand in part.all_input_nodes:
            if operand in cone or operand.op == "get_attr" or operand.target in _NO_GRADIENT:
                continue
            if operand not in gated:
                with graph.inserting_before(first):
                    gated[operand] = graph.call_function(gate, (operand, condition))
            part.replace_input_with(operand, gated[operand])
    conditional.update(gated.values())
    return 1


def _alone(branch: fx.Node, node: fx.Node, among: set[Any]) -> set[fx.Node]:
    """The operations of these kinds that only this branch of the node uses."""
    cone: set[fx.Node] = set()
    stack = [branch]
    while stack:
        part = stack.pop()
        if part in cone or part.op != "call_function" or part.target not in among:
            continue
        # the node may use a part of one branch as the other branch too, or as its condition
        as_branch = {node} if part is branch and sum(operand is part for operand in node.args) == 1 else set[fx.Node]()
        if not set(part.users) <= cone | as_branch:
            continue
        cone.add(part)
        stack += part.all_input_nodes
    return cone


# norms


def _is_root(node: fx.Node) -> bool:
    half = node.target is aten.pow.Tensor_Scalar and bool(node.args[1] == 0.5)
    return half or node.target in (aten.sqrt.default, functions.ending_sqrt)


_REDUCTIONS = _overloads("sum", "mean", "var")
_SAME_AT_ZERO = _MOVING | _overloads("relu", "to", "_to_copy")


def _is_of_squares(node: Any) -> bool:
    """Return whether the value is a sum, mean, positive multiple or quotient of squares, so that it is flat wherever it is 0."""
    if not isinstance(node, fx.Node) or node.op != "call_function":
        return False
    target, args = node.target, node.args
    if target is aten.square.default or target in _overloads("var"):
        return True
    if target is aten.mul.Tensor and args[0] is args[1]:
        return True
    if target is aten.pow.Tensor_Scalar:
        return isinstance(args[1], int | float) and args[1] >= 2 and float(args[1]).is_integer() and int(args[1]) % 2 == 0
    if target in _REDUCTIONS or target in _SAME_AT_ZERO:
        return _is_of_squares(args[0])
    if target is aten.clamp_min.default or (target is aten.clamp.default and len(args) == 2):
        return bool(args[1] == 0) and _is_of_squares(args[0])
    if target is aten.add.Tensor:
        return len(args) == 2 and not node.kwargs and all(map(_is_of_squares, args))
    if target is aten.div.Tensor:
        return _is_of_squares(args[0])
    if target in (aten.mul.Scalar, aten.div.Scalar):
        return isinstance(args[1], int | float) and args[1] > 0 and _is_of_squares(args[0])
    return False


# inputs that cancel


def keep_cancelled(before: fx.Graph, after: fx.Graph, returned: Sequence[bool]) -> None:
    """Gives arguments that a result of `before` depends on, and the same result of `after` no longer, a gradient of 0 there.

    returned: of each result whether the model returns it, in place of storing it.
    """
    old, new = _influences(before), _influences(after)
    arguments = [node for node in after.nodes if node.op == "placeholder"]
    output = after.output_node()
    results = list(output.args[0])  # type: ignore[arg-type]
    for index, (first, second) in enumerate(zip(old, new, strict=True)):
        lost = sorted(first - second)
        if lost and returned[index] and isinstance(results[index], fx.Node):
            with after.inserting_before(output):
                results[index] = after.call_function(functions.with_cancelled, (results[index], *(arguments[i] for i in lost)))
    output.args = (tuple(results),)


def _influences(graph: fx.Graph) -> list[set[int]]:
    """For each result the indices of the arguments that it has a derivative by, as far as operations tell."""
    known: dict[fx.Node, frozenset[int]] = {}
    count = 0
    for node in graph.nodes:
        if node.op == "placeholder":
            known[node] = frozenset((count,))
            count += 1
        elif node.op == "output":
            return [set(known.get(result, ())) if isinstance(result, fx.Node) else set() for result in node.args[0]]
        else:
            stops = node.target in _NO_GRADIENT
            known[node] = frozenset() if stops else _union(known[operand] for operand in node.all_input_nodes)
    return []


def _union(sets: Iterable[frozenset[int]]) -> frozenset[int]:
    found = list(sets)
    return found[0] if len(found) == 1 else frozenset().union(*found)
