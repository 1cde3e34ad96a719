"""From a graph and samples to formats: the values are measured, formats are chosen by the estimates, and run; for modules and for files."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch_mlir import ir
from xdsl.ir import Block, Operation

from hnfc.analysis.calibrated import Calibration, calibrate
from hnfc.analysis.outputs import TOGETHER, Outputs
from hnfc.backend.fx import raise_function
from hnfc.core.errors import ModelError
from hnfc.dialects.types import format_of
from hnfc.formats.named import format_named
from hnfc.frontend.torch_mlir import Imported
from hnfc.precision.assignment import Assignment, Infeasible, Requirements
from hnfc.precision.cast_insertion import Casts, casts_of, without_narrow_casts
from hnfc.precision.certifying import certified_errors, probable_errors
from hnfc.precision.copying import with_traffic
from hnfc.precision.distances import distances
from hnfc.precision.policy import SemanticDType
from hnfc.precision.targets import Errors, worst_of
from hnfc.precision.values import PrecisionSites, sites_of
from hnfc.precision.verification import WIDE, ErrorBound, assign_what_holds


def tried_for(requirements: Requirements) -> tuple[str, ...]:
    """The formats that values are tried in: those to choose from, of pins and of the policy, and float32. Raises HnfError for others."""
    policy = [] if requirements.policy is None else [str(role.to_dtype(requirements.policy)) for role in SemanticDType]
    tried = tuple(dict.fromkeys((*requirements.formats, *requirements.pins.values(), *policy, WIDE)))
    for form in tried:
        format_named(form)
    return tried


def reference_for(requirements: Requirements) -> torch.dtype:
    """Precision of the reference run: an advantage of fp64 does not show beside a reference that is rounded to float32 itself."""
    return torch.float64 if "fp64" in tried_for(requirements) else torch.float32


@dataclass(frozen=True)
class ReferenceGraph:
    """The graph that formats are compared with. nodes: what each value of the module became in it. wide: its own casts to narrower types
    than this are dropped, and what it makes in them is made in this; None keeps all."""

    graph: fx.GraphModule
    nodes: Mapping[ir.Value, Any]
    wide: torch.dtype | None

    @staticmethod
    def of(module: ir.Module, name: str = "main", wide: torch.dtype | None = None, weights: bool = False) -> ReferenceGraph:
        """weights: whether the literals of the module are in the wide type as well; they are copied once."""
        nodes: dict[ir.Value, Any] = {}
        graph = raise_function(module, name, nodes)
        if wide is not None:
            without_narrow_casts(graph, wide)
        for key, tensor in list(graph.named_buffers()) if wide is not None and weights else ():
            setattr(graph, key, widened(tensor, wide))
        return ReferenceGraph(graph, nodes, wide)


def widened(tensor: torch.Tensor, wide: torch.dtype | None) -> torch.Tensor:
    """A tensor of floating-point numbers in this type, if it is in a narrower one."""
    narrow = wide is not None and tensor.is_floating_point() and tensor.dtype.itemsize < wide.itemsize
    return tensor.to(wide) if narrow else tensor


def tree_widened(tree: Any, wide: torch.dtype) -> Any:
    """The same of whatever tensors are in it."""
    return pytree.tree_map(lambda t: widened(t, wide) if isinstance(t, torch.Tensor) else t, tree)


def solved(
    imported: Imported,
    block: Block,
    reference: ReferenceGraph,
    given: Sequence[Sequence[torch.Tensor]],
    requirements: Requirements,
    *,
    elementwise: bool = False,
    outputs: Outputs = TOGETHER,
    parameters: Mapping[int, str] | None = None,
    named: Sequence[str] = (),
    inputs: Collection[int] = (),
    width: float | None = None,
    probability: float | None = None,
) -> tuple[PrecisionSites, Assignment | Infeasible, Calibration]:
    """Formats for the values of a function. given: its arguments, of each sample. parameters: the names of those that are parameters, by
    their places; named: its results. width: the error is proved, too, for all `inputs`, by their places, within it of the samples.
    probability: the error is within the target on all samples with it, too. Raises ModelError where the function cannot be run, and
    UsageError for requirements that name nothing."""
    found = calibrate(
        imported, given, formats=tried_for(requirements), elementwise=elementwise, outputs=outputs,
        raised=(reference.graph, reference.nodes),
        headroom=requirements.headroom,
    )  # fmt: skip
    _check_results(imported, block, found)
    sites = replace(sites_of(imported, block, found, parameters, named), names=outputs.names)
    if requirements.least == "moved":
        sites = with_traffic(sites, reference.graph, given[0])

    def casts(outcome: Assignment) -> Casts:
        return casts_of(outcome, sites, reference.graph, found.dtypes, reference.wide)

    def measure(outcome: Assignment) -> Errors:
        return worst_of([distances(reference.graph, casts(outcome), tensors, elementwise, outputs) for tensors in given])

    def mixed(outcome: Assignment) -> Iterator[tuple[fx.GraphModule, Sequence[torch.Tensor]]]:
        for tensors in given:
            yield casts(outcome)(fx.GraphModule(reference.graph, copy.deepcopy(reference.graph.graph))), tensors

    def proved(outcome: Assignment) -> Errors:
        return worst_of([certified_errors(graph, t, inputs, width or 0.0, elementwise, outputs) for graph, t in mixed(outcome)])

    def probable(outcome: Assignment) -> Errors:
        assert probability is not None
        each = 1 - (1 - probability) / len(given)
        return worst_of([probable_errors(graph, t, each, outputs) for graph, t in mixed(outcome)])

    bound = ErrorBound(probable, probability) if probability is not None else None if width is None else ErrorBound(proved)
    outcome = assign_what_holds(sites, requirements, measure, bound)
    if isinstance(outcome, Assignment):
        outcome = replace(outcome, infinite=_infinite_results(reference.graph, given))
    return sites, outcome, found


def _infinite_results(graph: fx.GraphModule, given: Sequence[Sequence[torch.Tensor]]) -> int:
    """Elements of the results that are infinite, on all samples."""
    with torch.no_grad():
        results = [t for tensors in given for t in pytree.tree_leaves(graph(*tensors)) if isinstance(t, torch.Tensor)]
    return sum(int(torch.isinf(t).sum()) for t in results if t.is_floating_point())


def _check_results(imported: Imported, block: Block, found: Calibration) -> None:
    """Raises ModelError where there is no error to speak of: no results of floating-point numbers, or NaN among them."""
    returned = block.last_op.operands if block.last_op is not None else ()
    if not any(format_of(value.type) for value in returned):
        raise ModelError("none of the results are floating-point numbers: formats are chosen by the error of those")
    wrong = [value for value in returned if value in found.values and found.values[value].undefined]
    if wrong:
        first = next(value for value, seen in found.values.items() if seen.undefined)
        owner = first.owner
        where = f"{owner.name.removeprefix('num.')} ({imported.location(owner)})" if isinstance(owner, Operation) else "an input"
        help_is = 'rules that keep a model stable may help: group="stability" in Python; hnfc MODEL -O stability -o STABLE.mlir first'
        raise ModelError(f"the results are NaN on the samples before anything is in another format, from {where} on; {help_is}")
