"""A function of the torch dialect run by torch on NumPy arrays."""

from __future__ import annotations

import contextlib
import operator
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import fx
from torch_mlir import ir

from hnfc.backend.fx import raise_function
from hnfc.core.errors import ModelError
from hnfc.core.tensors import shared_with_torch, to_numpy, to_torch
from hnfc.frontend.weights import dtype_of, is_known

Array: TypeAlias = "np.ndarray[Any, Any]"


class TorchRunner:
    """torch, for models that are compared before and after a rewrite."""

    name = "torch"
    adapts = False

    def rewritten(self, compiled: Any, native: bool) -> Callable[[str], Callable[[Sequence[Array]], list[Array]]]:
        """Loader of the functions of a rewritten module, which torch runs as it is."""
        return partial(self.load, compiled.export(native))

    def load(self, module: ir.Module, function: str) -> Callable[[Sequence[Array]], list[Array]]:
        """The function as one of arrays. Raises ModelError where torch lacks an operation."""
        raised = raise_function(module, function)
        graph = Declared(raised)

        def run(inputs: Sequence[Array]) -> list[Array]:
            with trial_run(raised.graph):
                return [to_numpy(result) for result in _run(graph, [shared_with_torch(array) for array in inputs], function)]

        return run

    def wide(self, module: ir.Module, function: str) -> Callable[[Sequence[Array]], list[Array]] | None:
        """The function with every number of it in float64; results that do not come out so are NaN."""
        graph = widened(raise_function(module, function))

        def run(inputs: Sequence[Array]) -> list[Array]:
            tensors = [shared_with_torch(array) for array in inputs]
            with trial_run(graph.graph):
                results = _run(graph, [t.double() if t.is_floating_point() else t for t in tensors], function)
            return [to_numpy(result) for result in results]

        return run


@contextlib.contextmanager
def trial_run(graph: fx.Graph) -> Iterator[None]:
    """Lets a graph that draws random numbers draw the same ones each time, and leaves the generator as it was. Warnings of torch, which are
    about inputs that hnfc made up, are dropped."""
    tags = (getattr(node.target, "tags", ()) for node in graph.nodes)
    is_random = any(torch.Tag.nondeterministic_seeded in found for found in tags)
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[], enabled=is_random):
        warnings.simplefilter("ignore")
        if is_random:
            torch.manual_seed(0)
        yield


_TORCH_ERRORS = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError)
_EXACT_IN_INT64 = (torch.int8, torch.int16, torch.int32, torch.uint8, torch.uint16, torch.uint32)
_ELEMENT = re.compile(r"!torch\.vtensor<(?:\[[^\]]*\]|\*),([\w<>]+)>")
_SHAPE = re.compile(r"!torch\.vtensor<\[([^\]]*)\],")
_NARROWER = (torch.float32, torch.float16, torch.bfloat16)


def widened(graph: fx.GraphModule) -> fx.GraphModule:
    """The graph in float64: its constants, and the types that its operations name."""
    for name, buffer in list(graph.named_buffers()):
        if buffer.dtype in _NARROWER:
            graph.register_buffer(name, buffer.double(), persistent=False)

    def wider(argument: Any) -> Any:
        return torch.float64 if argument in _NARROWER else argument

    for node in graph.graph.nodes:
        if node.op == "call_function":
            node.args = fx.node.map_aggregate(node.args, wider)
            node.kwargs = fx.node.map_aggregate(node.kwargs, wider)
    graph.recompile()
    return graph


def on_torch(module: ir.Module, function: str) -> Callable[[Sequence[Array]], list[Array]]:
    """The function as one of arrays; later changes of the module do not reach it. Raises ModelError where torch lacks an operation."""
    graph = Declared(raise_function(module, function))

    def run(inputs: Sequence[Array]) -> list[Array]:
        return [to_numpy(result) for result in _run(graph, [shared_with_torch(array) for array in inputs], function)]

    return run


class Declared(fx.Interpreter):
    """A graph of which every result has the element type that the model declares for it, whatever torch gives; errors have a place."""

    def __init__(self, graph: fx.GraphModule) -> None:
        super().__init__(graph, garbage_collect_values=True)
        self.wanted = {node: _declared(node) for node in graph.graph.nodes}

    def __call__(self, *tensors: Any) -> Any:
        return self.run(*tensors)

    def run_node(self, node: fx.Node) -> Any:
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        call = getattr(self, node.op)
        try:
            result = call(node.target, args, kwargs)
        except _TORCH_ERRORS as error:
            if not _has_narrow_integers(args):
                raise _refusal(node, error) from error
            try:  # indices and the like have to be int64
                result = call(node.target, fx.node.map_aggregate(args, _widened_integer), kwargs)
            except _TORCH_ERRORS:
                raise _refusal(node, error) from error
        if node.op == "output":
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
        raise ModelError(what, *node.meta["place"])


def _declared(node: fx.Node) -> torch.dtype | None:
    """The element type that the model declares for a result, where torch has it."""
    declared: Any = node.meta.get("declared")
    index: Any = 0
    taken: Any = node.args
    if declared is None and node.target is operator.getitem and isinstance(taken[0], fx.Node):
        declared, index = taken[0].meta.get("declared"), taken[1]
    if declared is None or not isinstance(index, int) or index >= len(declared):
        return None
    found = _ELEMENT.fullmatch(declared[index])
    return to_torch(np.zeros(0, dtype_of(found[1]))).dtype if found and is_known(found[1]) else None


def _has_narrow_integers(args: Sequence[Any]) -> bool:
    return any(isinstance(arg, torch.Tensor) and arg.dtype in _EXACT_IN_INT64 for arg in args)


def _widened_integer(argument: Any) -> Any:
    return argument.long() if isinstance(argument, torch.Tensor) and argument.dtype in _EXACT_IN_INT64 else argument


def _refusal(node: fx.Node, error: Exception) -> ModelError:
    return ModelError(f"torch cannot run `{node.target}`: {_first_line(error)}; try --on iree", *node.meta.get("place", ()))


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _run(graph: Callable[..., Any], tensors: Sequence[Any], function: str) -> Any:
    try:
        with torch.no_grad():
            return graph(*tensors)
    except _TORCH_ERRORS as error:
        raise ModelError(f"torch cannot run `{function}`: {_first_line(error)}") from error
