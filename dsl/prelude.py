"""Definitions that every rule file has: names of torch for what models hold as other operations."""

from __future__ import annotations

from functools import cache

from hnfc.dsl import syntax
from hnfc.dsl.parser import parse

TEXT = """
def masked_fill(x, mask, value) = where(mask, value, x)
def clamp(x, low, high) = minimum(maximum(x, low), high)
def norm[k](x) = sqrt(sum[k](square(x)))
def std[k](x) = sqrt(var[k](x))
"""


@cache
def prelude() -> dict[str, syntax.Definition]:
    """The definitions by name; a file may have others of these names."""
    return {d.name: d for d in parse(TEXT, "<prelude>").declarations if isinstance(d, syntax.Definition)}
