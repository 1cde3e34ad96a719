"""Gradients of FX graphs by some of their arguments, with weighted results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import fx

from hnfc.backend.on_torch import trial_run
from hnfc.dialects.types import FORMATS
from hnfc.validation.gradients import weight_of

REFUSALS = (RuntimeError, TypeError, ValueError, NotImplementedError)
"""Exceptions of torch for inputs that an operation does not take."""
ELEMENT_OF_DTYPE = {torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}


class GraphFunction(Protocol):
    """A callable with a graph."""

    graph: fx.Graph

    def __call__(self, *inputs: Any) -> Any: ...


def gradients_of(
    graph: GraphFunction, inputs: Sequence[Any], wanted: Sequence[int], returned: Sequence[bool], defined: Sequence[Any]
) -> list[Any] | None:
    """The gradients of the weighted results by the wanted arguments; None where torch has none."""
    leaves = [t.detach().clone().requires_grad_() if i in wanted else detached(t) for i, t in enumerate(inputs)]
    try:
        with trial_run(graph.graph), torch.enable_grad():
            results = zip(graph(*leaves), returned, defined, strict=True)
            chosen_results = [(r, known) for r, is_returned, known in results if is_returned and is_differentiable(r) and r.requires_grad]
            outputs = [r for r, _ in chosen_results]
            weights = [torch.from_numpy(weight_of(r.numel())).to(r.dtype).reshape(r.shape) * known for r, known in chosen_results]
            chosen = [leaves[i] for i in wanted]
            found = torch.autograd.grad(outputs, chosen, weights, allow_unused=True) if outputs else [None] * len(chosen)
    except REFUSALS:
        return None
    return [torch.zeros_like(t) if g is None else g.detach() for t, g in zip(chosen, found, strict=True)]


def detached(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def copied(graph: fx.GraphModule) -> fx.GraphModule:
    """A graph with its own nodes and constants."""
    made = fx.Graph()
    made.output(made.graph_copy(graph.graph, {}))
    root = torch.nn.Module()
    for name, buffer in graph.named_buffers():
        root.register_buffer(name, buffer.clone(), persistent=False)
    return fx.GraphModule(root, made)


def is_differentiable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def format_of_tensor(tensor: Any) -> Any:
    return FORMATS[ELEMENT_OF_DTYPE.get(tensor.dtype, "f32")]
