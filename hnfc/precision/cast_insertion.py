"""A graph in the formats of an assignment: every value is stored in its own, every operation computes in the widest of those it meets.

An operation on bfloat16 values that gives a bfloat16 value runs in bfloat16, with whatever accumulation its kernel has; where it meets
float32, or must give it, its operands are widened first. Casts are torch's, so that the graph can be written as MLIR.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx
from torch._subclasses import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.utils import _pytree as pytree
from torch_mlir import ir

from hnfc.backend.torch_mlir import verify
from hnfc.core.errors import UsageError
from hnfc.formats.granular import WITH_SCALES, Granular
from hnfc.formats.named import format_named
from hnfc.formats.packed import unpacked
from hnfc.formats.scaled import MASK, ceiling, largest, saturated_name, split, stored_format
from hnfc.formats.torch_rounding import stored_values
from hnfc.frontend.pytorch import import_graph
from hnfc.precision.assignment import Assignment
from hnfc.precision.open_sizes import is_made_in, is_size, name_of, names_of
from hnfc.precision.values import PrecisionSites

DTYPES: dict[str, torch.dtype] = {
    "fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp8_e4m3fn": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
}  # fmt: skip
"""The formats that torch stores values in. Values in others are rounded to them, and kept in float32."""
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_ONLY_STORED = (torch.float8_e4m3fn, torch.float8_e5m2)


def is_plain_dtype(form: str) -> bool:
    """Return whether a type that torch computes in stores the numbers as they are."""
    base = split(form)[0] if ceiling(form) is not None else form
    return base in DTYPES and DTYPES[base] not in _ONLY_STORED


def stored_in(x: torch.Tensor, form: str) -> torch.Tensor:
    """The values that a format which torch lacks would store, in the type that they have."""
    if isinstance(x, fx.Proxy):
        # a graph is traced when it is unpickled
        return x.tracer.create_proxy("call_function", stored_in, (x, form), {})
    return stored_values(x, format_named(form))


class _StraightCast(torch.autograd.Function):
    """Values in a narrower type and back, through which gradients pass unchanged."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return x.to(dtype).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient, None


def stored_as(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The tensor in a type of 8 bits; in its own type with the same values where it has a gradient, which would lose its small numbers."""
    if isinstance(x, fx.Proxy):
        return x.tracer.create_proxy("call_function", stored_as, (x, dtype), {})
    if torch.is_grad_enabled() and x.requires_grad:
        result: torch.Tensor = _StraightCast.apply(x, dtype)  # type: ignore[no-untyped-call]
        return result
    return x.to(dtype)


def cast_graph(
    graph: fx.GraphModule,
    formats: Mapping[int, str],
    dtypes: Mapping[int, torch.dtype],
    results: Sequence[torch.dtype | None] | None = None,
    lacking: Collection[tuple[int, str | None]] = (),
    stored: Collection[int] = (),
) -> fx.GraphModule:
    """A new graph with casts. formats: by the places of nodes; dtypes: of all nodes that are tensors. Results keep their types, or have
    those that are given. lacking: operations, with the formats that torch cannot do them in. stored: arguments in their formats."""
    return _Casting(graph, formats, dtypes, results, lacking, stored).run()


@dataclass
class _Casting:
    graph: fx.GraphModule
    formats: Mapping[int, str]
    dtypes: Mapping[int, torch.dtype]
    results: Sequence[torch.dtype | None] | None
    lacking: Collection[tuple[int, str | None]]
    stored: Collection[int]

    def run(self) -> fx.GraphModule:
        self.places = {node: index for index, node in enumerate(self.graph.graph.nodes)}
        self.new = fx.Graph()
        self.made: dict[fx.Node, fx.Node] = {}
        self.types: dict[fx.Node, torch.dtype] = {}
        self.casts: dict[tuple[fx.Node, torch.dtype], fx.Node] = {}
        self.scales: dict[fx.Node, int] = {}
        self.free: set[fx.Node] = set()
        """Values whose scales are found, and views of them: they are computed with in the type of the others."""
        self.several: dict[fx.Node, torch.dtype] = {}
        """Compute format of an operation with several results."""
        for index, node in enumerate(self.graph.graph.nodes):
            if node.op == "output":
                self.new.output(self._returned(node.args[0]))
            elif node.op == "call_function":
                self._call(index, node)
            else:
                self._store(index, node, self.new.node_copy(node, lambda n: self.made[n]), self.dtypes.get(index))
        self._unpack_narrow()
        return fx.GraphModule(self.graph, self.new)

    def _unpack_narrow(self) -> None:
        """Unpack what is only cast to one type in that type."""
        for node in [n for n in self.new.nodes if n.target is unpacked]:
            within, casts = [node], []
            for value in within:
                casts += [user for user in value.users if user not in self.free]
                within += [user for user in value.users if user in self.free]
            wanted = {user.args[1] for user in casts if user.target is torch.ops.aten.to.dtype}
            if len(wanted) == 1 and all(user.target is torch.ops.aten.to.dtype for user in casts):
                node.args = (node.args[0], wanted.pop())
                for user in casts:
                    user.replace_all_uses_with(user.all_input_nodes[0])
                    self.new.erase_node(user)

    def _returned(self, whole: Any) -> Any:
        if self.results is None:
            return fx.node.map_arg(whole, lambda n: self.cast(self.made[n], self.original(n)))
        pairs = zip(whole, self.results, strict=True)
        return tuple(self.cast(self.made[n], dtype) if isinstance(n, fx.Node) else n for n, dtype in pairs)

    def original(self, node: fx.Node) -> torch.dtype | None:
        return self.dtypes.get(self.places[node])

    def cast(self, value: fx.Node, dtype: torch.dtype | None) -> fx.Node:
        """The value in another floating-point type; made once."""
        exponent = self.scales.get(value, 0)
        if dtype is None or not dtype.is_floating_point or (self.types.get(value, dtype) == dtype and not exponent):
            return value
        key = value, dtype
        if key not in self.casts:
            wide = torch.promote_types(dtype, torch.float32) if exponent else dtype
            made = self.new.call_function(torch.ops.aten.to.dtype, (value, wide))
            if exponent:
                made = self.new.call_function(torch.ops.aten.mul.Scalar, (made, 2.0**exponent))
                made = self.new.call_function(torch.ops.aten.to.dtype, (made, dtype)) if wide != dtype else made
            self.casts[key] = made
            self.types[made] = dtype
        return self.casts[key]

    def _store(self, index: int, node: fx.Node, made: fx.Node, dtype: torch.dtype | None) -> None:
        if dtype is not None and dtype.is_floating_point:
            self.types[made] = dtype
            if index in self.stored and not node.users:
                pass
            elif index in self.stored:
                base, _ = split(self.formats[index])
                if is_plain_dtype(self.formats[index]):
                    self.types[made] = DTYPES[base]
                else:
                    # what is only for storage is computed with in a type that holds it
                    wide = widest([DTYPES[base]]) if self.formats[index] in DTYPES else dtype
                    made = self.new.call_function(unpacked, (made, wide))
                    self.types[made] = wide
                self._release(made, base)
            elif index in self.formats:
                base, exponent = split(self.formats[index])
                most = ceiling(self.formats[index])
                if most is not None:
                    made = self.new.call_function(torch.ops.aten.clamp.default, (made, -most, most))
                    self.types[made] = dtype
                if exponent:
                    made = self.new.call_function(torch.ops.aten.mul.Scalar, (made, 2.0**-exponent))
                    self.types[made] = dtype
                if base in DTYPES and DTYPES[base] in _ONLY_STORED:
                    made = self.new.call_function(stored_as, (made, DTYPES[base]))
                    self.types[made] = DTYPES[base]
                elif base in DTYPES and is_made_in(made, DTYPES[base]):
                    self.types[made] = DTYPES[base]
                elif base in DTYPES:
                    made = self.cast(made, DTYPES[base])
                else:
                    made = self.new.call_function(stored_in, (made, base))
                    self.types[made] = dtype
                self._release(made, base)
                if exponent:
                    self.scales[made] = exponent
        self.made[node] = made

    def _release(self, made: fx.Node, form: str) -> None:
        if isinstance(stored_format(form), Granular):
            self.free.add(made)

    def _call(self, index: int, node: fx.Node) -> None:
        if node.target is _ASSERTION:
            return
        if is_repetition(node) and self._repeats(index, node.args[0]):
            self._again(index, node, node.args[0])
            return
        dtype = self.dtypes.get(index)
        if node.target is operator.getitem:
            whole = node.all_input_nodes[0]
            given = self.several.get(whole, dtype) if dtype is not None and dtype.is_floating_point else dtype
            self._store(index, node, self.new.node_copy(node, lambda n: self.made[n]), given)
            return
        operands = [n for n in node.all_input_nodes if (d := self.original(n)) is not None and d.is_floating_point]
        own = dtype if dtype is not None and index in self.formats and getattr(node.target, "namespace", "") == "aten" else None
        named = [a for a in (*node.args, *node.kwargs.values()) if isinstance(a, torch.dtype)]
        # a type that the model names for what has a format is that of the reference, and gives way to it
        explicit = any(a != own for a in named)
        # what is stored with a scale is computed with in float32, which holds it
        bound = [n for n in operands if self.made[n] not in self.free]
        wanted = [torch.float32 if self.made[n] in self.scales else self.types[self.made[n]] for n in bound]
        results = [index] if dtype is not None else [self.places[user] for user in node.users if user.target is operator.getitem]
        for form in (self.formats[i] for i in results if i in self.formats and self.dtypes[i].is_floating_point):
            base, exponent = split(form)
            if not isinstance(stored_format(form), Granular):
                wanted.append(torch.float32 if exponent else DTYPES.get(base, torch.float32))
        if not wanted:
            wanted = [self.types[self.made[n]] for n in operands]
        # what nothing is given to has its own type
        computing = None if explicit or not operands else widest(wanted)
        if computing is not None and ((index, _NAMES.get(computing)) in self.lacking or _exceeds(node, computing)):
            computing = torch.float32

        def operand(n: fx.Node) -> fx.Node:
            # a scale is undone also where an operation names what it computes in
            given = torch.float32 if computing is None and self.made[n] in self.scales else computing
            return self.cast(self.made[n], given) if n in operands else self.made[n]

        made = self.new.node_copy(node, operand)
        if computing is not None:
            instead = {own: computing} if own is not None else {}
            made.args = fx.node.map_aggregate(made.args, lambda value: _within(_replaced(value, instead), computing))
            made.kwargs = {name: _replaced(value, instead) for name, value in made.kwargs.items()}
        if dtype is None and computing is not None:
            self.several[node] = computing
        self._store(index, node, made, dtype if computing is None or dtype is None or not dtype.is_floating_point else computing)
        if operands and not bound and not any(i in self.formats for i in results):
            self.free.add(self.made[node])

    def _repeats(self, index: int, source: Any) -> bool:
        """Return whether what repeats another value has no format of its own."""
        before = self.formats.get(self.places[source])
        return before is None or self.formats.get(index, before) == before

    def _again(self, index: int, node: fx.Node, source: Any) -> None:
        made = self.made[source]
        if index in self.formats and self.places[source] not in self.formats:
            self._store(index, node, made, self.types.get(made))
        else:
            self.made[node] = made


def is_repetition(node: fx.Node) -> bool:
    """Return whether its operand can stand for it: it is a copy, or a product with 1. Nothing in a graph is written to, and no operation
    reads how a tensor lies. A copy in another order that several operations read is made once here, and would be by each of them."""
    aten = torch.ops.aten
    copies = node.target is aten.clone.default
    if not copies and not (node.target is aten.mul.Scalar and type(node.args[1]) is float and node.args[1] == 1):
        return False
    source = node.args[0]
    assert isinstance(source, fx.Node)
    same = not copies or node.kwargs.get("memory_format") in (None, torch.preserve_format) or len(node.users) == 1
    return same and source.op == "call_function" and all(user.op != "output" for user in (*node.users, *source.users))


def _exceeds(node: fx.Node, dtype: torch.dtype) -> bool:
    """Return whether an operation is given a number, and no mask, that the type cannot hold: torch takes none that overflows."""
    given = (value for value in pytree.tree_leaves((node.args, node.kwargs)) if isinstance(value, int | float))
    return any(torch.finfo(dtype).max < abs(value) < MASK for value in given)


def _replaced(value: Any, instead: Mapping[torch.dtype, torch.dtype]) -> Any:
    return instead.get(value, value) if isinstance(value, torch.dtype) else value


def _within(value: Any, dtype: torch.dtype) -> Any:
    """A number that marks what does not count as the type of an operation can hold it."""
    if not isinstance(value, float) or not math.isfinite(value) or abs(value) < MASK or abs(value) <= torch.finfo(dtype).max:
        return value
    form = next(name for name, own in DTYPES.items() if own == dtype)
    return math.copysign(largest(saturated_name(form)), value)


_FACTORIES = ("zeros", "ones", "empty", "eye", "linspace", "logspace", "rand", "randn")
_OF_NUMBERS = ("full", "arange", "scalar_tensor")
"""These have the type of the numbers that they are given."""
_ASSERTION = torch.ops.aten._assert_tensor_metadata.default
"""Metadata of torch.export on the operand of a cast."""


def without_narrow_casts(graph: fx.GraphModule, wide: torch.dtype = torch.float32) -> None:
    """Casts to formats narrower than `wide` that the model makes itself become casts to it, and what it computes or makes in such formats
    is in it: formats are chosen elsewhere. Nodes stay in their places."""
    for node in graph.graph.nodes:
        if node.target is _ASSERTION:
            node.args, node.kwargs = node.args[:1], {}
        elif node.op == "call_function":
            node.args = tuple(wide if is_narrow(a, wide) else a for a in node.args)
            node.kwargs = {k: wide if is_narrow(a, wide) else a for k, a in node.kwargs.items()}
            if _makes_float32(node) and is_narrow(torch.float32, wide):
                node.kwargs = {**node.kwargs, "dtype": wide}
    graph.recompile()


def _makes_float32(node: fx.Node) -> bool:
    """Return whether it makes numbers of nothing, in torch's own type since none is named."""
    name = getattr(getattr(node.target, "_schema", None), "name", "").removeprefix("aten::")
    if node.kwargs.get("dtype") is not None or any(isinstance(a, torch.dtype) for a in node.args):
        return False
    return name in _FACTORIES or (name in _OF_NUMBERS and any(isinstance(a, float) for a in node.args))


def is_narrow(dtype: object, wide: torch.dtype) -> bool:
    return isinstance(dtype, torch.dtype) and dtype.is_floating_point and dtype.itemsize < wide.itemsize


def as_module(graph: fx.GraphModule, arguments: Sequence[torch.Tensor]) -> ir.Module:
    """The graph as the function `main` of a torch-dialect module; the arguments say what its types are, and are not computed with."""
    lacking = sorted({str(node.args[1]) for node in graph.graph.nodes if node.target is stored_in})
    if lacking:
        raise UsageError(f"torch stores no values in {', '.join(lacking)}; a model can be written with {', '.join(DTYPES)}")
    for node in graph.graph.nodes:
        if node.target is stored_as:
            node.target = torch.ops.aten.to.dtype
    graph.recompile()
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    FakeTensorProp(graph, mode).propagate(*arguments)
    module = import_graph(graph.graph)
    verify(module)
    return module


def widest(dtypes: list[torch.dtype]) -> torch.dtype:
    """The type that holds the values of all; types that are only for storage compute in bfloat16."""
    found = torch.bfloat16 if dtypes[0] in _ONLY_STORED else dtypes[0]
    for dtype in dtypes[1:]:
        found = torch.promote_types(found, torch.bfloat16 if dtype in _ONLY_STORED else dtype)
    return found


@dataclass(frozen=True)
class Casts:
    """An assignment by the places of nodes, for every graph of the same structure."""

    formats: Mapping[int, str]
    dtypes: Mapping[int, torch.dtype]
    names: tuple[str, ...]
    """The targets of the nodes that the assignment is for."""
    wide: torch.dtype | None = None
    """The model's own casts to narrower formats than this are dropped; None keeps all."""
    results: tuple[torch.dtype | None, ...] | None = None
    """The types of results, where they are not those of the reference."""
    lacking: Collection[tuple[int, str | None]] = ()
    """As in PrecisionSites: these operations are done in float32."""
    stored: Collection[int] = ()
    """Arguments that are given in their formats."""

    def __call__(self, graph: fx.GraphModule) -> fx.GraphModule:
        """A graph with open sizes has these operations, and computes sizes beside them. Raises UsageError for one of others."""
        if names_of(graph) != self.names:
            return self._among_sizes(graph)
        if self.wide is not None:
            without_narrow_casts(graph, self.wide)
        return cast_graph(graph, self.formats, self.dtypes, self.results, self.lacking, self.stored)

    def _among_sizes(self, graph: fx.GraphModule) -> fx.GraphModule:
        nodes = list(graph.graph.nodes)
        own = [place for place, node in enumerate(nodes) if not is_size(node)]
        if len(own) == len(nodes) or tuple(map(name_of, (nodes[place] for place in own))) != self.names:
            raise UsageError("this call makes the model take another path than the one that formats were assigned for; analyze it too")
        moved = replace(
            self, names=names_of(graph), formats={own[place]: form for place, form in self.formats.items()},
            dtypes={own[place]: dtype for place, dtype in self.dtypes.items()},
            lacking=[(own[place], form) for place, form in self.lacking], stored=[own[place] for place in self.stored],
        )  # fmt: skip
        return moved(graph)


def casts_of(
    outcome: Assignment, sites: PrecisionSites, graph: fx.GraphModule, dtypes: Mapping[int, torch.dtype], wide: torch.dtype | None
) -> Casts:
    """An assignment to sites as one to the nodes of a graph."""
    # along other elements blocks would be others: a view is of what is stored
    nodes = {s.name: s.nodes[:1] if isinstance(stored_format(outcome.formats[s.name]), WITH_SCALES) else s.nodes for s in sites.sites}
    formats = {node: outcome.formats[name] for name, places in nodes.items() for node in places}
    return Casts(formats, dtypes, names_of(graph), wide, lacking=sites.lacking)
