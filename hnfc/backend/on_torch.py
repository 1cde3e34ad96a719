"""A function of the torch dialect run by torch on NumPy arrays."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import fx
from torch_mlir import ir

from hnfc.backend.control_flow import Controlled
from hnfc.backend.declared import TORCH_ERRORS, Declared, first_line
from hnfc.backend.fx import raise_function
from hnfc.core.errors import ModelError
from hnfc.core.tensors import shared_with_torch, to_numpy

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


_NARROWER = (torch.float32, torch.float16, torch.bfloat16)


def widened(graph: fx.GraphModule) -> fx.GraphModule:
    """The graph in float64, graphs of branches and loops too: constants, and the types that operations name."""
    for part in graph.modules():
        if isinstance(part, fx.GraphModule):
            _widen(part)
        if isinstance(part, Controlled):
            part.declare(False)
    return graph


def _widen(graph: fx.GraphModule) -> None:
    for name, buffer in list(graph.named_buffers(recurse=False)):
        if buffer.dtype in _NARROWER:
            graph.register_buffer(name, buffer.double(), persistent=False)

    def wider(argument: Any) -> Any:
        return torch.float64 if argument in _NARROWER else argument

    for node in graph.graph.nodes:
        if node.op == "call_function":
            node.args = fx.node.map_aggregate(node.args, wider)
            node.kwargs = fx.node.map_aggregate(node.kwargs, wider)
    graph.recompile()


def on_torch(module: ir.Module, function: str) -> Callable[[Sequence[Array]], list[Array]]:
    """The function as one of arrays; later changes of the module do not reach it. Raises ModelError where torch lacks an operation."""
    graph = Declared(raise_function(module, function))

    def run(inputs: Sequence[Array]) -> list[Array]:
        return [to_numpy(result) for result in _run(graph, [shared_with_torch(array) for array in inputs], function)]

    return run


def _run(graph: Callable[..., Any], tensors: Sequence[Any], function: str) -> Any:
    try:
        with torch.no_grad():
            return graph(*tensors)
    except TORCH_ERRORS as error:
        raise ModelError(f"torch cannot run `{function}`: {first_line(error)}") from error
