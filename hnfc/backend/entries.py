"""A model's function and what it takes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch_mlir import ir

from hnfc.core.errors import ModelError, alternatives
from hnfc.dialects.types import DYNAMIC
from hnfc.frontend.weights import dtype_of, is_known

_NAME = re.compile(r'^loc\("([^"]*)"\)$')
TENSOR = re.compile(r"(?:!torch\.vtensor<\[([0-9?,\s]*)\],([\w<>]+)>|tensor<((?:[0-9?]+x)*)([\w<>]+)>)")
"""The type of a tensor in either dialect: sizes and element type."""


@dataclass(frozen=True)
class Input:
    """One argument: `arg0`, and the name that it has in the model, if any. element: None where no array can be given for it."""

    index: int
    name: str
    element: str | None
    shape: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        return dtype_of(self.element or "")

    def __str__(self) -> str:
        named = f"arg{self.index} ({self.name})" if self.name else f"arg{self.index}"
        return f"{named}: {self.dtype.name}{list_of(self.shape)}" if self.element else f"{named}: no tensor"


def list_of(shape: Sequence[int]) -> str:
    return "[" + ", ".join("?" if size == DYNAMIC else str(size) for size in shape) + "]"


@dataclass(frozen=True)
class Entry:
    """The function of a module that is run."""

    name: str
    inputs: tuple[Input, ...]


def entry(module: ir.Module, name: str | None = None) -> Entry:
    """The function of this name, or the only one there is. Raises ModelError."""
    functions = {}
    for view in module.body.operations:
        operation = view.operation
        hidden = "sym_visibility" in operation.attributes and "private" in str(operation.attributes["sym_visibility"])
        if operation.name == "func.func" and operation.regions[0].blocks and not hidden:
            functions[ir.StringAttr(operation.attributes["sym_name"]).value] = operation
    if name is not None and name not in functions:
        raise ModelError(f"there is no function `{name}` in this model{alternatives(name, functions)}")
    if name is None and len(functions) != 1:
        kind = f"{len(functions)} functions: {', '.join(functions)}; --function NAME chooses one" if functions else "no function"
        raise ModelError(f"this model has {kind}")
    chosen = name if name is not None else next(iter(functions))
    arguments = functions[chosen].regions[0].blocks[0].arguments
    return Entry(chosen, tuple(_input(index, argument) for index, argument in enumerate(arguments)))


def _input(index: int, argument: ir.Value) -> Input:
    named = _NAME.match(str(argument.location))
    found = TENSOR.fullmatch(str(argument.type))
    element, shape = None, tuple[int, ...]()
    if found is not None:
        sizes = found[1].split(",") if found[1] else (found[3] or "").split("x")
        shape = tuple(DYNAMIC if size.strip() == "?" else int(size) for size in sizes if size.strip())
        element = found[2] or found[4]
    return Input(index, named[1] if named else "", element if element is not None and is_known(element) else None, shape)
