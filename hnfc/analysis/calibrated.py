"""Values of a model on samples, and the effect on the outputs of rounding each of them: an estimate, not a bound.

The sensitivity of an output to a value v comes from one backward pass. Its elements are taken to be rounded independently of each other,
by u·|v| at most, uniformly. With random signs on the outputs, Σ (∂/∂v·v)² is then the expected square of what the outputs move, over u²
and the variance 1/3 of a uniform number (Hutchinson's estimator of the norm of a Jacobian, 1990). What rounding contributes adds up as
independent variances do.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from xdsl.ir import Operation, SSAValue

from hnfc.analysis.observed import Observed, observe
from hnfc.analysis.outputs import TOGETHER, Outputs
from hnfc.analysis.perturbation import NATIVE, least, moved_square, moved_square_saturated, square_sum, without_lowest
from hnfc.backend.fx import raise_graph
from hnfc.core.errors import ModelError
from hnfc.dialects.formats import Float
from hnfc.dialects.num.base import NumOp
from hnfc.dialects.num.constant import ConstantOp, WeightOp
from hnfc.dialects.num.opaque import OpaqueOp
from hnfc.dialects.types import ElementFormat, format_of
from hnfc.formats.named import format_named
from hnfc.formats.scaled import MASK, SCALABLE, exponent_for, saturated_name, scaled_name
from hnfc.frontend.torch_mlir import Imported

_COMPUTED = {"bf16": {"bf16", "fp8_e4m3fn", "fp8_e5m2"}, "fp16": {"fp16"}}
"""The narrow formats that operations compute in, with those whose values make them do so."""
_VARIANCE = 1 / 3
"""Of a number between -1 and 1, all equally likely."""
_STRIDE = 104_729
"""Between the seeds of the signs of outputs that are requested one by one."""
_MOST_KEPT, _LEAST_KEPT = 2**12, 2**8
"""Elements of a value, evenly spaced, that are kept for counting: of all samples together, and of each at least."""


@dataclass
class Calibration:
    """Observed values, by the values of the `num` function; rms: the size of the outputs; nodes: the places of values in the FX graph."""

    values: dict[SSAValue, Observed]
    rms: float
    samples: int
    nodes: dict[SSAValue, int] = field(default_factory=dict)
    dtypes: dict[int, torch.dtype] = field(default_factory=dict)
    """The type of each node that is a tensor, by its place."""
    outputs: dict[int, float] = field(default_factory=dict)
    """The size of each output, where they are requested one by one."""
    lacking: set[tuple[int, str]] = field(default_factory=set)
    """The places of operations in the FX graph, with formats that torch cannot do them in."""

    def contribution(self, value: SSAValue, unit_roundoff: float) -> float:
        """Perturbation of the outputs (root mean square) by the rounding of an operation's result; 0 where it rounds nothing."""
        return self.values[value].sensitivity * unit_roundoff if rounds(value) else 0.0

    def error(self, formats: Mapping[SSAValue, ElementFormat] | None = None) -> float:
        """The estimated root mean square error of the outputs where every value is rounded to the format it is in, or to a given one."""
        total = 0.0
        given = formats or {}
        for value, observed in self.values.items():
            form = given.get(value) or format_of(value.type)
            # what a model is given is rounded only where it is put into another format
            if form is not None and (rounds(value) or (value in given and is_source(value))):
                total += (observed.sensitivity * form.unit_roundoff) ** 2
        return math.sqrt(total)


def rounds(value: SSAValue) -> bool:
    """Return whether an operation rounded the value: by about one unit, in practice, whatever is guaranteed of a function."""
    owner = value.owner
    if not isinstance(owner, NumOp) or is_source(value):
        return False
    return not owner.FACTS.exact and not owner.FACTS.moves


def is_source(value: SSAValue) -> bool:
    """Return whether the model is given the value: an input, a weight or a constant."""
    return not isinstance(value.owner, Operation) or isinstance(value.owner, ConstantOp | WeightOp)


def calibrate(
    imported: Imported,
    samples: Sequence[Sequence[torch.Tensor]],
    function: str = "main",
    probes: int = 1,
    formats: Sequence[str] = (),
    elementwise: bool = False,
    raised: tuple[fx.GraphModule, Mapping[Any, Any]] | None = None,
    outputs: Outputs = TOGETHER,
    headroom: float = 2.0,
) -> Calibration:
    """Runs the function on samples (tensors in the order of its arguments), forward and backward. Raises ModelError.

    probes: backward passes for each sample; more make sensitivities less random, by the square root of their number.
    formats: what to try each value in, one at a time: to first order, by the derivative times what the rounding does to each element.
    raised: the function as a graph, and what its values became in it, if that is there already.
    elementwise: outputs count by how far they move relative to themselves, each element, and not in their own units.
    outputs: which results count in units of their own norms, so that a small one matters as much as a large one; and of which it is found
    how values move each of them, with a backward pass for each. headroom: how much larger values may become where a scale is chosen.
    """
    if not samples:
        raise ModelError("a calibration needs at least one sample of the inputs")
    root, graph, nodes = _raised(imported, function) if raised is None else (raised[0], raised[0].graph, raised[1])
    wanted = {node: value for value, torch_value in imported.values.items() if isinstance(node := nodes.get(torch_value), fx.Node)}
    place = {node: index for index, node in enumerate(graph.nodes)}
    calibration = Calibration({}, 0.0, len(samples), {value: place[node] for node, value in wanted.items()})
    squares: dict[tuple[int | None, SSAValue, str], float] = {}
    tried: Counter[tuple[SSAValue, str]] = Counter()
    sizes: dict[int | None, float] = {}
    counts: dict[int | None, int] = {}
    kept = max(_MOST_KEPT // len(samples), _LEAST_KEPT)
    for index, sample in enumerate(samples):
        run = _Watched(root, graph, wanted, calibration.values, formats, elementwise, kept, headroom)
        results = run.results(sample)
        calibration.dtypes.update({place[node]: dtype for node, dtype in run.dtypes.items()})
        for node, form in run.lacking:
            # of an operation with several results these are the values
            parts = [user for user in node.users if user.target is operator.getitem]
            calibration.lacking.update((place[n], form) for n in (node, *parts))
        groups = _grouped(results, outputs)
        for output, floats in groups.items():
            for o, at in floats:
                wide = o.detach().double()
                size = float(torch.where(torch.isinf(wide), 0.0, wide).square().sum())
                for key, elements in {output: o.numel(), None: outputs.count(at, o.numel())}.items():
                    sizes[key] = sizes.get(key, 0.0) + size
                    counts[key] = counts.get(key, 0) + elements
        passes = [(output, probe) for probe in range(probes) for output in groups]
        for output, probe in passes:
            seed = 1 + index * probes + probe + _STRIDE * (0 if output is None else output + 1)
            weighted = [(o, outputs.weight(at) if output is None else 1.0) for o, at in groups[output]]
            shares = {output: 1.0, None: 1.0 if output is None else outputs.weight(groups[output][0][1]) ** 2}
            moved = run.sensitivities(weighted, seed, (output, probe) != passes[-1])
            tried.update(moved.keys())
            for (value, form), square in moved.items():
                for key, share in shares.items():
                    squares[key, value, form] = squares.get((key, value, form), 0.0) + share * square / probes
    for (output, value, form), square in squares.items():
        reach = calibration.values[value].reach(output)
        if form:
            # a scale is not tried before the first sample that needs one: the others are taken to be like those after it
            part = tried[value, form] / tried[value, formats[0]]
            reach.moved[form] = math.sqrt(square / part / max(counts[output], 1))
        else:
            reach.sensitivity = math.sqrt(_VARIANCE * square / max(counts[output], 1))
    rms = {output: 1.0 if elementwise else math.sqrt(sizes[output] / max(count, 1)) for output, count in counts.items()}
    together = rms.pop(None, 1.0 if elementwise else 0.0)
    calibration.rms = 1.0 if outputs.norms else together
    calibration.outputs = {output: size for output, size in rms.items() if output is not None}
    return calibration


def _raised(imported: Imported, function: str) -> tuple[torch.nn.Module, fx.Graph, Mapping[Any, Any]]:
    nodes: dict[Any, Any] = {}
    return *raise_graph(imported.torch, function, nodes), nodes


def _grouped(results: Sequence[Any], outputs: Outputs) -> dict[int | None, list[tuple[torch.Tensor, int]]]:
    """The results of floating-point numbers with their places: those that are looked at apart each for itself, and all others."""
    floats = {place: o for place, o in enumerate(results) if isinstance(o, torch.Tensor) and o.is_floating_point()}
    alone: dict[int | None, list[tuple[torch.Tensor, int]]] = {
        i: [(floats[place], place)] for i, place in enumerate(outputs.apart) if place in floats
    }
    others = [(output, place) for place, output in floats.items() if place not in outputs.apart]
    return alone | {None: others} if others else alone


_MORE = 4
"""Times as many operations as in float32 are a sign that torch has no kernel."""


class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Number of operations that run."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        self.count += 1
        return function(*args, **(kwargs or {}))


class _Watched(fx.Interpreter):
    """A graph that notes what its values are, and which of them take part in derivatives."""

    def __init__(
        self, root: torch.nn.Module, graph: fx.Graph, wanted: Mapping[fx.Node, SSAValue], values: dict[SSAValue, Observed],
        formats: Sequence[str], elementwise: bool, kept: int, headroom: float,
    ) -> None:  # fmt: skip
        super().__init__(root, graph=graph)
        self.wanted, self.values, self.formats, self.elementwise, self.kept = wanted, values, formats, elementwise, kept
        self.headroom = headroom
        self.tensors: list[tuple[SSAValue, torch.Tensor]] = []
        self.dtypes: dict[fx.Node, torch.dtype] = {}
        # what is only stored in 8 bits is computed with in bfloat16
        self.narrow = [form for form, users in _COMPUTED.items() if users & set(formats)]
        self.lacking: list[tuple[fx.Node, str]] = []

    def results(self, sample: Sequence[torch.Tensor]) -> list[Any]:
        with torch.enable_grad():
            return list(self.run(*sample))

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        value = self.wanted.get(n)
        if self.narrow and n.op == "call_function" and (value is None or isinstance(value.owner, OpaqueOp)):
            self._try_kernels(n)
        if isinstance(result, torch.Tensor):
            self.dtypes[n] = result.dtype
        if value is None or not isinstance(result, torch.Tensor) or not result.is_floating_point():
            return result
        if not result.requires_grad:
            result = result.detach().requires_grad_(True)
        observe(self.values.setdefault(value, Observed()), result.detach(), self.kept)
        self.tensors.append((value, result))
        return result

    def _try_kernels(self, n: fx.Node) -> None:
        """Note where torch lacks this operation, which hnfc does not know, in narrow types, or makes it of many others."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        floats = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor) and t.is_floating_point()]
        if not floats or n.target is operator.getitem:
            return
        with torch.no_grad(), Counting() as whole:
            n.target(*args, **kwargs)  # type: ignore[operator]
        wide = whole.count
        for form in self.narrow:
            given = pytree.tree_map(partial(_in_type, NATIVE[form]), (args, kwargs))
            try:
                with torch.no_grad(), Counting() as narrow:
                    n.target(*given[0], **given[1])  # type: ignore[operator]
                if narrow.count > _MORE * max(wide, 1):
                    self.lacking.append((n, form))
            except Exception:  # whatever an operation of somebody else raises
                self.lacking.append((n, form))

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is torch.ops.aten._native_batch_norm_legit_no_training.default:
            return _normalized(*args)
        try:
            return super().call_function(target, args, kwargs)
        except RuntimeError:
            # integers have no derivatives, and some operations fail where they should give one
            with torch.no_grad():
                result = super().call_function(target, args, kwargs)
            if isinstance(result, torch.Tensor) and not result.is_floating_point():
                return result
            raise

    def sensitivities(self, outputs: Sequence[tuple[torch.Tensor, float]], seed: int, again: bool) -> dict[tuple[SSAValue, str], float]:
        """Σ (∂/∂v·v)² of every value, by the outputs with random signs times weights; and by the name of each format
        Σ (∂/∂v·(round(v) - v))²."""
        reached = [output for output, _ in outputs if output.requires_grad]
        if not reached:
            return {}
        generator = torch.Generator().manual_seed(seed)
        signs = [(torch.randint(0, 2, o.shape, generator=generator) * 2 - 1).to(o.dtype).to(o.device) for o in reached]
        signs = [sign * weight for sign, weight in zip(signs, (w for o, w in outputs if o.requires_grad), strict=True)]
        if self.elementwise:
            signs = [sign / torch.where(o == 0, torch.ones_like(o), o.abs()).detach() for sign, o in zip(signs, reached, strict=True)]
        try:
            gradients = torch.autograd.grad(reached, [t for _, t in self.tensors], signs, retain_graph=again, allow_unused=True)
        except (NotImplementedError, RuntimeError) as error:
            raise ModelError(f"torch cannot say how roundings move the outputs: {error}") from error
        found: dict[tuple[SSAValue, str], float] = {}
        for (value, tensor), gradient in zip(self.tensors, gradients, strict=True):
            plain = tensor.detach()
            if gradient is not None:
                found[value, ""] = square_sum(gradient * without_lowest(plain, self.values[value].magnitude))
            for form in self.formats:
                found[value, form], vanishes = moved_square(plain, gradient, form)
                if vanishes:
                    self.values[value].vanishing.add(form)
                    self.values[value].least = min(self.values[value].least, least(plain))
                if found[value, form] == math.inf and self.values[value].magnitude >= MASK and isinstance(format_named(form), Float):
                    self.values[value].saturated.add(form)
                if form in self.values[value].saturated:
                    name = saturated_name(form)
                    found[value, name] = moved_square_saturated(plain, gradient, form)
                    if vanishes:
                        self.values[value].vanishing.add(name)
                if form in SCALABLE and self._wants_scale(found, value, form, vanishes):
                    self._try_scaled(found, value, plain, gradient, form)
        return found

    def _wants_scale(self, found: Mapping[tuple[SSAValue, str], float], value: SSAValue, form: str, vanishes: bool) -> bool:
        """Return whether the value nearly overflows, or small elements lose more than rounding takes off normal numbers."""
        exponent = exponent_for(self.values[value].magnitude, form, self.headroom)
        subnormal = vanishes or found[value, form] > found.get((value, ""), 0.0) * format_named(form).unit_roundoff ** 2
        return form in self.values[value].scales or exponent > 0 or (exponent < 0 and subnormal)

    def _try_scaled(
        self, found: dict[tuple[SSAValue, str], float], value: SSAValue, tensor: torch.Tensor, gradient: torch.Tensor | None, form: str
    ) -> None:
        """The same with a scale for the whole value, which is chosen on the first sample that needs one, and anew where a later sample
        is larger."""
        known = self.values[value].scales
        known[form] = max(known.get(form, -126), exponent_for(self.values[value].magnitude, form, self.headroom))
        scale = 2.0 ** known[form]
        moved, vanishes = moved_square(tensor / scale, None if gradient is None else gradient * scale, form)
        name = scaled_name(form, known[form])
        found[value, name] = moved
        if vanishes:
            self.values[value].vanishing.add(name)


def _in_type(dtype: torch.dtype, value: Any) -> Any:
    return value.detach().to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _normalized(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, mean: torch.Tensor, variance: torch.Tensor, momentum: float,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Batch normalization with given statistics; torch's own has no derivative in these."""
    scale = torch.rsqrt(variance + eps) if weight is None else weight * torch.rsqrt(variance + eps)
    shift = -mean * scale if bias is None else bias - mean * scale
    shape = (1, -1, *(1,) * (x.dim() - 2))
    return x * scale.reshape(shape) + shift.reshape(shape), x.new_empty(0), x.new_empty(0)
