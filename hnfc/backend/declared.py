"""Graphs that torch runs with the element types that the model declares, and errors that name a node."""

from __future__ import annotations

import operator
import re
from typing import Any

import numpy as np
import torch
from torch import fx

from hnfc.core.errors import NodeError
from hnfc.core.tensors import to_torch
from hnfc.frontend.weights import dtype_of, is_known

TORCH_ERRORS = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError)
_NARROWER_THAN_INT64 = (torch.int8, torch.int16, torch.int32, torch.uint8, torch.uint16, torch.uint32)
_ELEMENT = re.compile(r"!torch\.vtensor<(?:\[[^\]]*\]|\*),([\w<>]+)>")
_SHAPE = re.compile(r"!torch\.vtensor<\[([^\]]*)\],")


class Declared(fx.Interpreter):
    """A graph of which every result has the element type that the model declares for it, whatever torch gives; errors have a place.

    shapes: results of the graph have the declared shapes too; those of a loop's body may change from turn to turn.
    """

    def __init__(self, graph: fx.GraphModule, *, shapes: bool = True) -> None:
        super().__init__(graph, garbage_collect_values=True)
        self.shapes = shapes
        self.wanted = {node: element_declared(node) for node in graph.graph.nodes}

    def __call__(self, *tensors: Any) -> Any:
        return self.run(*tensors)

    def run_node(self, node: fx.Node) -> Any:
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        call = getattr(self, node.op)
        try:
            result = call(node.target, args, kwargs)
        except TORCH_ERRORS as error:
            if not any(map(_is_exact_in_int64, _tensors(args))):
                raise _refusal(node, error) from error
            try:  # indices and the like have to be int64
                result = call(node.target, fx.node.map_aggregate(args, _widened_integer), kwargs)
            except TORCH_ERRORS:
                raise _refusal(node, error) from error
        if node.op == "output" and self.shapes:
            listed: Any = node.args[0]
            for returned, value in zip(listed, result, strict=True):
                _check_shape(returned, value)
        kind = self.wanted[node]
        return result.to(kind) if kind is not None and isinstance(result, torch.Tensor) and result.dtype != kind else result


def _check_shape(node: Any, result: Any) -> None:
    """Raises ModelError where torch makes another shape than the model declares for the only result of an operation."""
    declared: Any = node.meta.get("declared", ()) if isinstance(node, fx.Node) else ()
    if len(declared) != 1 or not isinstance(result, torch.Tensor):
        return
    found = _SHAPE.match(declared[0])
    sizes = [] if found is None else [size for size in found[1].split(",") if size]
    if found and (len(sizes) != result.dim() or any(b not in ("?", str(a)) for a, b in zip(result.shape, sizes, strict=True))):
        what = f"`{node.target}` gives the shape {list(result.shape)} in torch, and the model says [{found[1]}]; try --on iree"
        raise NodeError(what, *node.meta["place"], node=node.meta["node"])


def element_declared(node: fx.Node) -> torch.dtype | None:
    """The element type that the model declares for a result, where torch has it."""
    declared: Any = node.meta.get("declared")
    index: Any = 0
    taken: Any = node.args
    if declared is None and node.target is operator.getitem and isinstance(taken[0], fx.Node):
        declared, index = taken[0].meta.get("declared"), taken[1]
    if declared is None or not isinstance(index, int) or index >= len(declared):
        return None
    return declared_dtype(declared[index])


def declared_dtype(kind: str) -> torch.dtype | None:
    """The element type of a tensor type of the torch dialect, where torch has it."""
    found = _ELEMENT.fullmatch(kind)
    return to_torch(np.zeros(0, dtype_of(found[1]))).dtype if found and is_known(found[1]) else None


def _tensors(args: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    fx.node.map_aggregate(args, lambda argument: found.append(argument) if isinstance(argument, torch.Tensor) else None)
    return found


def _is_exact_in_int64(tensor: torch.Tensor) -> bool:
    if tensor.dtype is torch.uint64:
        return not bool((tensor.view(torch.int64) < 0).any())
    return tensor.dtype in _NARROWER_THAN_INT64


def _widened_integer(argument: Any) -> Any:
    return argument.long() if isinstance(argument, torch.Tensor) and _is_exact_in_int64(argument) else argument


def _refusal(node: fx.Node, error: Exception) -> NodeError:
    name: Any = node.target
    if node.op == "call_function" and not hasattr(name, "_schema"):
        name = getattr(name, "__name__", name)
    hint = "`onnx.reference` or onnxruntime may run it" if node.op == "call_module" else "try --on iree"
    what = f"torch cannot run `{name}`: {first_line(error)}; {hint}"
    return NodeError(what, *node.meta.get("place", ()), node=node.meta.get("node", ""))


def first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
