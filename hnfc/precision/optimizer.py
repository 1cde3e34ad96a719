"""`PrecisionOptimizer`: formats for the values of a PyTorch model, or of a step of its training, measured on samples."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import torch
from torch.utils import _pytree as pytree
from torch_mlir import ir

from hnfc.analysis.outputs import Outputs
from hnfc.analysis.probabilistic import PROBABILITY
from hnfc.analysis.reading import read_function
from hnfc.core.arguments import check_kind, names_of
from hnfc.core.errors import UsageError
from hnfc.core.progress import Progress, reporting, tell
from hnfc.formats.granular import is_for_activations
from hnfc.formats.named import format_named
from hnfc.frontend.pytorch import capture
from hnfc.frontend.signature import FixedResult, Given, Returned, Signature, State
from hnfc.frontend.training import names_of_results
from hnfc.pipeline.rulesets import load_rules
from hnfc.precision.analyzed import PrecisionAnalysis as PrecisionAnalysis
from hnfc.precision.assignment import Assignment, Infeasible, Requirements, machine_of
from hnfc.precision.cast_insertion import is_narrow
from hnfc.precision.policy import Policy
from hnfc.precision.requirements import checked_width
from hnfc.precision.rewriting import REWRITES
from hnfc.precision.samples import Samples, samples_of
from hnfc.precision.solving import ReferenceGraph, reference_for, solved, tree_widened
from hnfc.precision.targets import Target, by_output
from hnfc.precision.training import TrainingAnalysis, captured_in, required_outputs
from hnfc.precision.values import PrecisionSites
from hnfc.pytorch.losses import Loss, with_loss
from hnfc.pytorch.optimized import Optimized, arguments_of, plain
from hnfc.pytorch.rewriting import rewrite_values
from hnfc.pytorch.settings import Settings

Solved: TypeAlias = tuple[PrecisionSites, Requirements, Assignment | Infeasible, dict[int, torch.dtype]]


@dataclass(frozen=True)
class PrecisionOptimizer:
    """Requirements on the formats of a model's values, and the search for an assignment of formats that meets them.

    target_accuracy: the error of the outputs, relative to their root mean square unless `relative` is off: a number for all together, or
    numbers by outputs, each relative to its own: by index, by name ("output 1") or a pattern of names, of which the first that matches
    counts. Outputs that nothing names have no target, and must be finite.

    formats: the ones to choose from. pins: formats by patterns of sites, modules or operations. uncast: pairs of patterns between which
    no cast is allowed. elementwise: the error is that of each element relative to itself, root mean square. memory_budget: bytes.
    scaling: values that overflow may be stored with a scale that is a power of two. saturation: values of which only masks overflow, whose
    size moves nothing, may be stored with these as numbers that the format has; not with `certified`, whose formulas have none of them.
    policy: as JMP spells it. group: rules that rewrite the model first. target: a machine, as "h100"; formats that it does not run are not
    chosen. least: what is minimized: bytes that are "moved", casts included, "bytes" of all sites or of "parameters" (the default where a
    format is for these alone, as int8), those live at the "peak", which memory_budget is then of, or modelled "time" on the target.
    headroom: how many times as large as on the samples values may become without overflow, from 1. certified: the error is proved to be
    within the target too, for all inputs within `width` of each element of the samples. probabilistic: on the samples it is within the
    target with `probability`, if roundings are independent and unbiased (see `analysis.probabilistic`). margin: how many times smaller
    than the target errors on the samples must be, for inputs whose errors are larger. rewrites: with formats by token, exact rewrites
    of linear layers are tried too, and the model is the one with the most products in integers, and of these with the least error.

    Requirements are checked by `analyze` and `analyze_training`, which raise UsageError for those that do not fit, ValueError for a policy
    or a format that there is not.
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
    least: str | None = None
    certified: bool = False
    width: float = 0.0
    probabilistic: bool = False
    probability: float = PROBABILITY
    saturation: bool = True
    margin: float = 1.0
    rewrites: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "formats", names_of(self.formats, "formats"))

    def requirements(self) -> Requirements:
        """Requirements as data, for the functions of `hnfc.precision`."""
        policy = Policy.parse(self.policy) if isinstance(self.policy, str) else self.policy
        return Requirements(
            self.target_accuracy, self.relative, self.formats, self.pins, self.uncast, self.memory_budget, policy, self.headroom,
            self.scaling, *machine_of(self.target, self.least, self.formats),
            self.saturation and not (self.certified or self.probabilistic), self.margin,
        )  # fmt: skip

    @reporting("capturing the model …")
    def analyze(self, model: torch.nn.Module, sample: Any, *more: Any, progress: Progress | None = None) -> PrecisionAnalysis:
        """Measures the model on the samples and solves for formats. Raises ModelError where it cannot be captured.

        The samples have the same shapes; or the first is a DataLoader, or an iterator, of them. progress: takes the stage at hand in
        words; without it notebooks show a bar. A target that no assignment reaches is no error: the analysis says why.

        A model narrower than float32, or than float64 where fp64 is among the formats, is measured, and later applied, as a copy in that;
        casts to narrow formats that it makes itself are dropped, since the formats are chosen here.
        """
        model, samples, widened = self._wide(model, samples_of(model, sample, more))
        found = self._analyzed(model, samples, widened)
        if self.rewrites and any(is_for_activations(format_named(form)) for form in self.formats):
            others = [self._analyzed(rewrite(model, samples), samples, widened) for rewrite in REWRITES]
            found = max(found, *others, key=_in_integers)
        return found

    def _analyzed(self, model: torch.nn.Module, samples: Samples, widened: bool) -> PrecisionAnalysis:
        args, kwargs = arguments_of(samples[0])
        captured = capture(model, args, kwargs)
        compiled = rewrite_values(model, captured, args, kwargs, Settings(load_rules(self.group)))
        sinks = [sink for sink in captured.signature.results if not isinstance(sink, FixedResult)]
        apart = tuple(place for place, sink in enumerate(sinks) if isinstance(sink, Returned)) if by_output(self.target_accuracy) else ()
        given = _given(model, captured.signature, samples)
        found = self._solved(compiled.export(), captured.signature, given, Outputs(apart))
        return PrecisionAnalysis(model, samples[0], *found, self.group, self.reference, widened, samples)

    @reporting("capturing the model and its gradients …")
    def analyze_training(
        self, model: torch.nn.Module, sample: Any, *more: Any, loss: Loss | None = None, progress: Progress | None = None
    ) -> TrainingAnalysis:
        """The same for a step of training: the values of the backward pass have formats too, and the results are the loss and the gradients
        of the parameters that require one. The error of each is relative to its own Euclidean norm, and each counts as one.

        The model returns a scalar loss; or `loss` computes it from what the model returns and from as many of the last parts of a sample
        as it has further arguments without a default. Raises ModelError where gradients cannot be captured, or are not those of the model,
        and UsageError for a loss that cannot be called so.
        """
        model, samples, widened = self._wide(model, (sample, *more))
        whole = with_loss(model, loss)
        args, kwargs = arguments_of(samples[0])
        captured = captured_in(whole, (args, kwargs), self.reference)
        given = _given(whole, captured.signature, samples)
        outputs, undetermined = required_outputs(captured, given, by_output(self.target_accuracy))
        if self.elementwise or not self.relative:
            outputs = replace(outputs, norms={})
        compiled = rewrite_values(whole, captured, args, kwargs, Settings(load_rules(self.group)))
        found = self._solved(compiled.export(), captured.signature, given, outputs, names_of_results(captured.signature))
        return TrainingAnalysis(model, samples[0], *found, self.group, self.reference, widened, loss=loss, undetermined=undetermined)

    def _checked_probability(self) -> float | None:
        """Probability of the bound; None where none with one was requested. Raises UsageError."""
        if not 0 < self.probability < 1:
            raise UsageError(f"the probability is a number between 0 and 1, not {self.probability:g}")
        if self.probabilistic and (self.certified or self.elementwise):
            other = "certified" if self.certified else "elementwise"
            raise UsageError(
                f"probabilistic=True bounds the root mean square on the samples, and does not go with {other}=True; leave one out"
            )
        return self.probability if self.probabilistic else None

    @property
    def reference(self) -> torch.dtype:
        """Precision of the reference run."""
        return reference_for(self.requirements())

    def _wide(self, model: torch.nn.Module, samples: Samples) -> tuple[torch.nn.Module, Samples, bool]:
        """The model and the samples, or copies in the type of the reference where they are narrower, and whether they are copies; of a
        module that hnfc made, the original behind it."""
        check_kind(model, torch.nn.Module, "PrecisionOptimizer")
        model = plain(model) if isinstance(model, Optimized) else model
        wide = self.reference
        if not _is_narrow(model, samples[0], wide):
            return model, samples, False
        return copy.deepcopy(model).to(wide), tuple(tree_widened(sample, wide) for sample in samples), True

    def _solved(
        self,
        module: ir.Module,
        signature: Signature,
        given: Sequence[Sequence[torch.Tensor]],
        outputs: Outputs,
        named: Sequence[str] = (),
    ) -> Solved:
        """Formats for the values of the function of a module. given: its arguments, of each sample. named: its results."""
        requirements = self.requirements()
        imported, function = read_function(module)
        tell("measuring values and solving for formats …")
        sites, outcome, found = solved(
            imported, function.body.block, ReferenceGraph.of(imported.torch, wide=self.reference), given, requirements,
            elementwise=self.elementwise, outputs=outputs, named=named, width=checked_width(self.width, self.certified),
            probability=self._checked_probability(),
            parameters={index: source.name for index, source in enumerate(signature.arguments) if isinstance(source, State)},
            inputs={index for index, source in enumerate(signature.arguments) if isinstance(source, Given)},
        )  # fmt: skip
        return sites, requirements, outcome, dict(found.dtypes)


def _in_integers(found: PrecisionAnalysis) -> tuple[int, float]:
    """Order of analyses of rewritten models."""
    measured = found.outcome.measured if isinstance(found.outcome, Assignment) else None
    return found.integer_products, -math.inf if measured is None else -measured


def _given(model: torch.nn.Module, signature: Signature, samples: Sequence[Any]) -> list[list[torch.Tensor]]:
    """The arguments of the graph of a model, of each sample."""
    given = [signature.gather(model, pytree.tree_leaves(arguments_of(sample))) for sample in samples]
    return [[t.detach() for t in tensors] for tensors in given]


def _is_narrow(model: torch.nn.Module, sample: Any, wide: torch.dtype) -> bool:
    tensors = [*model.parameters(), *model.buffers(), *(t for t in pytree.tree_leaves(sample) if isinstance(t, torch.Tensor))]
    return any(is_narrow(t.dtype, wide) for t in tensors)
