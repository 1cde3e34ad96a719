"""The inputs on which a rule is tried: all of them where they are few, else batches of directed and random ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from hnfc.dsl.core import Apply, Capture, Free, Literal, Property, Rule, SameSize, attribute_expressions, conjuncts
from hnfc.dsl.ieee.arithmetic import INTEGERS
from hnfc.dsl.ieee.arithmetic import is_pointwise as is_pointwise_operation
from hnfc.dsl.ieee.evaluate import Batch
from hnfc.dsl.ieee.formats import BINARY, Array, all_values, rounded
from hnfc.dsl.ieee.values import core, corners, discrete, ordinary, patterns, specials
from hnfc.dsl.soundness.scan import declared_bounds, rule_expressions
from hnfc.dsl.soundness.typing import Typing

EXHAUSTIVE = 1 << 17
"""The most inputs that are tried one by one."""
UNIFORM_UNARY = {"f32": 1 << 16, "f64": 1 << 14}
BLOCK = 2048
"""Number of random inputs of each sort."""


@dataclass
class TrialBatch:
    """A batch to try; `complete`: these are all inputs there are; `uniform`: where random bit patterns start (for frequencies)."""

    batch: Batch
    complete: bool = False
    uniform: int | None = None


def is_pointwise(rule: Rule) -> bool:
    """Return whether every element of the result depends on one element of each capture, whatever the shapes."""
    nodes = rule_expressions(rule)
    return (
        all(isinstance(n, Capture | Literal) or (isinstance(n, Apply) and is_pointwise_operation(n.operation)) for n in nodes)
        and not any(attribute_expressions(n) for n in nodes)
        and not any(isinstance(c, Free | SameSize) or (isinstance(c, Property) and c.name == "rank") for c in conjuncts(rule.where))
    )


def pointwise_trials(rule: Rule, typing: Typing) -> Iterator[TrialBatch]:
    """Scalars for a rule that is pointwise: what holds for every scalar holds for every element of a tensor."""
    domains = {name: values for name, element in typing.captures.items() if (values := _domain(element)) is not None}
    if len(domains) == len(typing.captures) and math.prod(map(len, domains.values())) <= EXHAUSTIVE:
        grid = np.meshgrid(*domains.values(), indexing="ij")
        inputs = {name: values.reshape(-1) for name, values in zip(domains, grid, strict=True)}
        yield TrialBatch(Batch(inputs, {}, typing), complete=True, uniform=0)
    else:
        yield _directed(rule, typing, np.random.default_rng(0))


def count_inputs(elements: Mapping[str, str]) -> int:
    """Number of inputs, each NaN counted."""

    def count(element: str) -> int:
        return 2 if element == "i1" else 1 << (BINARY[element].bits if element in BINARY else 8 * np.dtype(INTEGERS[element]).itemsize)

    return math.prod(map(count, elements.values()))


def _domain(element: str) -> Array | None:
    """Every value of an element type, if they can be listed."""
    if element == "i1":
        return np.array([False, True])
    if element in BINARY and BINARY[element].small:
        return all_values(BINARY[element])
    if element in INTEGERS and np.dtype(INTEGERS[element]).itemsize <= 2:
        bounds = np.iinfo(INTEGERS[element])
        return np.arange(bounds.min, bounds.max + 1, dtype=INTEGERS[element])
    return None


def required_signs(rule: Rule) -> dict[str, float]:
    """The captures that `where` keeps on one side of 0, with the sign that they must have."""
    return {name: 1.0 if least >= 0 else -1.0 for name, (least, most) in declared_bounds(rule).items() if least >= 0 or most <= 0}


def _directed(rule: Rule, typing: Typing, random: np.random.Generator) -> TrialBatch:
    """Special numbers in all combinations, related and random ones, and last the uniform ones."""
    floats = {name: BINARY[element] for name, element in typing.captures.items() if element in BINARY}
    blocks: list[dict[str, Array]] = []
    every = {name: specials(form, rule) for name, form in floats.items()}
    uniform = BLOCK
    if len(floats) == 1:
        ((name, form),) = floats.items()
        blocks.append({name: every[name] if form.small else np.concatenate([every[name], corners(form)])})
        uniform = UNIFORM_UNARY.get(form.name, BLOCK)
    elif floats:
        pools = every if len(floats) == 2 else {name: core(form, rule) for name, form in floats.items()}
        if len(floats) <= 3:
            grid = np.meshgrid(*pools.values(), indexing="ij")
            blocks.append({name: values.reshape(-1) for name, values in zip(pools, grid, strict=True)})
        blocks.append({name: random.choice(every[name], BLOCK) for name in floats})
        blocks += _related(typing, list(floats), next(iter(every.values())), random)
        blocks.append({name: ordinary(form, BLOCK, random) for name, form in floats.items()})
    start = sum(len(next(iter(block.values()))) for block in blocks)
    blocks.append({name: patterns(form, uniform, random) for name, form in floats.items()})
    inputs = {name: np.concatenate([block[name] for block in blocks]) for name in floats}
    for name, element in typing.captures.items():
        if name not in inputs:
            inputs[name] = discrete(element, start + uniform, random)
    signs = required_signs(rule)
    for name in signs.keys() & floats.keys():
        inputs[name] = np.copysign(inputs[name], signs[name])
    return TrialBatch(Batch(inputs, {}, typing), uniform=None if signs else start)


def _related(typing: Typing, floats: list[str], pool: Array, random: np.random.Generator) -> list[dict[str, Array]]:
    """All captures equal, opposite, or neighbours of such: what cancels."""
    first = BINARY[typing.captures[floats[0]]]
    base = np.concatenate([pool, ordinary(first, 256, random)])
    blocks = []
    for factors in itertools.islice(itertools.product((1.0, -1.0), repeat=len(floats) - 1), 4):
        for stray in (0, 1):
            block = {floats[0]: base}
            for name, factor in zip(floats[1:], factors, strict=True):
                form = BINARY[typing.captures[name]]
                step = stray * random.integers(-2, 3, len(base)) * 2.0 ** (1 - form.precision)
                with np.errstate(all="ignore"):
                    block[name] = rounded(base * factor * (1 + step), form)
            blocks.append(block)
    return blocks
