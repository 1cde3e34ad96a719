"""`torch.compile(model, backend="hnfc")`: rewrites the graphs that Dynamo makes, then hands them to another backend."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from hnfc.core.errors import ModelError, UsageError
from hnfc.frontend.pytorch import capture
from hnfc.frontend.signature import Signature
from hnfc.pipeline.rulesets import load_rules
from hnfc.pytorch.rewriting import rewrite
from hnfc.pytorch.settings import Settings
from hnfc.pytorch.sizes import Sizes

_OPTIONS = ("group", "inner")


def backend(graph: fx.GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **_: Any) -> Callable[..., Any]:
    """A backend of torch.compile. options: `group`, as for `hnfc.optimize` (`stability`); `inner`, the backend that runs the
    rewritten graph (`inductor`).

    A graph that hnfc cannot carry goes to the inner backend as it is, with a warning. Raises UsageError for other options.
    """
    given = dict(options or {})
    unknown = [name for name in given if name not in _OPTIONS]
    if unknown:
        raise UsageError(f"the backend has no option `{unknown[0]}`; it has {', '.join(_OPTIONS)}")
    group = given.get("group", "stability")
    settings = Settings(load_rules(*([group] if isinstance(group, str) else group)), validate=False)
    inner = torch._dynamo.backends.registry.lookup_backend(given.get("inner", "inductor"))
    try:
        return _rewritten(graph, list(inputs), settings, inner)
    except ModelError as error:
        warnings.warn(f"hnfc: a graph goes on unchanged: {error}", stacklevel=2)
        return inner(graph, list(inputs))


def _rewritten(graph: fx.GraphModule, inputs: list[Any], settings: Settings, inner: Any) -> Callable[..., Any]:
    kept = [index for index, value in enumerate(inputs) if isinstance(value, torch.Tensor)]
    tensors = [inputs[index] for index in kept]
    values = [node.meta.get("example_value") for node in graph.graph.nodes if node.op == "placeholder"]
    whole = _WithSizes(graph, kept, values)
    shapes = [_dynamic_axes(values[index]) for index in kept]
    if any(shapes):
        settings = replace(settings, dynamic_shapes=(tuple(shapes),))
    # the export must not add to what Dynamo has found out of the sizes so far
    with torch._guards.tracing(None), torch._subclasses.fake_tensor.unset_fake_temporarily():
        captured = capture(whole, tensors, None, settings.dynamic_shapes)
        _, made = rewrite(whole, captured, tensors, {}, settings)
    compiled = inner(made, captured.signature.gather(whole, tensors))
    return _answering(compiled, graph, whole, captured.signature, Sizes.of(captured, tensors), kept)


class _WithSizes(torch.nn.Module):
    """Dynamo's graph as a function of its tensors alone: sizes among its inputs are read off them."""

    def __init__(self, graph: fx.GraphModule, kept: Sequence[int], values: Sequence[Any]) -> None:
        super().__init__()
        self.graph, self.kept, self.count = graph, tuple(kept), len(values)
        self.sizes = {i: _where(value, values) for i, value in enumerate(values) if i not in kept}

    def forward(self, *tensors: torch.Tensor) -> Any:
        given: dict[int, Any] = dict(zip(self.kept, tensors, strict=True))
        for index, (source, axis) in self.sizes.items():
            given[index] = given[source].shape[axis]
        return self.graph(*(given[index] for index in range(self.count)))


def _where(size: Any, values: Sequence[Any]) -> tuple[int, int]:
    """An input and the axis of it that has the symbolic size."""
    wanted = getattr(getattr(size, "node", None), "expr", None)
    for index, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            for axis, found in enumerate(value.shape):
                if wanted is not None and isinstance(found, torch.SymInt) and found.node.expr == wanted:
                    return index, axis
    raise ModelError(f"an input of the graph, {size}, is neither a tensor nor a size of one")


def _dynamic_axes(value: Any) -> dict[int, Any] | None:
    axes = {axis: torch.export.Dim.AUTO for axis, size in enumerate(value.shape) if isinstance(size, torch.SymInt)}
    return axes or None


def _answering(
    compiled: Callable[..., Any], graph: fx.GraphModule, module: torch.nn.Module, signature: Signature, sizes: Sizes, kept: Sequence[int]
) -> Callable[..., Any]:
    """Dynamo's graph answers for sizes that it is for and the rewritten one is not, since torch.export relied on more of them."""

    def run(*inputs: Any) -> Any:
        tensors = [inputs[index] for index in kept]
        if not sizes.fit(tensors):
            return graph(*inputs)
        return signature.scatter(module, tensors, compiled(*signature.gather(module, tensors)))

    return run
