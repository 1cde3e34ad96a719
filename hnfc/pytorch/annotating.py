"""`hnfc.annotate`: ranges, errors and sensitivities of values on the nodes of a torch.fx graph, for passes of others."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from hnfc.analysis.perturbation import square_sum
from hnfc.core.errors import ModelError, UsageError
from hnfc.formats.named import LIBRARY_NAMES, format_named
from hnfc.pytorch.optimized import arguments_of

KEY = "hnfc"
"""Of `node.meta`."""
_FORMATS = {name: form for form, name in LIBRARY_NAMES.items()}
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def annotate(graph: fx.GraphModule, sample: Any, *more: Any) -> fx.GraphModule:
    """The graph with `node.meta["hnfc"]` on every node that is a tensor of floating-point numbers: a dictionary.

    range: the least and the greatest finite element on the samples. sensitivity: how far the outputs move, relative to their root mean
    square, where each element is off by up to 1 relative to itself (root mean square; an estimate to first order). format: the name of
    its type. error: how far the outputs move by one rounding of the value to that. nonfinite: elements that are no finite numbers.
    source: file and line, "" where the graph does not know them. sensitivity and error are relative, without a unit. Samples are as for
    `hnfc.analyze`. Raises ModelError where the graph has no derivatives, or writes in place, UsageError for what is no GraphModule, and
    whatever the graph raises on a sample that does not fit it.
    """
    if not isinstance(graph, fx.GraphModule):
        raise UsageError(f"hnfc.annotate takes a torch.fx.GraphModule, not {type(graph).__name__}: torch.export and torch.fx make them")
    seen: dict[fx.Node, dict[str, Any]] = {}
    squares: dict[fx.Node, float] = {}
    size = 0.0
    for place, each in enumerate((sample, *more)):
        run = _Watching(graph, seen)
        outputs = run.outputs(each)
        for node, square in run.sensitivities(outputs, seed=place).items():
            squares[node] = squares.get(node, 0.0) + square
        size += sum(square_sum(output.detach()) for output in outputs)
    scale = math.sqrt(size) or 1.0
    for node, facts in seen.items():
        # the variance of a number between -1 and 1
        facts["sensitivity"] = math.sqrt(squares.get(node, 0.0) / 3) / scale
        facts["error"] = facts["sensitivity"] * format_named(facts["format"]).unit_roundoff
        facts["source"] = _source(node)
        node.meta[KEY] = facts
    return graph


class _Watching(fx.Interpreter):
    """A run that notes values, each of them a tensor of its own with a derivative."""

    def __init__(self, graph: fx.GraphModule, seen: dict[fx.Node, dict[str, Any]]) -> None:
        super().__init__(graph)
        self.seen = seen
        self.tensors: dict[fx.Node, torch.Tensor] = {}

    def outputs(self, sample: Any) -> list[torch.Tensor]:
        args, kwargs = arguments_of(sample)
        if kwargs:
            args = _in_order(self.module, kwargs)
        with torch.no_grad():
            true = _floats(self.module(*args))
        with torch.enable_grad():
            found = _floats(self.run(*args))
        if not true:
            raise ModelError("none of the results are floating-point numbers: sensitivities are of those")
        if not all(torch.equal(a, b.detach()) or _both_nan(a, b.detach()) for a, b in zip(true, found, strict=True)):
            raise ModelError(
                "the graph writes to its values in place, or is random, so that they cannot be watched one by one: export it with "
                "torch.export.export(…).run_decompositions().module(), in evaluation mode"
            )
        return found

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if n.op == "output" or not isinstance(result, torch.Tensor) or not result.is_floating_point():
            return result
        if not result.requires_grad:
            result = result.detach().requires_grad_(True)
        self.tensors[n] = result
        self._note(n, result.detach())
        # what is written to in place is a copy
        return result.clone()

    def _note(self, n: fx.Node, value: torch.Tensor) -> None:
        form = _FORMATS[str(value.dtype).removeprefix("torch.")]
        facts = self.seen.setdefault(n, {"range": (math.inf, -math.inf), "nonfinite": 0, "format": form})
        finite = value[torch.isfinite(value)]
        facts["nonfinite"] += value.numel() - finite.numel()
        if finite.numel():
            low, high = facts["range"]
            facts["range"] = min(low, float(finite.min())), max(high, float(finite.max()))

    def sensitivities(self, outputs: Sequence[torch.Tensor], seed: int) -> dict[fx.Node, float]:
        """Σ (∂/∂v·v)² of every value, by the outputs with random signs."""
        generator = torch.Generator().manual_seed(seed)
        reached = [output for output in outputs if output.requires_grad]
        if not reached:
            return {}
        signs = [(torch.randint(0, 2, o.shape, generator=generator) * 2 - 1).to(o) for o in reached]
        try:
            gradients = torch.autograd.grad(reached, list(self.tensors.values()), signs, allow_unused=True)
        except (NotImplementedError, RuntimeError) as error:
            raise ModelError(f"torch cannot say how roundings move the outputs: {error}") from error
        pairs = zip(self.tensors.items(), gradients, strict=True)
        return {node: square_sum((gradient * tensor.detach()).float()) for (node, tensor), gradient in pairs if gradient is not None}


def _in_order(module: torch.nn.Module, keywords: Mapping[str, Any]) -> tuple[Any, ...]:
    assert isinstance(module, fx.GraphModule)
    names = [str(node.target) for node in module.graph.nodes if node.op == "placeholder"]
    if missing := [name for name in names if name not in keywords]:
        raise UsageError(f"the sample has no `{missing[0]}`; the graph takes {', '.join(names)}")
    return tuple(keywords[name] for name in names)


def _floats(results: Any) -> list[torch.Tensor]:
    return [t for t in pytree.tree_leaves(results) if isinstance(t, torch.Tensor) and t.is_floating_point()]


def _both_nan(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) and torch.equal(torch.isnan(a), torch.isnan(b))


def _source(node: fx.Node) -> str:
    """File and line of the innermost frame that the graph knows."""
    frames = _FRAME.findall(str(node.meta.get("stack_trace") or ""))
    return f"{frames[-1][0]}:{frames[-1][1]}" if frames else ""
