"""Formats for a model in a file."""

from __future__ import annotations

import copy
import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import fx
from torch_mlir import ir

from hnfc.analysis.calibrated import Calibration, calibrate
from hnfc.analysis.reading import read_function
from hnfc.backend.fx import raise_function
from hnfc.backend.torch_mlir import emit_torch
from hnfc.frontend.models import read_model
from hnfc.modules.tensors import to_torch
from hnfc.precision.applied import as_module, casts_of, distances
from hnfc.precision.assignment import Assignment, Refusal, Wishes
from hnfc.precision.certifying import certified_errors
from hnfc.precision.formats import format_named
from hnfc.precision.holding import assign_what_holds
from hnfc.precision.outcomes import as_given, errors_of
from hnfc.precision.policy import SemanticDType
from hnfc.precision.sites import Sites, sites_of
from hnfc.precision.targets import Errors, OutputError, Outputs, by_output, worst_of
from hnfc.samples import from_file


@dataclass
class FileAnalysis:
    """The outcome for the function of a module."""

    module: ir.Module
    function: str
    sample: list[torch.Tensor]
    sites: Sites
    wishes: Wishes
    outcome: Assignment | Refusal
    calibration: Calibration

    @property
    def refused(self) -> bool:
        return isinstance(self.outcome, Refusal)

    @property
    def error(self) -> float:
        """What the outputs are estimated to be off by, in the terms of the target."""
        assert isinstance(self.outcome, Assignment)
        return as_given(self.outcome.error, self.sites, self.wishes)

    @property
    def measured(self) -> float:
        """What they are off by on the samples."""
        assert isinstance(self.outcome, Assignment) and self.outcome.measured is not None
        return as_given(self.outcome.measured, self.sites, self.wishes)

    @property
    def proved(self) -> float | None:
        """What they are proved not to be off by more than, where a proof was asked for."""
        assert isinstance(self.outcome, Assignment)
        return None if self.outcome.certified is None else as_given(self.outcome.certified, self.sites, self.wishes)

    @property
    def outputs(self) -> tuple[OutputError, ...]:
        """Of each output by itself, where targets are for single ones."""
        assert isinstance(self.outcome, Assignment)
        return errors_of(self.sites, self.wishes, self.outcome)

    @property
    def original_size(self) -> float:
        """Bytes of all sites as the model has them."""
        sizes = {site.nodes[0]: site.elements for site in self.sites.sites}
        return math.fsum(n * self.calibration.dtypes[node].itemsize for node, n in sizes.items())

    def data(self) -> dict[str, Any]:
        """For JSON."""
        if isinstance(self.outcome, Refusal):
            changes = [{"change": r.change, "cost": r.cost} for r in self.outcome.relaxations]
            needed = {name: {"needs": needs, "has": has} for name, (needs, has) in self.outcome.needed.items()}
            cycle = self.outcome.obstruction
            around = [{"from": u, "to": v, "bits": bits} for u, v, bits in self.outcome.cycle]
            short = {} if cycle is None else {"measure": cycle.measure, "short": cycle.short}
            why = {"reasons": list(self.outcome.reasons), "cycle": around, **short, "certificate": self.outcome.certificate}
            return {"found": False, **why, "needed": needed, "relaxations": changes}
        sites = [
            {"name": s.name, "place": s.place, "role": s.role.value, "format": self.outcome.formats[s.name], "low": s.low, "high": s.high,
             "elements": s.elements, "moves_outputs_by": s.moved[self.outcome.formats[s.name]]}
            for s in self.sites.sites
        ]  # fmt: skip
        errors: dict[str, Any] = {"error": self.error, "measured": self.measured, "proved": self.proved}
        if self.outputs:
            errors["outputs"] = [{**asdict(o), "allowed": o.allowed if o.allowed < math.inf else None} for o in self.outputs]
        return {
            "found": True,
            **errors,
            "bytes": self.outcome.size,
            "peak_bytes": self.outcome.peak,
            "original_bytes": self.original_size,
            "sites": sites,
        }

    def emit(self) -> bytes:
        """The model with its casts."""
        assert isinstance(self.outcome, Assignment)
        graph = raise_function(self.module, self.function)
        casts = casts_of(self.outcome, self.sites, graph, self.calibration.dtypes, None)
        return emit_torch(as_module(casts(graph), self.sample)).encode()


def analyze_file(path: str, samples: str, wishes: Wishes, width: float | None = None) -> FileAnalysis:
    """width: the error is proved to be within the target too, for all inputs within it of the samples. Raises ModelError for a file that
    cannot be read or has several functions, and where samples do not fit."""
    if width is not None:
        # what is proved is the error of the graph beside its own formulas, in which what saturates is what it saturates to
        wishes = replace(wishes, saturation=False)
    imported, function = read_function(read_model(path))
    block, name = function.body.block, function.sym_name.data
    given = [[to_torch(np.asarray(sample[a])) for a in block.args] for sample in from_file(samples, block)]
    policy = [] if wishes.policy is None else [str(role.to_dtype(wishes.policy)) for role in SemanticDType]
    tried = tuple(dict.fromkeys((*wishes.formats, *wishes.pins.values(), *policy, "fp32")))
    for form in tried:
        format_named(form)
    results = block.last_op.operands if block.last_op is not None else ()
    outputs = Outputs(tuple(range(len(results))) if by_output(wishes.target) else ())
    calibration = calibrate(imported, given, name, formats=tried, outputs=outputs)
    sites = sites_of(imported, block, calibration)
    graph = raise_function(imported.torch, name)

    def measure(outcome: Assignment) -> Errors:
        casts = casts_of(outcome, sites, graph, calibration.dtypes, None)
        return worst_of([distances(graph, casts, tensors, False, outputs) for tensors in given])

    def bound(outcome: Assignment) -> Errors:
        casts = casts_of(outcome, sites, graph, calibration.dtypes, None)
        every = range(len(block.args))
        mixed = (casts(fx.GraphModule(graph, copy.deepcopy(graph.graph))) for _ in given)
        return worst_of([certified_errors(m, t, every, width or 0.0, False, outputs) for m, t in zip(mixed, given, strict=True)])

    outcome = assign_what_holds(sites, wishes, measure, None if width is None else bound)
    return FileAnalysis(imported.torch, name, given[0], sites, wishes, outcome, calibration)
