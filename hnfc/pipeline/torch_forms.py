"""The torch dialect as a frontend and a target of xDSL's tools: `xdsl-opt -f torch`, `xdsl-opt -t torch`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.frontend import Frontend
from xdsl.utils.target import Target

from hnfc.backend.torch_mlir import build, emit_torch
from hnfc.frontend.models import read_model
from hnfc.frontend.torch_mlir import import_module


@dataclass(frozen=True)
class TorchFrontend(Frontend):
    """A model in any form that hnfc reads, in the num dialect."""

    name = "torch"

    def parse(self, ctx: Context, input: IO[bytes], input_name: str) -> ModuleOp:
        return import_module(read_model(input.read(), input_name)).module


@dataclass(frozen=True)
class TorchTarget(Target):
    """A module of the num dialect as a new module of the torch dialect."""

    name = "torch"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(emit_torch(build(module)))
