"""Names of values in an ONNX model: each is made once, before it is used."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hnfc.core.errors import ModelError


def check_names(model: Any, name: str) -> None:
    """Raises ModelError at the first node that uses a value which nothing before it makes, or makes one that is there."""
    _check_graph(model.graph, frozenset(), name)


def _check_graph(graph: Any, around: Collection[str], name: str) -> None:
    known = {value.name for value in (*graph.input, *graph.initializer)} | {tensor.values.name for tensor in graph.sparse_initializer}
    for node in graph.node:
        title = f"{name}: `{node.name}` ({node.op_type})"
        for used in node.input:
            if used and used not in known and used not in around:
                raise ModelError(f"nothing before it makes its input `{used}`", title)
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                _check_graph(inner, {*around, *known}, name)
        for made in node.output:
            if made and made in known:
                raise ModelError(f"its output `{made}` is made before", title)
            known.add(made)
    for value in graph.output:
        if value.name not in known and value.name not in around:
            raise ModelError(f"nothing makes the output `{value.name}`", name)
