"""Formats of the weights of a model larger than memory, solved and written layer by layer.

Each layer runs on the values that the layers before it really have in their formats, beside the values of the original. The weights of a
layer get the fewest bytes with which the error after it, measured, is within the part of the target that its weights may use.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import fx

from hnfc.core.errors import UsageError
from hnfc.core.notebook import NotebookTable, notebook_html
from hnfc.core.progress import Progress, reporting, tell
from hnfc.dialects.formats import Fixed
from hnfc.formats.granular import Along, Granular, is_for_weights
from hnfc.formats.scaled import stored_bytes, stored_format
from hnfc.sharded.checkpoint import write_tensors
from hnfc.sharded.journal import Journal, digest_of
from hnfc.sharded.memory import return_free_memory
from hnfc.sharded.model import ShardedModel
from hnfc.sharded.rows import PackedRows, RowPacker, row_pieces
from hnfc.sharded.running import LINEAR, SegmentRun, Values, first_values, joined, relative_error, run_segment, separated
from hnfc.sharded.segments import Chain, Segment, call_of, chain_of
from hnfc.sharded.writing import finish, shard_name, tensors_of

WORK = "hnfc-work"
"""Folder of unfinished work in the folder that is written."""
_ROWS = 256
"""Rows of inputs, spread over the samples, on which a format of one weight is rated; the layer itself runs on all."""
_OWN = "own"
"""The format that a weight has in the model."""
Candidate: TypeAlias = tuple[float, float, str, PackedRows | None]
"""Error of the products with a weight, its bytes, its format, and it in the format; None as it is."""


@dataclass(frozen=True)
class LayerFormats:
    """Formats of the weights of a layer. error: of the values after it, as they are in all formats so far."""

    name: str
    formats: dict[str, str]
    bytes: float
    original_bytes: float
    error: float
    allowed: float
    runs: int
    """Number of runs of the layer to find them."""


@dataclass(frozen=True, repr=False)
class ShardedPrecision:
    """Formats of all weights, and the error of the outputs on the samples, measured."""

    layers: tuple[LayerFormats, ...]
    repeats: dict[str, int]
    target: float
    measured: float
    folder: Path

    @property
    def refused(self) -> bool:
        """Return whether the outputs miss the target; no model is written then."""
        return not self.measured <= self.target

    @property
    def formats(self) -> dict[str, str]:
        """The format of each weight that may have another; `own` where it has the model's."""
        return {name: form for layer in self.layers for name, form in layer.formats.items()}

    def __repr__(self) -> str:
        return f"ShardedPrecision({len(self.layers)} layers, error {self.measured:.3g}, target {self.target:.3g})"

    def __str__(self) -> str:
        return "\n".join([self._headline(), *(f"  {' '.join(row)}" for row in self._rows())])

    def _headline(self) -> str:
        state = "missed: no model is written" if self.refused else f"met: the model is in {self.folder}"
        return f"error of the outputs {self.measured:.3g} on the sample, target {self.target:.3g}, {state}"

    def _rows(self) -> list[list[str]]:
        rows = []
        for layer in self.layers:
            counts = ", ".join(f"{count} in {form}" for form, count in Counter(layer.formats.values()).items())
            size = f"{layer.bytes:,.0f} of {layer.original_bytes:,.0f} bytes"
            rows.append([layer.name, counts, size, f"error {layer.error:.2g}"])
        return rows

    def _repr_html_(self) -> str:
        table = NotebookTable(("layer", "weights", "size", "error so far"), self._rows())
        return notebook_html(self._headline(), "bad" if self.refused else "good", table)

    def data(self) -> dict[str, Any]:
        """For JSON."""
        found = {"found": not self.refused, "measured": self.measured, "target": self.target}
        return {**found, "layers": [asdict(layer) for layer in self.layers]}


@reporting("capturing the model …")
def precision(
    model: ShardedModel,
    sample: Any,
    folder: str | Path,
    target: float = 1e-2,
    formats: Sequence[str] = ("int8", "int4/group128"),
    margin: float = 1.0,
    progress: Progress | None = None,
) -> ShardedPrecision:
    """Finds formats, and writes the model to the folder in the layout of compressed-tensors, a file for each layer.

    target: root mean square error of the outputs on the sample, relative to theirs. margin: how many times smaller errors of layers must
    be. A run that was ended goes on where it was, if it is started again alike. Raises UsageError, ModelError.
    """
    settings = _checked(target, margin, formats)
    args, kwargs = call_of(model, sample)
    chain = chain_of(model, args, kwargs)
    first = first_values(chain, args, kwargs)
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()) and not (folder / WORK).exists():
        raise UsageError(f"{folder}: the folder is not empty; choose a new one")
    identity = [model.checkpoint.identity(), model.config, digest_of(first), [segment.digest for segment in chain.segments], settings]
    journal = Journal(folder / WORK, identity)
    linear = _linear_weights(model, chain)
    shares = _shares(chain, linear, model)
    for place, segment in enumerate(chain.segments[len(journal.done) :], len(journal.done)):
        tell(f"layers: {place + 1} of {len(chain.segments)}, {segment.name} …")
        true, ours = separated(journal.values(joined(first, first)))
        state = model.read([name for name in segment.state if name not in chain.constants]) | chain.constants
        allowed = target / margin * math.sqrt(shares[place])
        solver = _Layer(segment, state, true, ours, {name for name in segment.state if name in linear})
        found, true, ours, stored = solver.solve(formats, allowed)
        names = [name for name in segment.state if name not in chain.constants]
        write_tensors(folder / shard_name(place, len(chain.segments)), tensors_of(model, names, stored, _written(chain, place)))
        journal.add(asdict(found), joined(true, ours))
        del solver, state, stored
        return_free_memory()
    true, ours = separated(journal.values({}))
    measured = relative_error(ours, true, chain.results)
    layers = tuple(LayerFormats(**done) for done in journal.done)
    result = ShardedPrecision(layers, chain.repeats(), target, measured, folder)
    if result.refused:
        for place in range(len(chain.segments)):
            (folder / shard_name(place, len(chain.segments))).unlink(missing_ok=True)
    else:
        finish(model, folder, result.formats, len(chain.segments), _written(chain, len(chain.segments)))
    journal.remove()
    return result


def _checked(target: float, margin: float, formats: Sequence[str]) -> list[Any]:
    """The settings. Raises UsageError for ones that are not possible."""
    if not 0 < target < math.inf or not 1 <= margin < math.inf:
        raise UsageError("the target is a number above 0, and the margin one from 1")
    for form in formats:
        stored = stored_format(form)
        integers = isinstance(stored, Granular) and isinstance(stored.element, Fixed) and is_for_weights(stored)
        if not integers or (isinstance(stored, Granular) and stored.along is Along.TENSOR):
            raise UsageError(f"{form} is no format of integers by rows or groups; models in shards take int8, int4/group128 and the like")
    return [target, margin, list(formats)]


def _linear_weights(model: ShardedModel, chain: Chain) -> set[str]:
    """Weights of linear layers that nothing else reads, under one name only."""
    readers: dict[str, set[Any]] = {}
    for segment in chain.segments:
        nodes = [node for node in segment.graph.nodes if node.op == "placeholder"][len(segment.values) :]
        for name, node in zip(segment.state, nodes, strict=True):
            readers.setdefault(name, set()).update((user.target, user.args.index(node)) for user in node.users)
    counts: dict[int, int] = {}
    for _, tensor in model.module.named_parameters(remove_duplicate=False):
        counts[id(tensor)] = counts.get(id(tensor), 0) + 1
    modules = {f"{path}.weight": module.weight for path, module in model.module.named_modules() if isinstance(module, torch.nn.Linear)}
    alone = {name for name, weight in modules.items() if counts[id(weight)] == 1 and model.sources.get(name) == name}
    return {name for name, by in readers.items() if name in alone and by == {(LINEAR, 1)}}


def _shares(chain: Chain, linear: set[str], model: ShardedModel) -> list[float]:
    """By segment the part of the squared error that may be used after it: that of the weights up to there."""
    sizes = [sum(math.prod(model.checkpoint.tensors[name].shape) for name in segment.state if name in linear) for segment in chain.segments]
    total = sum(sizes) or 1
    return [sum(sizes[: place + 1]) / total for place in range(len(sizes))]


def _written(chain: Chain, place: int) -> set[str]:
    """Tensors that files of earlier segments have."""
    return {name for segment in chain.segments[:place] for name in segment.state}


class _Layer:
    """One segment, its weights and the values before it, of the original and in formats."""

    def __init__(self, segment: Segment, state: Values, true: Values, ours: Values, weights: set[str]) -> None:
        self.segment, self.state, self.true, self.ours = segment, state, true, ours
        self.weights = sorted(weights)
        self.runs = 0

    def solve(self, formats: Sequence[str], allowed: float) -> tuple[LayerFormats, Values, Values, dict[str, PackedRows]]:
        """Formats of the layer, the values after it, and the tensors of its weights in formats."""
        rated = _Rated(self.segment, self.weights)
        after = run_segment(rated, self.segment, self.true, self.state)
        shown = [name for name in self.segment.results if name in after]
        candidates: dict[str, list[Candidate]] = {}
        for name in self.weights:
            weight, inputs = self.state[name], rated.inputs.pop(name)
            own: Candidate = (0.0, weight.nbytes, _OWN, None)
            candidates[name] = [own, *_candidates(weight, inputs, formats)]
            return_free_memory()
        limits = sorted({0.0, *(error for found in candidates.values() for error, *_ in found)})
        low, high = 0, len(limits) - 1
        best, chosen = self._run_with(candidates, limits[0]), limits[0]
        # errors of the layer grow with those of its weights; what is taken was run
        while low < high:
            middle = (low + high + 1) // 2
            tried = self._run_with(candidates, limits[middle])
            if relative_error(tried, after, shown) <= allowed:
                low, best, chosen = middle, tried, limits[middle]
            else:
                high = middle - 1
        taken = {name: _cheapest(found, chosen) for name, found in candidates.items()}
        found = LayerFormats(
            self.segment.name, {name: form for name, (_, _, form, _) in taken.items()}, sum(size for _, size, *_ in taken.values()),
            sum(self.state[name].nbytes for name in self.weights), relative_error(best, after, shown), allowed, self.runs,
        )  # fmt: skip
        return found, after, best, {name: tensor for name, (*_, tensor) in taken.items() if tensor is not None}

    def _run_with(self, candidates: Mapping[str, list[Candidate]], limit: float) -> Values:
        self.runs += 1
        stored = {name: tensor for name, found in candidates.items() if (tensor := _cheapest(found, limit)[3]) is not None}
        return run_segment(SegmentRun(self.segment.graph), self.segment, self.ours, self.state | stored)


def _cheapest(found: list[Candidate], limit: float) -> Candidate:
    return min((one for one in found if one[0] <= limit), key=lambda one: (one[1], one[0]))


def _candidates(weight: torch.Tensor, inputs: torch.Tensor, formats: Sequence[str]) -> list[Candidate]:
    """Error of the products, bytes, format and pieces of a weight in each format that fits it."""
    if not bool(weight.isfinite().all()):
        return []
    fitting = [form for form in formats if weight.shape[1] % (_granular(form).size or 1) == 0]
    made = {form: RowPacker(weight, form) for form in fitting}
    off, size = dict.fromkeys(fitting, 0.0), 0.0
    inputs = inputs.float()
    for rows in row_pieces(weight.shape):
        part = weight[rows].float()
        true = inputs @ part.T
        size += float(true.double().square().sum())
        for form in fitting:
            piece = made[form].add(rows)
            off[form] += float((inputs @ piece.dense(torch.float32).T - true).double().square().sum())
    found: list[Candidate] = []
    for form, packer in made.items():
        error = math.sqrt(off[form] / size) if size else 0.0
        found.append((error, stored_bytes(weight.shape, form), _granular(form).name, PackedRows(tuple(packer.pieces))))
    return found


def _granular(form: str) -> Granular:
    stored = stored_format(form)
    assert isinstance(stored, Granular)
    return stored


class _Rated(SegmentRun):
    """A run that keeps a part of the inputs of linear layers by the names of their weights."""

    def __init__(self, segment: Segment, weights: Sequence[str]) -> None:
        super().__init__(segment.graph)
        self.inputs: Values = {}
        placeholders = [node for node in segment.graph.nodes if node.op == "placeholder"][len(segment.values) :]
        self._names = {node: name for node, name in zip(placeholders, segment.state, strict=True) if name in weights}

    def run_node(self, n: fx.Node) -> Any:
        """Result of a node."""
        name = self._names.get(n.args[1]) if n.target is LINEAR else None
        if name is not None:
            inputs = self.fetch_args_kwargs_from_env(n)[0][0]
            rows = inputs.reshape(-1, inputs.shape[-1])
            spread = rows[torch.linspace(0, len(rows) - 1, min(_ROWS, len(rows))).long()]
            self.inputs[name] = torch.cat([self.inputs[name], spread]) if name in self.inputs else spread
        return super().run_node(n)
