"""Errors of a model larger than memory, layer by layer: each beside the same in a wider type, on the samples."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import fx

from hnfc.core.notebook import NotebookTable, notebook_html
from hnfc.core.progress import Progress, reporting, tell
from hnfc.frontend.pytorch import source_of
from hnfc.sharded.journal import Journal, digest_of
from hnfc.sharded.model import ShardedModel
from hnfc.sharded.running import SegmentRun, Values, WideRun, first_values, joined, relative_error, run_segment, separated, wider_than
from hnfc.sharded.segments import Segment, call_of, chain_of


@dataclass(frozen=True)
class LayerErrors:
    """Errors of a layer on the samples, relative root mean squares. They are measured on these samples, and bound nothing.

    error: of the values after it, roundings of all layers before it included. added: of the same where the values before it are exact.
    worst: the operation with the largest error of its own. largest: of all its values. infinite: elements that are not finite.
    """

    name: str
    digest: str
    weight_bytes: int
    error: float
    added: float
    worst: str
    worst_error: float
    largest: float
    infinite: int


HEADINGS = ("layers", "bytes of weights", "own error", "error so far", "largest", "worst operation")


@dataclass(frozen=True, repr=False)
class ShardedErrors:
    """Errors of all layers. repeats: the number of layers that are equal but for their weights, by digest."""

    layers: tuple[LayerErrors, ...]
    repeats: dict[str, int]
    wide: str

    @property
    def error(self) -> float:
        """Error of the outputs on the samples."""
        return self.layers[-1].error if self.layers else 0.0

    def rows(self) -> list[list[str]]:
        """One row for equal layers, with the worst of them, in the order in which the first stands."""
        groups: dict[str, list[LayerErrors]] = {}
        for layer in self.layers:
            groups.setdefault(layer.digest, []).append(layer)
        found = []
        for equal in groups.values():
            worst = max(equal, key=lambda layer: (layer.infinite, layer.added))
            name = equal[0].name if len(equal) == 1 else f"{equal[0].name} … {equal[-1].name} ×{len(equal)}"
            errors = [f"{worst.added:.2g}", f"{max(layer.error for layer in equal):.2g}"]
            operation = f"{worst.worst}: {worst.worst_error:.2g}" if worst.worst else ""
            at_worst = f"{operation}{f', in {worst.name}' if len(equal) > 1 and operation else ''}"
            found.append([name, f"{sum(layer.weight_bytes for layer in equal):,}", *errors, f"{worst.largest:.3g}", at_worst])
        return found

    def summary(self) -> str:
        """The error of the outputs, in words."""
        return f"error of the outputs {self.error:.3g} of their root mean square on the sample, beside {self.wide}: measured, not a bound"

    def __repr__(self) -> str:
        return f"ShardedErrors({len(self.layers)} layers, error {self.error:.3g})"

    def __str__(self) -> str:
        rows = [HEADINGS, *self.rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, self.summary()])

    def _repr_html_(self) -> str:
        return notebook_html(self.summary(), "plain", NotebookTable(HEADINGS, self.rows()))

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return {"error": self.error, "reference": self.wide, "layers": [asdict(layer) for layer in self.layers]}


@reporting("capturing the model …")
def analyze(
    model: ShardedModel, sample: Any, work: str | Path | None = None, progress: Progress | None = None
) -> ShardedErrors:  # fmt: skip
    """Errors layer by layer on a sample. work: a folder from which a run that was ended goes on; it is deleted at the end."""
    args, kwargs = call_of(model, sample)
    chain = chain_of(model, args, kwargs)
    first = first_values(chain, args, kwargs)
    wide = wider_than(list(model.dtypes.values()))
    journal = Journal(
        None if work is None else Path(work),
        ["analyze", model.checkpoint.identity(), model.config, digest_of(first), [segment.digest for segment in chain.segments]],
    )
    for place, segment in enumerate(chain.segments[len(journal.done) :], len(journal.done)):
        tell(f"layers: {place + 1} of {len(chain.segments)}, {segment.name} …")
        true, ours = separated(journal.values(joined(first, first)))
        state = model.read([name for name in segment.state if name not in chain.constants]) | chain.constants
        found, true, ours = _errors(segment, state, true, ours, wide)
        journal.add(asdict(found), joined(true, ours))
    layers = tuple(LayerErrors(**done) for done in journal.done)
    journal.remove()
    return ShardedErrors(layers, chain.repeats(), str(wide).removeprefix("torch."))


def _errors(segment: Segment, state: Values, true: Values, ours: Values, wide: torch.dtype) -> tuple[LayerErrors, Values, Values]:
    beside = _Beside(segment.graph, wide)
    own = run_segment(beside, segment, ours, state)
    exact = run_segment(WideRun(segment.graph, wide), segment, true, state)
    shown = [name for name in segment.results if name in own]
    added = relative_error(own, run_segment(WideRun(segment.graph, wide), segment, ours, state), shown)
    sizes = {id(tensor): tensor.nbytes for tensor in state.values()}
    found = LayerErrors(
        segment.name, segment.digest, sum(sizes.values()), relative_error(own, exact, shown), added,
        beside.worst, beside.worst_error, beside.largest, beside.infinite,
    )  # fmt: skip
    return found, exact, own


class _Beside(SegmentRun):
    """A run in which each operation is also computed in a wider type from the same operands."""

    def __init__(self, graph: fx.Graph, wide: torch.dtype) -> None:
        super().__init__(graph)
        self.wide = WideRun(graph, wide)
        self.worst, self.worst_error, self.largest, self.infinite = "", 0.0, 0.0, 0

    def run_node(self, n: fx.Node) -> Any:
        """Result of a node."""
        found = super().run_node(n)
        if n.op == "call_function" and isinstance(found, torch.Tensor) and found.is_floating_point() and found.numel():
            self._compare(n, found)
        return found

    def _compare(self, node: fx.Node, found: torch.Tensor) -> None:
        finite = found.isfinite()
        self.largest = max(self.largest, float(torch.where(finite, found, 0).abs().max()))
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        exact = self.wide.call_function(node.target, args, kwargs)
        # the infinities of masks are what they are meant to be
        self.infinite += int((~finite & (exact.isfinite() | found.isnan())).sum())
        error = relative_error({"": found}, {"": exact}, [""])
        if error > self.worst_error:
            place = source_of(node)
            where = f" ({Path(place[0]).name}:{place[1]})" if place else ""
            self.worst, self.worst_error = f"{_name(node)}{where}", error


def _name(node: fx.Node) -> str:
    return str(getattr(node.target, "__name__", node.target)).split(".")[0]
