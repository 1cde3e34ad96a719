"""`PrecisionOptimizer`: formats for the values of a PyTorch model, measured on samples, and what is done with them."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from hnfc.analysis.calibrated import calibrate
from hnfc.analysis.reading import read_function
from hnfc.backend.fx import raise_function
from hnfc.errors import ModelError
from hnfc.frontend.pytorch import capture
from hnfc.modules.optimized import Programs, arguments_of, wrapped
from hnfc.modules.program import Program, rewrite
from hnfc.modules.signature import Fixed, Given, Returned, State
from hnfc.precision.amp import AmpConfig, amp_config
from hnfc.precision.applied import Casts, casts_of, distances, is_narrow, without_narrow_casts
from hnfc.precision.assignment import Assignment, Refusal, Wishes, assign, machine_of
from hnfc.precision.certifying import certified_errors
from hnfc.precision.holding import assign_what_holds
from hnfc.precision.outcomes import as_given, cochain_of, errors_of, rows_of
from hnfc.precision.picture import picture
from hnfc.precision.policy import Policy, SemanticDType
from hnfc.precision.scaled import split
from hnfc.precision.sites import Sites, sites_of
from hnfc.precision.targets import Errors, OutputError, Target, by_output, worst_of
from hnfc.rewriter import Settings, load_rules

WIDE = "fp32"
"""The format of the reference, unless fp64 is asked for: a model in a narrower one is analyzed as if it were in this one."""
_SHORT = {"fp64": "f64", "fp32": "f32", "fp16": "f16"}


@dataclass(frozen=True)
class PrecisionOptimizer:
    """What formats must meet. target_accuracy: the error of the outputs, relative to their root mean square unless `relative` is off: a
    number for all together, or numbers by outputs, each relative to its own: by index, by name ("output 1") or a pattern of names, of
    which the first that matches counts. Outputs that nothing names have no target, and must be finite.

    formats: the ones to choose from. pins: formats by patterns of sites, modules or operations. uncast: pairs of patterns between which
    no cast is allowed. elementwise: the error is that of each element relative to itself, root mean square. memory_budget: bytes.
    scaling: values that overflow may be stored with a scale that is a power of two.
    policy: as JMP spells it. group: rules that rewrite the model first. target: a machine, as "h100"; formats that it does not run are not
    chosen. least: "bytes", or "time": what is minimized, time as it is modelled on the target. certified: the error is proved to be
    within the target too, for all inputs within `width` of each element of the samples.
    """

    target_accuracy: Target = 1e-3
    relative: bool = True
    formats: tuple[str, ...] = ("bf16", "fp16", "fp32")
    pins: Mapping[str, str] = field(default_factory=dict)
    uncast: Sequence[tuple[str, str]] = ()
    memory_budget: float = float("inf")
    policy: Policy | str | None = None
    group: str = "none"
    headroom: float = 2.0
    elementwise: bool = False
    scaling: bool = True
    target: str | None = None
    least: str = "bytes"
    certified: bool = False
    width: float = 0.0

    def wishes(self) -> Wishes:
        policy = Policy.parse(self.policy) if isinstance(self.policy, str) else self.policy
        return Wishes(
            self.target_accuracy, self.relative, tuple(self.formats), self.pins, self.uncast, self.memory_budget, policy, self.headroom,
            self.scaling, *machine_of(self.target, self.least),
        )  # fmt: skip

    def analyze(self, model: torch.nn.Module, sample: Any, *more: Any) -> PrecisionAnalysis:
        """Measures the model on the samples and solves for formats. Raises ModelError where it cannot be captured.

        The samples have the same shapes. A model narrower than float32, or than float64 where fp64 is among the formats, is measured, and
        later applied, as a copy in that; casts to narrow formats that it makes itself are dropped, since the formats are chosen here.
        """
        wishes = self.wishes()
        tried = tuple(dict.fromkeys((*wishes.formats, *wishes.pins.values(), *_of_policy(wishes.policy), WIDE)))
        # what fp64 is better at does not show beside a reference that is rounded to float32 itself
        wide = torch.float64 if "fp64" in tried else torch.float32
        if _is_narrow(model, sample, wide):
            model, sample, more = copy.deepcopy(model).to(wide), _widened(sample, wide), tuple(_widened(other, wide) for other in more)
        args, kwargs = arguments_of(sample)
        settings = Settings(load_rules(self.group))
        captured = capture(model, args, kwargs)
        compiled = rewrite(model, captured, args, kwargs, settings)
        imported, function = read_function(compiled.export())
        block = function.body.block
        outputs = [sink for sink in captured.signature.results if not isinstance(sink, Fixed)]
        apart = tuple(place for place, sink in enumerate(outputs) if isinstance(sink, Returned)) if by_output(wishes.target) else ()
        given = [captured.signature.gather(model, pytree.tree_leaves(arguments_of(one))) for one in (sample, *more)]
        found = calibrate(
            imported,
            [[t.detach() for t in tensors] for tensors in given],
            formats=tried,
            elementwise=self.elementwise,
            edit=partial(without_narrow_casts, wide=wide),
            apart=apart,
        )
        names = {index: source.name for index, source in enumerate(captured.signature.arguments) if isinstance(source, State)}
        sites = sites_of(imported, block, found, names)
        graph = raise_function(compiled.export())

        def measure(outcome: Assignment) -> Errors:
            casts = casts_of(outcome, sites, graph, found.dtypes, wide)
            return worst_of([distances(graph, casts, tensors, self.elementwise, apart) for tensors in given])

        inputs = {index for index, source in enumerate(captured.signature.arguments) if isinstance(source, Given)}

        def bound(outcome: Assignment) -> Errors:
            casts = casts_of(outcome, sites, graph, found.dtypes, wide)
            mixed = (casts(fx.GraphModule(graph, copy.deepcopy(graph.graph))) for _ in given)
            pairs = zip(mixed, given, strict=True)
            return worst_of([certified_errors(m, t, inputs, self.width, self.elementwise, apart) for m, t in pairs])

        outcome = assign_what_holds(sites, wishes, measure, bound if self.certified else None)
        return PrecisionAnalysis(model, sample, sites, wishes, outcome, dict(found.dtypes), self.group, wide)


@dataclass
class PrecisionAnalysis:
    """The outcome on one model. `outcome` is an Assignment, or the Refusal that says why there is none."""

    model: torch.nn.Module
    sample: Any
    sites: Sites
    wishes: Wishes
    outcome: Assignment | Refusal
    dtypes: dict[int, torch.dtype]
    group: str
    wide: torch.dtype
    """What the model is in as the reference."""

    @property
    def h0_dim(self) -> int:
        """The rank of H⁰ of the uniform sheaf (no cast anywhere), ℤ on its global sections: how many formats do for the whole model.

        0 says that uniform precision does not meet the wishes; `outcome` says whether mixed precision does.
        """
        return sum(1 for form in self.wishes.formats if self._uniform(form))

    def _uniform(self, form: str) -> bool:
        found = assign(self.sites, replace(self.wishes, formats=(form,), uncast=()))
        return isinstance(found, Assignment) and set(found.formats.values()) == {form}

    @property
    def h1_cocycle(self) -> dict[tuple[str, str], int]:
        """The bits by which formats differ along edges, without zeros: empty where one format does for the whole model.

        With an assignment p it is d⁰p, the casts that mixed precision makes: a coboundary, of class 0. Without one it is ω on the cycle
        that refutes the wishes, whose sum is its class on that cycle; or, where no cycle does, from each site that is short of bits to the
        target ("outputs") how many it lacks: it says where, and no class of it proves anything. `outcome.certificate` says which it is.
        """
        if isinstance(self.outcome, Assignment) and self.h0_dim:
            return {}
        return cochain_of(self.sites, self.outcome)

    def get_precision_assignment(self) -> dict[str, str]:
        """The format of every site by its name. Raises ModelError, with the reasons, where there is none."""
        return dict(self._found().formats)

    def _found(self) -> Assignment:
        if isinstance(self.outcome, Refusal):
            raise ModelError("no assignment of formats meets the target:\n  " + "\n  ".join(self.outcome.reasons))
        return self.outcome

    @property
    def outputs(self) -> tuple[OutputError, ...]:
        """What is allowed, estimated, measured and proved of each output, as the targets are given; empty with one target for all."""
        return errors_of(self.sites, self.wishes, self._found())

    @property
    def error(self) -> float:
        """The estimated error of all outputs together, relative to their root mean square unless `relative` is off."""
        return as_given(self._found().error, self.sites, self.wishes)

    @property
    def measured(self) -> float:
        """The largest error of all outputs together on a sample, in the same terms, when the model runs in these formats."""
        found = self._found().measured
        return math.nan if found is None else as_given(found, self.sites, self.wishes)

    @property
    def proved(self) -> float | None:
        """What the error of all outputs together is proved not to be above, in the same terms; None where no proof was asked for."""
        found = self._found().certified
        return None if found is None else as_given(found, self.sites, self.wishes)

    def casts(self) -> Casts:
        """What the graph of the model is given."""
        args, kwargs = arguments_of(self.sample)
        graph = Program.of(self.model, args, kwargs, Settings(load_rules(self.group))).graph
        return casts_of(self._found(), self.sites, graph, self.dtypes, self.wide)

    def apply(self) -> torch.nn.Module:
        """The model in mixed precision: a module of the same class on the same parameters, results in their own types."""
        settings = Settings(load_rules(self.group), edit=self.casts())
        args, kwargs = arguments_of(self.sample)
        programs = Programs(settings)
        programs.add(Program.of(self.model, args, kwargs, settings))
        return wrapped(self.model, programs)

    def to_amp_config(self, device: str = "cpu") -> AmpConfig:
        """Which modules run under torch.autocast, and which do not. It is coarser than the assignment: a module is narrow or it is not."""
        return amp_config(self.sites, self._found().formats, device)

    def policy_string(self) -> str:
        """The policy of the most frequent formats: `p=f32,c=bf16,o=f32`."""
        found = self._found().formats
        parts = []
        for key, role in (("p", SemanticDType.PARAM), ("c", SemanticDType.COMPUTE), ("o", SemanticDType.OUTPUT)):
            weights: Counter[str] = Counter()
            for site in self.sites.sites:
                if site.role is role:
                    weights[split(found[site.name])[0]] += site.elements
            form = weights.most_common(1)[0][0] if weights else WIDE
            parts.append(f"{key}={_SHORT.get(form, form)}")
        return ",".join(parts)

    def rows(self) -> Iterator[tuple[str, str, str, str, float]]:
        """Name, role, format, range and share of the squared error of every site."""
        return rows_of(self.sites, self._found())

    def visualize_obstruction(self, path: str | Path | None = None) -> str:
        """An SVG of the sites that are wider than others, or that the refusal is about, and what feeds them; written to `path` too."""
        svg = picture(self.sites, self.outcome, self.h1_cocycle)
        if path is not None:
            Path(path).write_text(svg, encoding="utf-8")
        return svg


def _is_narrow(model: torch.nn.Module, sample: Any, wide: torch.dtype) -> bool:
    tensors = [*model.parameters(), *model.buffers(), *(t for t in pytree.tree_leaves(sample) if isinstance(t, torch.Tensor))]
    return any(is_narrow(t.dtype, wide) for t in tensors)


def _widened(sample: Any, wide: torch.dtype) -> Any:
    return pytree.tree_map(lambda t: t.to(wide) if isinstance(t, torch.Tensor) and is_narrow(t.dtype, wide) else t, sample)


def _of_policy(policy: Policy | None) -> tuple[str, ...]:
    return () if policy is None else tuple(str(role.to_dtype(policy)) for role in SemanticDType)
