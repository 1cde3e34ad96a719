"""Small networks trained on real images, before and after rewriting: conditions, errors, gradients, accuracy, what each rule gave."""

from __future__ import annotations

import copy
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from experiment_nets import NETWORKS, Classifier, Digits, in_int8, loss_of, network, trained, with_parameters_of
from experiment_pages import Data, plain
from torch import Tensor, nn

import hnfc
from hnfc.pytorch.differences import Difference
from hnfc.rewriter import RuleSet, load_rules

EPOCHS = 15
WAYS = ("torch's own", "formulas", "stability", "all")
"""torch's functions, the formulas as written, and these after rewriting at two levels."""


def measure(
    epochs: int = EPOCHS, names: Sequence[str] = NETWORKS, tried: int | None = None, progress: Callable[[str], None] = lambda text: None
) -> Data:
    """Everything about each network; parameters are those that torch's own functions were trained to, in float32.

    tried: how many of the rules that ran are tried alone and left out.
    """
    digits, rules = Digits(), {level: load_rules(level) for level in WAYS[2:]}
    found = []
    for name in names:
        progress(name)
        found.append(_network(name, epochs, digits, rules, tried))
    return {"networks": found, "epochs": epochs, "train": len(digits.train), "test": len(digits.test)}


def _network(name: str, epochs: int, digits: Digits, rules: dict[str, RuleSet], tried: int | None) -> Data:
    training = {way: _training(name, way, epochs, digits, rules) for way in ("torch's own", "formulas", "stability")}
    new = _seeded(name, formulas=False)
    model = copy.deepcopy(new)
    trained(model, digits, epochs)
    ways = {form: _ways(model, name, form, digits, rules) for form in ("float64", "float16", "int8")}
    fired = hnfc.diff(*ways["float16"]["written"]["all"])
    return {
        "name": name, "parameters": sum(p.numel() for p in model.parameters()), "training": training,
        "weights": _weight_conditions(model), "operations": _operation_conditions(model, name, digits, rules),
        "results": {form: {way: _quality(found, form, model, name, digits) for way, found in each["models"].items()}
                    for form, each in ways.items()},
        "gradients": {when: _gradients(at, name, digits, rules) for when, at in (("new", new), ("trained", model))},
        "rules": _rules(model, name, digits, rules["all"], fired, tried),
    }  # fmt: skip


def _sample(digits: Digits) -> Tensor:
    """What is optimized on: as many images as are tested, so that these are no other kind of call."""
    return digits.train[: len(digits.test)]


def _seeded(name: str, formulas: bool) -> Classifier:
    torch.manual_seed(0)
    return network(name, formulas)


def _training(name: str, way: str, epochs: int, digits: Digits, rules: dict[str, RuleSet]) -> Data:
    """Trains it in this way of writing, in float32, from the same parameters."""
    model: nn.Module = _seeded(name, formulas=way != "torch's own").train()
    if way in rules:
        model = hnfc.optimize(model, next(iter(digits.batches(0)))[0], rules=rules[way])
    losses = trained(model, digits, epochs)
    return {"first": plain(losses[0]), "last": plain(losses[-1]), "finite": all(map(math.isfinite, losses)),
            "accuracy": _accuracy(model, digits, torch.float32)}  # fmt: skip


def _ways(model: Classifier, name: str, form: str, digits: Digits, rules: dict[str, RuleSet]) -> Data:
    """The trained network in each way of writing, in a format; `written` has each rewritten one beside what it was made of."""
    dtype = {"float64": torch.float64, "float16": torch.float16, "int8": torch.float32}[form]
    own, formulas = (with_parameters_of(model, name, formulas) for formulas in (False, True))
    if form == "int8":
        own, formulas = in_int8(own, digits.train), in_int8(formulas, digits.train)
    own, formulas = own.to(dtype), formulas.to(dtype)
    sample = _sample(digits).to(dtype)
    better = {level: hnfc.optimize(formulas, sample, rules=known) for level, known in rules.items()}
    return {
        "models": {"torch's own": own, "formulas": formulas, **better},
        "written": {level: (formulas, b) for level, b in better.items()},
    }


# condition numbers


def _weight_conditions(model: Classifier) -> list[float | str]:
    """σ₁/σₙ of each matrix of weights, kernels having a row for each channel that they give."""
    found = []
    for layer in model.layers:
        assert isinstance(layer, nn.Linear | nn.Conv2d)
        found.append(plain(float(torch.linalg.cond(layer.weight.detach().double().flatten(1)))))
    return found


def _operation_conditions(model: Classifier, name: str, digits: Digits, rules: dict[str, RuleSet]) -> dict[str, Data]:
    """κ of the operations on one image, by `hnfc.analyze`, as written and rewritten."""
    formulas, image = with_parameters_of(model, name, formulas=True), digits.test[:1]
    found = {}
    for way, one in (("formulas", formulas), ("stability", hnfc.optimize(formulas, image, rules=rules["stability"]))):
        analysis = hnfc.analyze(one, image, certified=True)
        known = [f.condition for f in analysis.findings if f.condition is not None]
        finite = [x for x in known if math.isfinite(x)]
        found[way] = {"median": plain(statistics.median(finite)), "max": plain(max(finite)), "infinite": len(known) - len(finite),
                      "operations": len(known), "bound": plain(analysis.error)}  # fmt: skip
    return found


# results


def _accuracy(model: nn.Module, digits: Digits, dtype: torch.dtype) -> float:
    """The part of the test images that are named rightly; what is not finite is wrong."""
    with torch.no_grad():
        found = model(digits.test.to(dtype))[1].float()
    right = (found.argmax(-1) == digits.test_labels) & ~torch.isnan(found).any(-1)
    return round(float(right.float().mean()), 4)


def _quality(model: nn.Module, form: str, base: Classifier, name: str, digits: Digits) -> Data:
    """Accuracy, and the largest errors of logits and logarithms of probabilities beside the largest of these.

    The reference is float64 on parameters as the format holds them; of 8-bit integers, on the parameters as they are.
    """
    dtype = {"float64": torch.float64, "float16": torch.float16, "int8": torch.float32}[form]
    true = with_parameters_of(base, name, formulas=False)
    true = (true.half() if form == "float16" else true).double()
    with torch.no_grad():
        found, truth = model(digits.test.to(dtype)), true(digits.test.double())
    errors = [_error(f, t) for f, t in zip(found, truth, strict=True)]
    lost = sum(int((~torch.isfinite(f)).sum()) for f in found)
    return {"accuracy": _accuracy(model, digits, dtype), "logits": errors[0], "log-probabilities": errors[1], "not finite": lost}


def _error(found: Tensor, truth: Tensor) -> float | str:
    """max |found - truth| / max |truth|, of what is finite."""
    good = torch.isfinite(found)
    return plain(float((found.double() - truth)[good].abs().max() / truth.abs().max())) if bool(good.any()) else "inf"


# gradients


def _gradients(model: Classifier, name: str, digits: Digits, rules: dict[str, RuleSet]) -> Data:
    """Variance over minibatches, and the distance of float16 gradients from float64 ones, by way of writing.

    Both are by the same parameters, rounded to float16. variance: E|g - ḡ|²/|ḡ|².
    """
    own, formulas = (with_parameters_of(model, name, formulas).half() for formulas in (False, True))
    true = _all_gradients(copy.deepcopy(own).double(), digits, torch.float64)
    result: Data = {"float64": {"variance": plain(_variance(true))}}
    sample = next(iter(digits.batches(0)))[0].half()
    models: dict[str, nn.Module] = {"torch's own": own.train(), "formulas": formulas.train()}
    models |= {level: hnfc.optimize(copy.deepcopy(formulas), sample, rules=known) for level, known in rules.items()}
    for way, one in models.items():
        found = _all_gradients(one, digits, torch.float16)
        good = np.isfinite(found).all(axis=1)
        away = np.linalg.norm(found[good] - true[good], axis=1) / np.linalg.norm(true[good], axis=1)
        result[way] = {
            "not finite": int((~good).sum()), "batches": len(found), "error": plain(float(np.median(away))) if good.any() else "inf",
            "variance": plain(_variance(found[good])) if good.sum() > 1 else "inf",
        }  # fmt: skip
    return result


def _all_gradients(model: nn.Module, digits: Digits, dtype: torch.dtype) -> np.ndarray:
    """A row for each minibatch."""
    model.train()
    rows = []
    for images, labels in digits.batches(0):
        parameters = [p for p in model.parameters() if p.requires_grad]
        found = torch.autograd.grad(loss_of(model, images.to(dtype), labels), parameters)
        rows.append(torch.cat([g.detach().double().reshape(-1) for g in found]).numpy())
    return np.stack(rows)


def _variance(rows: np.ndarray) -> float:
    mean = rows.mean(axis=0)
    return float(((rows - mean) ** 2).sum(axis=1).mean() / (mean**2).sum())


# rules


def _rules(model: Classifier, name: str, digits: Digits, rules: RuleSet, fired: Difference, tried: int | None) -> Data:
    """The error of the logarithms of probabilities in float16 with none of the rules, with all, with each alone, and without each."""
    counts: dict[str, int] = {}
    for entry in fired.data:
        for rewrite in entry["rewrites"]:
            counts[rewrite["rule"]] = counts.get(rewrite["rule"], 0) + 1

    def quality(names: set[str]) -> Data:
        formulas = with_parameters_of(model, name, formulas=True).half()
        chosen = replace(rules, phases=tuple(tuple(rule for rule in phase if rule.name in names) for phase in rules.phases))
        better = hnfc.optimize(formulas, _sample(digits).half(), rules=chosen)
        return _quality(better, "float16", model, name, digits)

    everything = set(counts)
    each = {rule: {"places": counts[rule], "alone": quality({rule}), "without": quality(everything - {rule})} for rule in [*counts][:tried]}
    return {"none": quality(set()), "all": quality(everything), "each": each}
