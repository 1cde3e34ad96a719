"""The tables and the picture of what was measured of the networks."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from experiment_networks import WAYS
from experiment_pages import Claim, Data, Section, number, short, table
from experiment_pictures import bars

_FORMS = ("float64", "float16", "int8")


def section(data: Data) -> Section:
    networks = data["networks"]
    parts = [
        f"scikit-learn's digits: {data['train']} images of 8×8 pixels to train on, {data['test']} to test. Adam, {data['epochs']} epochs, "
        "batches of 64, seed 0. *torch's own* is written with torch's functions; *formulas* has softmax, its logarithm, SiLU and "
        "normalizations (by E[x²] - E[x]²) written down; `stability` and `all` are the formulas after `hnfc.optimize`. A network has two "
        "outputs, logits and logarithms of probabilities. Below the first table all have the parameters that torch's own came to.",
        "**Training in float32**\n\n" + _training(networks),
        "**Condition numbers** of the weights, σ₁/σₙ; and κ of the operations on one image, by `hnfc.analyze(…, certified=True)`, with the "
        "certified bound of the outputs in float32\n\n" + _conditions(networks),
        "**Results.** Errors are the largest of any test image, beside the largest value, against float64: of float16 on the same rounded "
        "parameters, of int8 (weights and what layers of weights are given in 8 bits, symmetric, one scale each, arithmetic in float32) on "
        "the parameters as they are.\n\n" + _results(networks),
        "![float16 errors of the networks](experiments/networks.svg)",
        "**Gradients in float16** of the minibatches of one epoch: the median distance from float64, relative, on the same parameters; and "
        "the variance E‖g - ḡ‖²/‖ḡ‖². Batches with a gradient that is not finite are counted and left out.\n\n" + _gradients(networks),
        "**What each rule gave**: the error of the logarithms of probabilities in float16 with that rule alone, and with all of the level "
        "`all` but that one. Rules that need another to have run do nothing alone; "
        "`exp_widened` changed nothing anywhere and is not shipped any more.\n\n" + _rules(networks),
    ]  # fmt: skip
    return Section("\n\n".join(parts), _claims(networks), {"networks.svg": _picture(networks)})


def _training(networks: Sequence[Data]) -> str:
    rows = []
    for network in networks:
        for way, found in network["training"].items():
            finite = "yes" if found["finite"] else "**no**"
            rows.append([network["name"], network["parameters"], _way(way), *(short(number(found[end]), 4) for end in ("first", "last")),
                         finite, f"{found['accuracy']:.1%}"])  # fmt: skip
    return table(["network", "parameters", "written", "first loss", "last loss", "always finite", "accuracy"], rows)


def _way(way: str) -> str:
    return way if way in WAYS[:2] else f"`{way}`"


def _conditions(networks: Sequence[Data]) -> str:
    rows = []
    for network in networks:
        weights = [number(w) for w in network["weights"]]
        cells = [short(f(weights), 3) for f in (min, statistics.median, max)]
        for found in (network["operations"][way] for way in ("formulas", "stability")):
            cells += [short(number(found["median"])), short(number(found["max"])), f"{found['infinite']} of {found['operations']}",
                      short(number(found["bound"]))]  # fmt: skip
        rows.append([network["name"], *cells])
    each = ["κ median", "max", "infinite", "bound"]
    return table(["network", "weights min", "median", "max", *(f"{way}: {x}" for way in ("formulas", "`stability`") for x in each)], rows)


def _results(networks: Sequence[Data]) -> str:
    rows = []
    for network in networks:
        for way in WAYS:
            found = {form: network["results"][form][way] for form in _FORMS}
            half, eight = found["float16"], found["int8"]
            rows.append([
                network["name"], _way(way), *(f"{found[form]['accuracy']:.1%}" for form in _FORMS), short(number(half["logits"])),
                short(number(half["log-probabilities"])), half["not finite"],
                short(number(eight["log-probabilities"])), eight["not finite"],
            ])  # fmt: skip
    errors = ["float16: error of logits", "of log-probabilities", "not finite", "int8: error of log-probabilities", "not finite"]
    return table(["network", "written", *(f"accuracy {form}" for form in _FORMS), *errors], rows)


def _gradients(networks: Sequence[Data]) -> str:
    rows = []
    for network in networks:
        for when, found in network["gradients"].items():
            for way in WAYS:
                here = found[way]
                rows.append([network["name"], when, _way(way), short(number(here["error"])), f"{here['not finite']} of {here['batches']}",
                             short(number(here["variance"]), 4), short(number(found["float64"]["variance"]), 4)])  # fmt: skip
    return table(["network", "parameters", "written", "distance", "batches not finite", "variance in float16", "in float64"], rows)


def _rules(networks: Sequence[Data]) -> str:
    rows = []
    for network in networks:
        found = network["rules"]
        rows.append([network["name"], "*none*", "", _quality(found["none"]), ""])
        rows += [[network["name"], f"`{rule}`", each["places"], _quality(each["alone"]), _quality(each["without"])]
                 for rule, each in found["each"].items()]  # fmt: skip
        rows.append([network["name"], "*all of these*", sum(each["places"] for each in found["each"].values()), _quality(found["all"]), ""])
    return table(["network", "rule", "places", "alone", "all but this one"], rows)


def _quality(found: Data) -> str:
    lost = f", {found['not finite']} not finite" if found["not finite"] else ""
    return short(number(found["log-probabilities"])) + lost


def _picture(networks: Sequence[Data]) -> str:
    found = [network["results"]["float16"] for network in networks]
    series = {way: [math.inf if f[way]["not finite"] else number(f[way]["log-probabilities"]) for f in found] for way in WAYS}
    return bars("Largest error of the log-probabilities in float16", [network["name"] for network in networks], series, "relative error")


def _claims(networks: Sequence[Data]) -> list[Claim]:
    def claim(text: str, target: str, pairs: Sequence[tuple[float, float]], is_so: Callable[[float, float], bool]) -> Claim:
        names = [n["name"] + when for n in networks for when in ([""] if len(pairs) == len(networks) else [" new", " trained"])]
        measured = ", ".join(f"{name} {short(a, 3)} → {short(b, 3)}" for name, (a, b) in zip(names, pairs, strict=True))
        return Claim(text, target, measured, sum(is_so(a, b) for a, b in pairs), len(pairs))

    def results(form: str, what: str, way: str) -> list[tuple[float, float]]:
        found = [network["results"][form] for network in networks]
        return [(_value(f["formulas"], what), _value(f[way], what)) for f in found]

    def gradients(what: str, way: str) -> list[tuple[float, float]]:
        found = [network["gradients"][when] for network in networks for when in ("new", "trained")]
        return [(_value(f["formulas"], what), _value(f[way], what)) for f in found]

    operations = [tuple(number(n["operations"][way]["max"]) for way in ("formulas", "stability")) for n in networks]
    lower, as_good = (lambda a, b: b < a), (lambda a, b: b >= a)
    return [
        claim("Rewriting lowers the largest condition number of the operations (`stability`)", "lower", operations, lower),  # type: ignore[arg-type]
        *(claim(f"Rewriting lowers the float16 error of log-probabilities tenfold (`{way}`)", "10 × or more",
                results("float16", "log-probabilities", way), lambda a, b: b <= a / 10) for way in WAYS[2:]),
        *(claim(f"Rewriting lowers the variance of float16 gradients (`{way}`)", "lower",
                gradients("variance", way), lower) for way in WAYS[2:]),
        *(claim(f"Rewriting brings float16 gradients nearer to float64 ones (`{way}`)", "lower", gradients("error", way), lower)
          for way in WAYS[2:]),
        *(claim(f"Rewritten networks are at least as accurate in {form} (`{way}`)", "no lower", results(form, "accuracy", way), as_good)
          for form in ("float16", "int8") for way in WAYS[2:]),
    ]  # fmt: skip


def _value(found: Data, what: str) -> float:
    """Infinite for an error or a variance where something is not finite."""
    return math.inf if what != "accuracy" and found["not finite"] else number(found[what])
