"""Policies of mixed precision: a format for parameters, one for what is computed, one for results; spelled as in JMP and Haliax.

JMP: github.com/google-deepmind/jmp; Haliax adds the semantic dtypes and a policy that is current.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

from hnfc.core.errors import suggestion
from hnfc.dialects.formats import Format
from hnfc.formats.named import LIBRARY_NAMES, UnknownFormat, format_named, known_formats
from hnfc.precision.casting import cast_tree

Tree = TypeVar("Tree")

DTYPE_NAMES = {
    "f64": "fp64", "float64": "fp64", "double": "fp64",
    "f32": "fp32", "float32": "fp32", "full": "fp32",
    "f16": "fp16", "float16": "fp16", "half": "fp16",
    "bf16": "bf16", "bfloat16": "bf16",
}  # fmt: skip
"""Names of formats in JMP; `half` as on a GPU."""

_ALL_NAMES = {name: form for form, name in LIBRARY_NAMES.items()} | DTYPE_NAMES

_SHORT = {"fp64": "f64", "fp32": "f32", "fp16": "f16"}


class SemanticDType(StrEnum):
    """Role of a value; a policy states its format."""

    PARAM = "param"
    COMPUTE = "compute"
    OUTPUT = "output"

    def to_dtype(self, policy: Policy | None = None) -> Format:
        """The format of this part of the policy, by default of the current one."""
        chosen = current_policy() if policy is None else policy
        return {SemanticDType.PARAM: chosen.param, SemanticDType.COMPUTE: chosen.compute, SemanticDType.OUTPUT: chosen.output}[self]


DTypeish: TypeAlias = "str | Format | SemanticDType | Any"
"""A format or its name, a semantic dtype or its name, or a dtype of NumPy or torch."""

_KEYS = {
    "p": SemanticDType.PARAM, "params": SemanticDType.PARAM, "param": SemanticDType.PARAM,
    "c": SemanticDType.COMPUTE, "compute": SemanticDType.COMPUTE,
    "o": SemanticDType.OUTPUT, "output": SemanticDType.OUTPUT,
}  # fmt: skip


@dataclass(frozen=True)
class Policy:
    """`str` of it is what `parse` reads: `p=f32,c=bf16,o=f32`."""

    param: Format
    compute: Format
    output: Format

    @classmethod
    def parse(cls, text: str) -> Policy:
        """The policy of `p=f32,c=bf16,o=f32`, `params=float32,compute=float16,output=float32`, in any order, or of one format for all.

        Without p parameters are f32, computation is as parameters, and output as computation.
        Formats are `f16`, `half`, `full`, …, and every format that has a name. Raises ValueError with what is wrong and what was meant.
        """
        parts = [part.strip() for part in _split(text)]
        if len(parts) == 1 and "=" not in parts[0].partition("(")[0]:
            everything = _format(parts[0], f"policy `{text}`: ")
            return cls(everything, everything, everything)
        chosen: dict[SemanticDType, Format] = {}
        for part in parts:
            key, equals, value = (piece.strip() for piece in part.partition("="))
            if not equals:
                raise ValueError(f"policy `{text}`: expected `p=`, `c=` or `o=` before `{part}`, as in `p=f32,c=bf16,o=f32`")
            if key not in _KEYS:
                raise ValueError(f"policy `{text}`: there is no `{key}`; it sets params (p), compute (c) and output (o)")
            if _KEYS[key] in chosen:
                raise ValueError(f"policy `{text}`: `{_KEYS[key]}` is set twice")
            chosen[_KEYS[key]] = _format(value, f"policy `{text}`: ")
        param = chosen.get(SemanticDType.PARAM) or format_named("fp32")
        compute = chosen.get(SemanticDType.COMPUTE, param)
        return cls(param, compute, chosen.get(SemanticDType.OUTPUT, compute))

    def __str__(self) -> str:
        return ",".join(self.part(role) for role in SemanticDType)

    def part(self, role: SemanticDType) -> str:
        """Format of one role in the policy: `c=bf16`."""
        name = role.to_dtype(self).name
        return f"{role.value[0]}={_SHORT.get(name, name)}"

    def with_output_dtype(self, output: DTypeish) -> Policy:
        return replace(self, output=as_format(output, self))

    def cast_to_param(self, tree: Tree) -> Tree:
        return cast_tree(tree, self.param)

    def cast_to_compute(self, tree: Tree) -> Tree:
        return cast_tree(tree, self.compute)

    def cast_to_output(self, tree: Tree) -> Tree:
        return cast_tree(tree, self.output)


def get_policy(text: str) -> Policy:
    """`Policy.parse`, by the name that JMP has for it."""
    return Policy.parse(text)


def as_format(dtype: DTypeish, policy: Policy | None = None) -> Format:
    """The format that a DTypeish stands for; semantic ones by the policy, by default the current one. Raises ValueError."""
    if isinstance(dtype, Format):
        return dtype
    if isinstance(dtype, str):
        if dtype in _ROLES:
            return SemanticDType(dtype).to_dtype(policy)
        return _format(dtype)
    if str(dtype) == "torch.float8_e4m3fn":
        return format_named("fp8_e4m3fn_saturating")
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return _format(name.removeprefix("torch."))


def cast_floating(tree: Tree, dtype: DTypeish, policy: Policy | None = None) -> Tree:
    """The tree with each array of floating-point numbers in the format; whatever else is in it stays, as do structure and types.

    tree: an array, or dicts, lists, tuples, named tuples and data classes of such, state dicts included. An array that occurs twice is
    cast once. dtype: a format, its name, `param`, `compute` or `output` of the policy (by default of the current one), or a dtype.
    Each element is rounded once. In a format for which the library of an array has no type, its values stay in float32, or in float64
    where that is needed. Gradients of tensors pass as if a cast did nothing.
    Raises ValueError for an unknown format, and TypeError for an nn.Module.
    """
    return cast_tree(tree, as_format(dtype, policy))


_ROLES = {role.value for role in SemanticDType}


def _split(text: str) -> Iterator[str]:
    """At commas, but not at those in brackets."""
    depth, start = 0, 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    yield text[start:]


def _format(name: str, context: str = "") -> Format:
    try:
        return format_named(_ALL_NAMES.get(name, name))
    except UnknownFormat as error:
        if "(" in name:
            raise ValueError(f"{context}{error}") from None
        there_are = f"; there are {', '.join(DTYPE_NAMES)}, and the names of formats"
        meant = suggestion(name, [*DTYPE_NAMES, *known_formats().names()])
        raise ValueError(f"{context}there is no format `{name}`{meant or there_are}") from None


_current: ContextVar[Policy | None] = ContextVar("policy", default=None)


def current_policy() -> Policy:
    """The policy of the innermost `use_policy` of this thread or task; f32 for everything outside."""
    return _current.get() or Policy.parse("full")


@contextmanager
def use_policy(policy: Policy | str) -> Iterator[Policy]:
    """Within the block this policy is the current one. Raises ValueError for a text that is none."""
    chosen = Policy.parse(policy) if isinstance(policy, str) else policy
    token = _current.set(chosen)
    try:
        yield chosen
    finally:
        _current.reset(token)
