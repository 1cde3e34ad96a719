"""An `nn.Module` → the torch dialect: torch.export, then torch-mlir's importer, with parameters and buffers as arguments.

Nothing of a weight but its type gets into MLIR, so a model of any size is captured without a copy.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree
from torch_mlir import ir
from torch_mlir.extras import fx_importer

from hnfc.core.errors import ModelError, UsageError
from hnfc.frontend.decompositions import decompositions_for
from hnfc.frontend.places import HNFC, TORCH, is_own, recorded
from hnfc.frontend.reading import new_context
from hnfc.frontend.signature import FixedResult, Given, Mutation, Returned, Signature, Sink, Source, State, TensorConstant, memory_of
from hnfc.frontend.torch_mlir import GRADIENT

Shapes: TypeAlias = Any
"""The form of `dynamic_shapes` that `torch.export.export` takes."""


@dataclass
class Captured:
    """A model as a function `main` of the torch dialect, and what its arguments and results are.

    structure: how inputs are flattened; output_structure: how results are put together. guards: what torch.export relied on of
    sizes that differ from call to call, as Python over `sizes[input][axis]`, inputs flattened.
    """

    module: ir.Module
    signature: Signature
    program: ExportedProgram
    structure: pytree.TreeSpec
    output_structure: pytree.TreeSpec
    guards: tuple[str, ...] = ()

    @property
    def least_size(self) -> int:
        """The least size of an axis that differs from call to call; 1 where torch.export assumed 2, which need not be so."""
        lower = [interval.lower for interval in self.program.range_constraints.values()]
        return min((0 if bound <= 0 else 1 if bound == 2 else int(bound) for bound in lower), default=0)

    @property
    def is_pure(self) -> bool:
        """Return whether all results are new: no tensor is changed."""
        return all(isinstance(sink, Returned) for sink in self.signature.results)

    @property
    def notes(self) -> list[str]:
        """Things that the graph leaves out, for the report."""
        if not self.program.graph_module.meta.get(_UNCHECKED):
            return []
        return ["arguments of torch.distributions are not checked here, as under torch.compile: NaN in place of an error"]

    @property
    def names(self) -> list[str]:
        """Name of each argument for the reader."""
        return [a.name if isinstance(a, State | Given) else f"constant_{i}" for i, a in enumerate(self.signature.arguments)]


def capture(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, dynamic_shapes: Shapes = None
) -> Captured:
    """Graph of the model on inputs like these. Raises ModelError, in torch's own words, where torch.export cannot follow it."""
    program = export(model, args, kwargs, dynamic_shapes)
    captured = from_program(program)
    captured.guards = guards_of(program, model, args, kwargs or {})
    return captured


def guards_of(program: ExportedProgram, model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """Assumptions of the graph on the sizes of its inputs. Raises ModelError where they cannot be stated."""
    code: list[str] = getattr(program, "_guards_code", None) or []
    if not code:
        return ()
    count = len(pytree.tree_leaves((tuple(args), dict(kwargs))))
    places = pytree.tree_unflatten(range(count), pytree.tree_structure((tuple(args), dict(kwargs))))
    bound = dict(inspect.signature(model.forward).bind(*places[0], **places[1]).arguments)
    paths = {f"L{pytree.keystr(path)}.size()": f"sizes[{place}]" for path, place in pytree.tree_flatten_with_path(bound)[0]}
    guards = []
    for guard in code:
        for path, size in paths.items():
            guard = guard.replace(path, size)
        if not set(compile(guard, "<guard>", "eval").co_names) <= _IN_GUARDS:
            raise ModelError(f"torch.export relies on `{guard}`, which is not about the sizes of inputs alone")
        guards.append(guard)
    return tuple(guards)


_IN_GUARDS = {"sizes", "max", "min", "abs"}


def export(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any] | None, dynamic_shapes: Shapes) -> ExportedProgram:
    """The model as a graph without side effects, of operations on as high a level as torch has them."""
    given, named = _apart(model, args, kwargs or {})
    unchecked = False

    def exported() -> ExportedProgram:
        with _quiet():
            return torch.export.export(model, given, named, dynamic_shapes=dynamic_shapes, strict=False)

    try:
        with recorded("export"):
            try:
                program = exported()
            except Exception as error:
                if not _checks_a_distribution(error):
                    raise
                unchecked = True
                with _unchecked_distributions():
                    program = exported()
            with _quiet():
                _detach_where_no_gradient_is_wanted(program.graph_module)
                _write_numbers_as_constants(program)
                functional: ExportedProgram = program.run_decompositions(decompositions_for(program.graph))
    except UsageError:
        raise
    except Exception as error:  # whatever the model's own code raises comes through here
        reason = "validate_args=True reads numbers, which no graph does; without it they are not checked"
        reason = reason if _checks_a_distribution(error) else first_line(error)
        raise ModelError(f"torch.export cannot capture {type(model).__name__}: {reason}", *_place(error)) from error
    functional.graph_module.meta[_UNCHECKED] = unchecked
    return functional


_UNCHECKED = "hnfc_unchecked"


def _checks_a_distribution(error: BaseException) -> bool:
    """Return whether torch.distributions looked at numbers to see if they are valid, which no graph does."""
    frames = traceback.extract_tb(error.__traceback__)
    return any(Path(frame.filename).parent == Path(torch.distributions.__file__).parent for frame in frames)


@contextlib.contextmanager
def _unchecked_distributions() -> Iterator[None]:
    """Distributions that take arguments as they are, as torch.compile makes them."""
    kind = torch.distributions.Distribution
    before = kind._validate_args
    kind.set_default_validate_args(False)
    try:
        yield
    finally:
        kind.set_default_validate_args(before)


def _apart(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inputs, with a copy of each tensor that shares memory with one before it or with the model: torch.export takes such for one
    value, or refuses them, and they need not be so in another call."""
    seen = {memory_of(tensor) for tensor in (*model.parameters(), *model.buffers())}

    def own(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if (memory := memory_of(value)) not in seen:
            seen.add(memory)
            return value
        return value.detach().clone().requires_grad_(value.requires_grad)

    apart: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_map(own, (tuple(args), dict(kwargs)))
    return apart


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Output of a failing torch.export, which is dropped: its exception says enough."""
    disabled, messages = logging.root.manager.disable, io.StringIO()
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stderr(messages), warnings.catch_warnings():
            # torch takes the weights of a recurrent layer, which it swaps itself, for such
            warnings.filterwarnings("ignore", r"The tensor attributes? .* assigned during export", UserWarning)
            yield
        sys.stderr.write(messages.getvalue())  # by the model itself
    finally:
        logging.disable(disabled)


def _place(error: Exception) -> tuple[str, int] | tuple[()]:
    """File and line of the innermost frame that is neither torch's nor ours."""
    found: tuple[str, int] | tuple[()] = ()
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if is_own(file):
            found = file, line
    return found


def _detach_where_no_gradient_is_wanted(module: torch.fx.GraphModule) -> None:
    """Writes what leaves a region under `torch.no_grad` as detached: torch puts regions in line and forgets what they were."""
    for node in module.graph.nodes:
        if node.target is not torch.ops.higher_order.wrap_with_set_grad_enabled or node.args[0]:
            continue
        region = getattr(module, node.args[1].target)
        output = region.graph.output_node()
        with region.graph.inserting_before(output):
            output.args = (torch.fx.node.map_arg(output.args[0], partial(_detached, region.graph)),)
        region.recompile()
    for child in module.children():
        if isinstance(child, torch.fx.GraphModule):
            _detach_where_no_gradient_is_wanted(child)


def _write_numbers_as_constants(program: ExportedProgram) -> None:
    """Writes a tensor that the model makes of one number, as `torch.tensor(1.0)`, as that number: torch lifts it out as an input."""
    targets = program.graph_signature.inputs_to_lifted_tensor_constants
    graph = program.graph
    for node in list(graph.nodes):
        made_here = node.op == "call_function" and node.target in _FRESH and node.args[0].op == "placeholder"
        tensor = program.constants.get(targets.get(node.args[0].name, "")) if made_here else None
        if not isinstance(tensor, torch.Tensor) or tensor.ndim or not (tensor.is_floating_point() or tensor.dtype in _WHOLE):
            continue
        with graph.inserting_before(node):
            options = {"dtype": tensor.dtype, "device": tensor.device, "pin_memory": False}
            number = graph.call_function(torch.ops.aten.full.default, ([], tensor.item()), options)
        number.meta = dict(node.meta)
        node.replace_all_uses_with(number)
        graph.erase_node(node)


_FRESH = (torch.ops.aten.lift_fresh_copy.default, torch.ops.aten.lift_fresh.default)
_WHOLE = (torch.int32, torch.int64)


def _detached(graph: torch.fx.Graph, value: torch.fx.Node) -> torch.fx.Node:
    if not isinstance(value.meta.get("val"), torch.Tensor):
        return value
    made = graph.call_function(torch.ops.aten.detach.default, (value,))
    made.meta = dict(value.meta)
    return made


def first_line(error: Exception) -> str:
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def from_program(program: ExportedProgram) -> Captured:
    """The torch dialect of an exported program whose graph has no side effects."""
    arguments = arguments_of(program)
    results = results_of(program)
    module = import_graph(program.graph)
    outputs = program.call_spec.out_spec
    inputs = program.call_spec.in_spec
    assert inputs is not None and outputs is not None
    return Captured(module, Signature(tuple(arguments), tuple(results)), program, inputs, outputs)


def arguments_of(program: ExportedProgram) -> list[Source]:
    """The source of each placeholder; those that stand for a number fixed at export go, since nothing uses them."""
    graph = program.graph
    placeholders = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    found: list[Source] = []
    place = 0
    for spec in program.graph_signature.input_specs:
        argument = getattr(spec.arg, "name", "")
        node = placeholders[argument]
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            assert spec.target is not None
            found.append(State(spec.target))
        elif spec.kind == InputKind.CONSTANT_TENSOR:
            assert spec.target is not None
            found.append(TensorConstant(program.constants[spec.target]))
        elif spec.kind == InputKind.USER_INPUT:
            place += 1
            if not isinstance(node.meta.get("val"), torch.Tensor | torch.SymInt):
                if node.users:
                    raise ModelError(f"the input `{argument}` is a {type(node.meta.get('val')).__name__}, which hnfc cannot follow")
                graph.erase_node(node)
                continue
            found.append(Given(place - 1, argument))
        else:
            raise ModelError(f"the model has an input of the kind {spec.kind.name}, which hnfc does not carry ({argument})")
    return found


def results_of(program: ExportedProgram) -> list[Sink]:
    """The destination of each result; fixed values leave the graph's outputs."""
    signature = program.graph_signature
    places = {spec.arg.name: i for i, spec in enumerate(s for s in signature.input_specs if s.kind == InputKind.USER_INPUT)
              if hasattr(spec.arg, "name")}  # fmt: skip
    output = next(iter(reversed(program.graph.nodes)))
    kept, sinks = [], list[Sink]()
    for spec, value in zip(signature.output_specs, output.args[0], strict=True):
        if not isinstance(value, torch.fx.Node):
            sinks.append(FixedResult(value))
            continue
        if spec.kind == OutputKind.USER_OUTPUT:
            sinks.append(Returned())
        elif spec.kind == OutputKind.BUFFER_MUTATION or spec.kind.name == "PARAMETER_MUTATION":
            assert spec.target is not None
            sinks.append(Mutation(State(spec.target)))
        elif spec.kind == OutputKind.USER_INPUT_MUTATION:
            assert spec.target is not None
            sinks.append(Mutation(Given(places[spec.target], spec.target)))
        else:
            raise ModelError(f"the model has a result of the kind {spec.kind.name}, which hnfc does not carry")
        kept.append(value)
    output.args = (tuple(kept),)
    return sinks


def import_graph(graph: torch.fx.Graph) -> ir.Module:
    """The function `main` of the torch dialect that a graph of ATen operations without side effects is. Raises ModelError."""
    for node in graph.nodes:
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            place = source_of(node) or ()
            raise ModelError(f"the model has control flow that hnfc does not carry: torch.{node.target}", *place)
        lacking = _not_importable(node)
        if lacking:
            raise ModelError(f"the model has {lacking}, which torch-mlir cannot import", *(source_of(node) or ()))
    context = new_context()
    importer = fx_importer.FxImporter(context=context)
    importer._cc = _Places(context, py_attr_tracker=importer._py_attr_tracker)
    try:
        importer.import_stateless_graph(graph, func_name="main")
    except (NotImplementedError, TypeError, AssertionError, ValueError) as error:
        raise ModelError(f"torch-mlir cannot import the model: {first_line(error)}") from error
    return importer.module


def _not_importable(node: torch.fx.Node) -> str:
    """The value or number of a node that torch-mlir has no form for; empty if it has all."""
    for value in pytree.tree_leaves(node.meta.get("val")):
        if isinstance(value, torch.Tensor) and value.layout is not torch.strided:
            return f"a tensor of layout {str(value.layout).removeprefix('torch.')}"
        if isinstance(value, torch.Tensor) and value.dtype not in fx_importer.TORCH_DTYPE_TO_MLIR_TYPE_ASM:
            return f"a tensor of type {str(value.dtype).removeprefix('torch.')}"
    for given in pytree.tree_leaves((node.args, node.kwargs)):
        if isinstance(given, complex):
            return f"the complex number {given}"
        if isinstance(given, torch.dtype) and given not in fx_importer.TORCH_DTYPE_TO_INT:
            return f"a conversion to {str(given).removeprefix('torch.')}"
    return ""


class _Places(fx_importer.ContextCache):  # type: ignore[misc]
    """Puts an operation where the model's source has it, under the path of the module that it is in."""

    __slots__ = ()

    def get_node_location(self, node: torch.fx.Node) -> ir.Location:
        place = source_of(node)
        location = ir.Location.file(*place, 0, self._c) if place else ir.Location.unknown(self._c)
        path = f"{GRADIENT if node.meta.get(BACKWARD) else ''}{module_path(node)}"
        return ir.Location.name(path, location, self._c) if path else location


BACKWARD = "autograd_backward"
"""Mark of torch.fx on nodes of a backward pass."""
_FRAME = "File "


def source_of(node: torch.fx.Node) -> tuple[str, int] | None:
    """File and line of the innermost frame of the model's own code; of torch's modules where there is none."""
    frames = []
    for line in (node.stack_trace or "").splitlines():
        line = line.strip()
        if line.startswith(_FRAME) and ", line " in line:
            file, _, rest = line[len(_FRAME) :].partition(", line ")
            number = rest.split(",")[0].strip()
            if number.isdigit():
                frames.append((file.strip('"'), int(number)))
    frames = [frame for frame in frames if not frame[0].startswith(("<", HNFC))]  # code that torch generated
    own = [frame for frame in frames if not frame[0].startswith(TORCH)]
    return (own or frames)[-1] if frames else None


def module_path(node: torch.fx.Node) -> str:
    """The path of the innermost module that the node was made in, as `model.get_submodule` takes it; empty for the model itself."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [entry[0] for entry in stack.values()]
    return paths[-1].split("@")[0] if paths else ""
