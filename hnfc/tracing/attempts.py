"""Remedies by name, each tried on a step: a rewrite, a format, a guard of operands, an eps, a scale of the loss."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from hnfc.core.errors import UsageError
from hnfc.pipeline.rulesets import load_rules
from hnfc.pytorch.settings import Settings
from hnfc.tracing.course import StepChange
from hnfc.tracing.events import Event
from hnfc.tracing.patients import Patient
from hnfc.tracing.remedies import in_format, program_change, rewritten
from hnfc.tracing.trials import RemedyTrial, eps_trial, guard_trial, scale_trial

REMEDIES = ("rewrite", "guard", "eps=E", "scale=S", "float64", "float32", "bfloat16", "float16")
"""Names of remedies; E and S are numbers."""
ALL = ("rewrite", "guard", "eps=1e-06", "eps=1e-05", "scale=0.00390625", "scale=65536", "bfloat16", "float32", "float64")


def attempt(name: str, patient: Patient, first: Event | None) -> RemedyTrial | None:
    """The remedy of a name, tried; None where there is nothing that it could change. first: the event that a guard is for.

    Raises UsageError for a name that is none.
    """
    kind, _, number = name.partition("=")
    if kind in ("eps", "scale"):
        value = positive(number, "eps=1e-6, scale=1024")
        return (eps_trial if kind == "eps" else scale_trial)(patient, value)
    known: dict[str, Callable[[], RemedyTrial | None]] = {
        "rewrite": lambda: _rewrite(patient),
        "guard": lambda: None if first is None else guard_trial(patient, first),
        **{form: lambda form=form: _format(patient, form) for form in ("float64", "float32", "bfloat16", "float16")},  # type: ignore[misc]
    }
    if name not in known:
        raise UsageError(f"there is no remedy {name!r}: there are {', '.join(REMEDIES)}")
    return known[name]()


def positive(text: str, such: str) -> float:
    """The number of a remedy. such: names of remedies that have one. Raises UsageError where it is not above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise UsageError(f"a remedy's number is above 0, not {text!r}: {such}")
    return value


def _rewrite(patient: Patient) -> RemedyTrial | None:
    best: RemedyTrial | None = None
    for backward in (False, True) if patient.backward else (False,):
        found = rewritten(patient, Settings(load_rules("stability"), ranges="sample", backward=backward))
        if found is None or not found[0].report.data["rewrites"]:
            continue
        program, comparison = found
        rules = sorted({rewrite["rule"] for rewrite in program.report.data["rewrites"]})
        call = f"hnfc.optimize(model, sample{', backward=True' if backward else ''})"
        trial = RemedyTrial("rewrite", f"{call}, which applies {', '.join(rules)}", comparison)
        trial = trial.trained_on(patient, program_change(program))
        if best is None or (trial.mends and not best.mends):
            best = trial
    return best


def _format(patient: Patient, form: str) -> RemedyTrial | None:
    comparison = in_format(patient, getattr(torch, form))
    if comparison is None:
        return None
    trial = RemedyTrial(form, f"model.to(torch.{form}), and the inputs", comparison)
    return trial.trained_on(patient, StepChange(form=getattr(torch, form)))
