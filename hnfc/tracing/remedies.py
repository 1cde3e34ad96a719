"""Remedies for an operation that goes wrong: rewrites that hnfc has, and number formats. Each is run, with gradients if these were
traced, and named only if it was seen to work."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from hnfc.core.progress import tell
from hnfc.pipeline.rulesets import load_rules
from hnfc.precision.optimizer import PrecisionOptimizer
from hnfc.pytorch.losses import with_loss
from hnfc.pytorch.optimized import arguments_of
from hnfc.pytorch.program import CapturedProgram
from hnfc.pytorch.settings import Settings
from hnfc.pytorch.shadow import shadow
from hnfc.tracing.comparing import RunComparison, compare
from hnfc.tracing.course import StepChange
from hnfc.tracing.events import GRADIENT, NOT_FINITE
from hnfc.tracing.patients import INSIDE, REFUSALS, Patient
from hnfc.tracing.report import Trace
from hnfc.tracing.step import step_of
from hnfc.tracing.trials import after, eps_trials, guard_trial, scale_trials

_MOST = 3
"""Places in the report."""
_WIDER = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_FORMATS = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32", torch.float64: "fp64"}
_MOST_OPERATIONS = 400
"""Operations of a step up to which formats are chosen one by one."""


def add_remedies(trace: Trace, patient: Patient, group: str | Sequence[str]) -> None:
    """Adds to events what mends them on the sample."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tell("trying rewrites …")
        _add_rewrites(trace, patient, group)
        tell("trying other formats …")
        _add_formats(trace, patient)
        tell("trying guards and scales …")
        _add_trials(trace, patient)


def _add_trials(trace: Trace, patient: Patient) -> None:
    """A guard at the event, a wider eps and another loss scale: of each kind the first that mends."""
    first = trace.first
    if first is None or first.kind not in (*NOT_FINITE, "underflow") or first.kind == "input":
        return
    tried = [guard_trial(patient, first)] if first.kind in NOT_FINITE else []
    tried.append(next((trial for trial in eps_trials(patient) if trial.mends), None))
    if first.backward:
        tried.append(next((trial for trial in scale_trials(patient) if trial.mends), None))
    first.remedies += [str(trial) for trial in tried if trial is not None and trial.mends]


# rewrites


def _add_rewrites(trace: Trace, patient: Patient, group: str | Sequence[str]) -> None:
    for backward in (False, True) if patient.backward else (False,):
        settings = Settings(load_rules(*([group] if isinstance(group, str) else group)), ranges="sample", backward=backward)
        found = rewritten(patient, settings)
        if found is None:
            return
        program, comparison = found
        trained = patient.train(program_change(program)) if comparison.mends else None
        if comparison.mends and (trained is None or trained.is_finite):
            how = "hnfc.optimize(backward=True)" if backward else "hnfc.optimize"
            places = [rewrite["place"] for rewrite in program.report.data["rewrites"]]
            if patient.has_loss_beside and not all(place.startswith(INSIDE) for place in places):
                # rewriting the model alone would leave the loss as it is
                how = f"{how} of a module that returns the loss"
            _name_rewrites(trace, program, f"{patient.what} {comparison}{after(trained)}", how)
            return


def program_change(program: CapturedProgram) -> StepChange:
    """A rewritten program in the place of the module that it was made from."""

    def call(module: torch.nn.Module) -> Any:
        def run(*given: Any, **named: Any) -> Any:
            leaves = pytree.tree_leaves((given, named))
            return program.run(module, leaves, program.signature.gather(module, leaves))

        return run

    return StepChange(call)


def module_change(made: torch.nn.Module) -> StepChange:
    """A module with the same parameters, or copies of them in another type, in the place of another."""

    def call(module: torch.nn.Module) -> Any:
        given = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        return shadow(made, {id(tensor): given[name] for name, tensor in (*made.named_parameters(), *made.named_buffers())})

    forms = {tensor.dtype for tensor in made.parameters() if tensor.is_floating_point()}
    return StepChange(call, form=forms.pop() if len(forms) == 1 else None)


def rewritten(patient: Patient, settings: Settings) -> tuple[CapturedProgram, RunComparison] | None:
    """The model with what hnfc.optimize does to it, and what that does to a step; None where nothing is done."""
    args, kwargs = arguments_of(patient.sample)
    whole = with_loss(patient.model, patient.loss)
    try:
        program = CapturedProgram.of(whole, tuple(args), dict(kwargs), settings)
        call = program_change(program).call(whole)
        return program, compare(patient.step, step_of(whole, args, kwargs, patient.backward, call))
    except REFUSALS:
        return None


def _name_rewrites(trace: Trace, program: CapturedProgram, effect: str, how: str) -> None:
    by_place: dict[str, set[str]] = {}
    for rewrite in program.report.data["rewrites"]:
        by_place.setdefault(rewrite["place"], set()).add(rewrite["rule"])
    everything = [f"{', '.join(sorted(rules))} at {place}" for place, rules in by_place.items()]
    elsewhere = "; ".join(everything[:_MOST]) + (f" and {len(everything) - _MOST} more places" if len(everything) > _MOST else "")
    for event in trace.events:
        here = sorted(by_place.get(event.place.removeprefix(GRADIENT), ()))
        if here:
            event.remedies.append(f"{how} rewrites this place by {', '.join(here)}: {effect}")
        elif event is trace.first and elsewhere:
            event.remedies.append(f"{how} applies {elsewhere}: {effect}")
        elif event is trace.first:
            event.remedies.append(f"{how} gives it the right derivative: {effect}")


# formats


def _add_formats(trace: Trace, patient: Patient) -> None:
    """The narrowest format in which the whole model is right, and the choice of formats value by value."""
    first = trace.first
    if first is None or first.kind in ("input", "constant"):
        return
    narrow = _narrowest(patient)
    wider = [] if narrow is None else [t for t in _WIDER if torch.finfo(t).bits >= torch.finfo(narrow).bits and t != narrow]
    for dtype in wider:
        comparison = in_format(patient, dtype)
        if narrow is None or comparison is None or not comparison.accurate:
            continue
        trained = patient.train(StepChange(form=dtype))
        if trained is not None and not trained.is_finite:
            continue
        name = str(dtype).removeprefix("torch.")
        size = f" ({first.reached:.3g} ≤ {torch.finfo(dtype).max:.3g})" if first.reached is not None else ""
        first.remedies.append(f"{name} holds the result{size}: {patient.what} {comparison}{after(trained)}")
        first.remedies += _chosen_formats(patient, (_FORMATS[narrow], _FORMATS[dtype]))
        return


def _floats(patient: Patient) -> Iterator[torch.Tensor]:
    tensors = [*patient.model.parameters(), *patient.model.buffers(), *pytree.tree_leaves(arguments_of(patient.sample))]
    return (x for x in tensors if isinstance(x, torch.Tensor) and x.is_floating_point())


def _narrowest(patient: Patient) -> torch.dtype | None:
    return min((x.dtype for x in _floats(patient) if x.dtype in _WIDER), key=lambda t: (torch.finfo(t).bits, _WIDER.index(t)), default=None)


def in_format(patient: Patient, dtype: torch.dtype) -> RunComparison | None:
    """Error of a step by a copy of the model in a format."""
    try:
        model = copy.deepcopy(patient.model).to(dtype)
        args, kwargs = pytree.tree_map_only(torch.Tensor, partial(_converted, dtype), arguments_of(patient.sample))
        step = step_of(with_loss(model, patient.loss), args, kwargs, patient.backward)
        return compare(patient.step, step, dtype)
    except REFUSALS:
        return None


def _converted(dtype: torch.dtype, tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to(dtype).requires_grad_(tensor.requires_grad) if tensor.is_floating_point() else tensor


def _chosen_formats(patient: Patient, formats: tuple[str, str]) -> list[str]:
    """The remedy that formats of single values are, if it was seen to work."""
    if patient.step.run.count > _MOST_OPERATIONS:
        return []
    training = patient.backward and any(p.requires_grad for p in patient.model.parameters())
    whole = patient.model if training else with_loss(patient.model, patient.loss)
    try:
        optimizer = PrecisionOptimizer(formats=formats)
        if training:
            analysis: Any = optimizer.analyze_training(patient.model, patient.sample, loss=patient.loss)
        else:
            analysis = optimizer.analyze(whole, patient.sample)
        args, kwargs = arguments_of(patient.sample)
        applied = analysis.apply()
        comparison = compare(patient.step, step_of(applied, args, kwargs, patient.backward), torch.float16)
    except REFUSALS:
        return []
    trained = patient.train(module_change(applied)) if comparison.accurate else None
    if not comparison.accurate or (trained is not None and not trained.is_finite):
        return []
    call = f"{'analyze_training' if training else 'analyze'}(model, sample{', loss=loss' if training and patient.loss else ''})"
    return [f"hnfc.PrecisionOptimizer(formats={formats}).{call} chooses formats: {patient.what} {comparison}{after(trained)}"]
