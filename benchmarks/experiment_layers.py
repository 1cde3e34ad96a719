"""Attention, layer norm and batch norm as they are written down, before and after rewriting, in float32 and float16, at several sizes.

Data are as in practice: logits of tens and more, activations whose mean is large beside their spread. The reference is torch's own
function in float64 on the same (rounded) inputs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from experiment_measures import largest_relative
from experiment_pages import Claim, Data, Section, number, plain, ratio, short, table, times
from experiment_pattern_list import Formula
from experiment_pictures import bars
from torch import Tensor
from torch.nn import functional as F

import hnfc
from hnfc.rewriter import load_rules

TARGET = 10.0
FORMATS = {"float32": torch.float32, "float16": torch.float16}
LEVELS = ("stability", "all")


@dataclass(frozen=True)
class Layer:
    """naive: as written down. own: torch's function, which is the reference in float64. sizes: of the inputs, smallest first."""

    name: str
    naive: Callable[..., Tensor]
    own: Callable[..., Tensor]
    inputs: Callable[[torch.Generator, int], tuple[Tensor, ...]]
    sizes: tuple[int, ...]


def _attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    e = torch.exp(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5)
    return e / e.sum(-1, keepdim=True) @ v


def _layer_norm(x: Tensor) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt((x * x).mean(-1, keepdim=True) - mean * mean + 1e-5)


def _batch_norm(x: Tensor) -> Tensor:
    mean = x.mean((0, 2, 3), keepdim=True)
    return (x - mean) / torch.sqrt((x * x).mean((0, 2, 3), keepdim=True) - mean * mean + 1e-5)


def _heads(largest: float) -> Callable[[torch.Generator, int], tuple[Tensor, ...]]:
    """Queries, keys and values of one head of width 64, with logits up to about `largest`."""

    def inputs(seeded: torch.Generator, size: int) -> tuple[Tensor, ...]:
        q, k, v = (torch.randn(1, size, 64, generator=seeded) for _ in range(3))
        logits = float((q @ k.transpose(-1, -2)).abs().max()) / 8
        return q * (largest / logits), k, v

    return inputs


def _rows(mean: float) -> Callable[[torch.Generator, int], tuple[Tensor, ...]]:
    return lambda seeded, size: (mean + torch.randn(32, size, generator=seeded),)


def _images(mean: float) -> Callable[[torch.Generator, int], tuple[Tensor, ...]]:
    return lambda seeded, size: (mean + torch.randn(16, 8, size, size, generator=seeded),)


LAYERS = (
    Layer("attention, logits to 10", _attention, F.scaled_dot_product_attention, _heads(10), (16, 64, 256)),
    Layer("attention, logits to 60", _attention, F.scaled_dot_product_attention, _heads(60), (16, 64, 256)),
    Layer("attention, logits to 150", _attention, F.scaled_dot_product_attention, _heads(150), (16, 64, 256)),
    Layer("layer norm, mean 10", _layer_norm, lambda x: F.layer_norm(x, x.shape[-1:]), _rows(10), (64, 256, 1024)),
    Layer("layer norm, mean 100", _layer_norm, lambda x: F.layer_norm(x, x.shape[-1:]), _rows(100), (64, 256, 1024)),
    Layer("layer norm, mean 1000", _layer_norm, lambda x: F.layer_norm(x, x.shape[-1:]), _rows(1000), (64, 256, 1024)),
    Layer("batch norm, mean 10", _batch_norm, lambda x: F.batch_norm(x, None, None, training=True), _images(10), (4, 8, 16)),
    Layer("batch norm, mean 100", _batch_norm, lambda x: F.batch_norm(x, None, None, training=True), _images(100), (4, 8, 16)),
    Layer("batch norm, mean 1000", _batch_norm, lambda x: F.batch_norm(x, None, None, training=True), _images(1000), (4, 8, 16)),
)


def measure(count: int | None = None, sizes: int | None = None, progress: Callable[[str], None] = lambda text: None) -> Data:
    """Of the first `count` layers at their first `sizes` sizes: errors as written, at each level, and of torch's own in the format."""
    rules = {level: load_rules(level) for level in LEVELS}
    rows = []
    for layer in LAYERS[:count]:
        progress(layer.name)
        for size in layer.sizes[:sizes]:
            drawn = layer.inputs(torch.Generator().manual_seed(size), size)
            for name, dtype in FORMATS.items():
                inputs = tuple(x.to(dtype) for x in drawn)
                truth = layer.own(*(x.double() for x in inputs))
                row: Data = {"layer": layer.name, "size": size, "format": name, "errors": {}, "rules": []}
                model = Formula(layer.naive)
                row["errors"]["as written"] = _errors(model(*inputs), truth)
                for level, known in rules.items():
                    better = hnfc.optimize(model, inputs, rules=known)
                    row["errors"][level] = _errors(better(*inputs), truth)
                    row["rules"] = list(dict.fromkeys(r["rule"] for entry in hnfc.diff(model, better).data for r in entry["rewrites"]))
                row["errors"]["torch's own"] = _errors(layer.own(*inputs), truth)
                row["reference"] = _errors(layer.naive(*(x.double() for x in inputs)), truth)[0]
                rows.append(row)
    return {"layers": rows}


def _errors(found: Tensor, truth: Tensor) -> list[float | str]:
    """The largest error of an element relative to itself, where that is not 0, and relative to the largest element."""
    computed, exact = found.detach().double().numpy(), truth.detach().double().numpy()
    some = (exact != 0) | ~np.isfinite(computed)
    return [plain(largest_relative(computed[some], exact[some])), plain(largest_relative(computed, exact, float(abs(exact).max())))]


# the page


def section(data: Data) -> Section:
    rows = data["layers"]
    text = (
        "Largest errors of an element relative to itself, where it is not 0, and in the last columns relative to the largest element of "
        "the result, which small elements do not decide. The reference is torch's own function in float64, on inputs that were rounded to "
        "the format first; as written, the layers in float64 are within "
        f"{short(max(number(row['reference']) for row in rows))} of it. Width of attention 64, of batch norm 8 channels and 16 images; "
        "*size* is the number of tokens, the width of the row, the side of the image. Rules are those of the level `all`."
    )
    headings = ["layer", "size", "format", "as written", "`stability`", "`all`", "torch's own", "stability: smaller by", "all: smaller by",
                "beside the largest element, stability", "all", "rules"]  # fmt: skip
    picture = _picture(rows)
    parts = [text, table(headings, [_row(row) for row in rows]), "![errors of the layers](experiments/layers.svg)", _medians(rows)]
    return Section("\n\n".join(parts), _claims(rows), {"layers.svg": picture})


def _gain(row: Data, level: str, kind: int = 0) -> float:
    """How many times smaller the error became; infinite where the result became finite, 1 where neither is."""
    before, after = number(row["errors"]["as written"][kind]), number(row["errors"][level][kind])
    if not math.isfinite(after):
        return 1.0 if not math.isfinite(before) else 0.0
    return before / after if after else (1.0 if not before else math.inf)


def _row(row: Data) -> list[str]:
    errors = row["errors"]
    found = [short(number(errors[name][0])) for name in ("as written", *LEVELS, "torch's own")]
    gains = [ratio(number(errors["as written"][kind]), number(errors[level][kind])) for kind in (0, 1) for level in LEVELS]
    rules = ", ".join(f"`{rule}`" for rule in row["rules"]) or "none"
    return [row["layer"], str(row["size"]), row["format"], *found, *gains, rules]


READINGS = ("relative to itself", "beside the largest element")


def _medians(rows: Sequence[Data]) -> str:
    """By kind of layer, format and level, for both readings of "relative"."""
    lines = []
    for kind in _kinds(rows):
        for name in FORMATS:
            some = [row for row in rows if row["layer"].startswith(kind) and row["format"] == name]
            for level in LEVELS:
                cells = [cell for reading in (0, 1) for cell in _counts([_gain(row, level, reading) for row in some])]
                lines.append([kind, name, f"`{level}`", *cells])
    each = ["median", "≥ 10 ×", "became finite"]
    head = "By how many times the error became smaller: the median where it was finite, and in how many cases it was at least ten times, "
    return head + "or the result became finite.\n\n" + table(
        ["layer", "format", "level", *(f"{reading}: {what}" for reading in READINGS for what in each)], lines
    )  # fmt: skip


def _counts(gains: Sequence[float]) -> list[str]:
    return [_median(gains), *(f"{n} of {len(gains)}" for n in (sum(TARGET <= g < math.inf for g in gains), gains.count(math.inf)))]


def _median(gains: Sequence[float]) -> str:
    finite = [g for g in gains if math.isfinite(g)]
    return times(statistics.median(finite)) if finite else "–"


def _kinds(rows: Sequence[Data]) -> list[str]:
    return list(dict.fromkeys(row["layer"].partition(",")[0] for row in rows))


def _picture(rows: Sequence[Data]) -> str:
    """The errors at the middle size."""
    largest = {row["layer"]: sorted({r["size"] for r in rows if r["layer"] == row["layer"]}) for row in rows}
    shown = [row for row in rows if row["size"] == largest[row["layer"]][len(largest[row["layer"]]) // 2]]
    names = [f"{row['layer']}, {row['format']}" for row in shown]
    series = {name: [number(row["errors"][name][0]) for row in shown] for name in ("as written", *LEVELS, "torch's own")}
    return bars("Largest relative error, middle size", names, series, "relative error")


def _claims(rows: Sequence[Data]) -> list[Claim]:
    """One for each kind of layer and reading; it is reached where one of the levels reaches it."""
    result = []
    for kind in _kinds(rows):
        for reading, words in enumerate(READINGS):
            some = [row for row in rows if row["layer"].startswith(kind)]
            gains = {level: [_gain(row, level, reading) for row in some] for level in LEVELS}
            measured = "; ".join(
                f"`{level}`: median {_median(g)}, {g.count(math.inf)} of {len(g)} became finite" for level, g in gains.items()
            )
            best = [max(each) for each in zip(*gains.values(), strict=True)]
            result.append(Claim(f"The largest error of {kind}, {words}, falls by 10 to 100 times", "10 × or more", measured,
                                sum(g >= TARGET for g in best), len(best)))  # fmt: skip
    return result
