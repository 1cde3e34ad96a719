"""A model as a chain of segments: the layers of its containers, and what lies between them, each a graph with the tensors that it reads."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from hnfc.core.errors import ModelError, UsageError
from hnfc.frontend.pytorch import arguments_of, export, results_of, source_of
from hnfc.frontend.signature import FixedResult, Given, Returned, State, TensorConstant
from hnfc.pytorch.optimized import arguments_of as pytorch_arguments
from hnfc.sharded.memory import keep_heap_small
from hnfc.sharded.model import ShardedModel

_CONTAINERS = (torch.nn.ModuleList, torch.nn.Sequential)
_NO_VALUE = (torch.ops.aten._assert_tensor_metadata.default, torch.ops.aten._assert_async.msg)


@dataclass(frozen=True)
class Segment:
    """A graph whose placeholders are values and then state. digest: of all but names and weights, so that equal layers have one."""

    name: str
    graph: fx.Graph
    values: tuple[str, ...]
    state: tuple[str, ...]
    results: tuple[str, ...]
    kept: tuple[str, ...]
    """Values that later segments read, or that are results of the model."""
    digest: str


@dataclass(frozen=True)
class Chain:
    """Segments in order. given: names of the inputs of the model. results: values that it returns, in the order of its outputs."""

    segments: tuple[Segment, ...]
    given: tuple[str, ...]
    results: tuple[str, ...]
    constants: dict[str, torch.Tensor]
    """Tensors that the model makes of numbers, as further state."""

    def repeats(self) -> dict[str, int]:
        """The number of equal segments, by their digest."""
        counts: dict[str, int] = {}
        for segment in self.segments:
            counts[segment.digest] = counts.get(segment.digest, 0) + 1
        return counts


def call_of(model: ShardedModel, sample: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a call, keywords in the order of the signature. Raises UsageError for what the model does not take."""
    args, kwargs = pytorch_arguments(sample)
    try:
        bound = inspect.signature(model.module.forward).bind(*args, **kwargs)
    except TypeError as error:
        raise UsageError(f"the model does not take this sample: {error}") from None
    return bound.args, bound.kwargs


def chain_of(model: ShardedModel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Chain:
    """The segments of a model for inputs like these. Raises ModelError where torch.export cannot follow it, or it changes tensors."""
    keep_heap_small()
    on_meta = pytree.tree_map_only(torch.Tensor, lambda t: t.to("meta"), (tuple(args), dict(kwargs)))
    with torch.no_grad():
        program = export(model.module, on_meta[0], on_meta[1], None)
    named, constants, given = dict[str, str](), dict[str, torch.Tensor](), list[str]()
    sources = arguments_of(program)
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    for node, source in zip(placeholders, sources, strict=True):
        if isinstance(source, State):
            named[node.name] = source.name
        elif isinstance(source, TensorConstant):
            if source.tensor.is_meta:
                raise ModelError(f"the model makes a tensor on the meta device, whose numbers are not known ({node.name})")
            constants[node.name] = source.tensor
        elif isinstance(source, Given):
            given.append(node.name)
    sinks = results_of(program)
    if not all(isinstance(sink, Returned) for sink in sinks if not isinstance(sink, FixedResult)):
        raise ModelError("the model changes its inputs or buffers, which is not done layer by layer; put it in eval mode, without a cache")
    for node in program.graph.nodes:
        if node.op == "get_attr":
            raise ModelError(f"the model has a region ({node.target}) that is not run layer by layer", *(source_of(node) or ()))
    nodes = [n for n in program.graph.nodes if n.op == "call_function" and n.target not in _NO_VALUE]
    results = tuple(node.name for node in program.graph.output_node().args[0])
    units = _units(model.module)
    parts = [(unit, list(group)) for unit, group in groupby(nodes, lambda node: _unit_of(node, units))]
    segments = []
    read_later = set(results)
    for unit, part in reversed(parts):
        segments.append(_segment(unit, part, named, constants, read_later))
        read_later = (read_later - set(segments[-1].results)) | set(segments[-1].values)
    return Chain(tuple(reversed(segments)), tuple(given), results, constants)


def _units(module: torch.nn.Module) -> list[str]:
    """Paths of the children of the outermost containers; of the model's own children where it has no container."""
    containers: list[str] = []
    for path, part in module.named_modules():
        if path and isinstance(part, _CONTAINERS) and not any(path.startswith(f"{outer}.") for outer in containers):
            containers.append(path)
    parents = containers or [""]
    found = []
    for parent in parents:
        found += [f"{parent}.{name}".lstrip(".") for name, _ in module.get_submodule(parent).named_children()]
    return found


def _unit_of(node: fx.Node, units: Sequence[str]) -> str:
    """The layer that a node belongs to; empty for what is between layers."""
    paths = [entry[0].split("@")[0] for entry in (node.meta.get("nn_module_stack") or {}).values()]
    return next((path for path in paths if path in units), "")


def _segment(
    unit: str, nodes: list[fx.Node], named: Mapping[str, str], constants: Mapping[str, torch.Tensor], read_later: set[str]
) -> Segment:  # fmt: skip
    own = set(nodes)
    read = list(dict.fromkeys(n for node in nodes for n in node.all_input_nodes if n not in own))
    values = [node for node in read if node.name not in named and node.name not in constants]
    state = [node for node in read if node.name in named or node.name in constants]
    results = [node for node in nodes if node.name in read_later]
    graph = fx.Graph()
    copied: dict[fx.Node, fx.Node] = {}
    for node in (*values, *state):
        copied[node] = graph.placeholder(node.name)
        copied[node].meta = _meta(node)
    for node in nodes:
        made = graph.node_copy(node, copied.__getitem__)
        made.args, made.kwargs = pytree.tree_map_only(torch.device, _off_meta, (made.args, made.kwargs))
        made.meta = _meta(node)
        copied[node] = made
    graph.output(tuple(copied[node] for node in results))
    name = unit or next((path for node in nodes if (path := _innermost(node))), "between layers")
    kept = sorted(read_later | {node.name for node in results})
    return Segment(
        name, graph, tuple(node.name for node in values), tuple(named.get(node.name, node.name) for node in state),
        tuple(node.name for node in results), tuple(kept), _digest(graph),
    )  # fmt: skip


def _innermost(node: fx.Node) -> str:
    paths = [entry[0].split("@")[0] for entry in (node.meta.get("nn_module_stack") or {}).values()]
    return next((path for path in reversed(paths) if path), "")


def _meta(node: fx.Node) -> dict[str, Any]:
    return {key: node.meta[key] for key in ("val", "tensor_meta", "stack_trace", "nn_module_stack") if key in node.meta}


def _off_meta(device: torch.device) -> torch.device:
    return torch.device("cpu") if device.type == "meta" else device


def _digest(graph: fx.Graph) -> str:
    places = {node: place for place, node in enumerate(graph.nodes)}
    lines = []
    for node in graph.nodes:
        kinds = [(str(v.dtype), list(v.shape)) if isinstance(v, torch.Tensor) else str(v) for v in pytree.tree_leaves(node.meta.get("val"))]
        written = fx.node.map_arg((node.args, node.kwargs), lambda n: f"%{places[n]}")
        lines.append([node.op, str(node.target) if node.op == "call_function" else "", repr(written), kinds])
    return hashlib.sha256(json.dumps(lines).encode()).hexdigest()
