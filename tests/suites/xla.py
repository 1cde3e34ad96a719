"""StableHLO run by XLA, the second witness: text with check calls, quantised types and unknown sizes is made what XLA takes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import ml_dtypes  # noqa: F401  (registers the narrow types)
import numpy as np
from jax._src.lib import _jax, xla_client
from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from hnfc.frontend.reading import new_context
from hnfc.frontend.stablehlo import register

_WITHOUT_QUANTISED = "builtin.module(func.func(stablehlo-legalize-quantized-op-to-qdq,stablehlo-legalize-quant-to-math))"
_SEED = 3
_DEADLY = ("f6E2M3FN", "f6E3M2FN")


class Refusal(Exception):
    """XLA does not run the module."""


@dataclass(frozen=True)
class Program:
    """Program that XLA compiles, the types of its inputs, such as `tensor<2x3xf32>`, and how many results it has that no call checked."""

    code: str | bytes
    inputs: tuple[str, ...]
    own: int


def prepared(text: str, size: int) -> Program:
    """The module in what XLA takes: no checks, no quantised types, and every unknown size of an argument is `size`."""
    context = new_context()
    register(context)
    try:
        with context, ir.Location.unknown():
            module = ir.Module.parse(text, context)
            main = _functions(module)["main"]
            own = _return_what_is_checked(main)
            if "!quant" in text:
                PassManager.parse(_WITHOUT_QUANTISED, context).run(module.operation)
            return _sized(module, size, own)
    except (ir.MLIRError, ValueError, RuntimeError) as error:
        diagnostics = getattr(error, "error_diagnostics", ())
        raise Refusal("; ".join(one.message for one in diagnostics) or " ".join(str(error).split())) from None


def _functions(module: ir.Module) -> dict[str, ir.Operation]:
    return {ir.StringAttr(view.operation.attributes["sym_name"]).value: view.operation for view in module.body.operations}


def _return_what_is_checked(function: ir.Operation) -> int:
    """Number of a function's own results; calls that check values go, and it returns these values behind its own."""
    *body, last = (view.operation for view in function.regions[0].blocks[0].operations)
    calls = [one for one in body if one.name == "stablehlo.custom_call" and _target(one).startswith("check.")]
    if not calls:
        return len(last.operands)
    checked = [operand for call in calls if not len(call.results) for operand in call.operands]
    ours = [value for value in last.operands if not any(value == result for call in calls for result in call.results)]
    ir.Operation.create("func.return", operands=[*ours, *checked], loc=last.location, ip=ir.InsertionPoint(last))
    for dead in (last, *calls):
        dead.erase()
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    made = ir.FunctionType.get(kind.inputs, [value.type for value in (*ours, *checked)], function.context)
    function.attributes["function_type"] = ir.TypeAttr.get(made)
    if "res_attrs" in function.attributes:
        del function.attributes["res_attrs"]
    return len(ours)


def _target(call: ir.Operation) -> str:
    return ir.StringAttr(call.attributes["call_target_name"]).value


def _sized(module: ir.Module, size: int, own: int) -> Program:
    """The module behind a `main` of known sizes, where its own has unknown ones; scalars of i64 in front of its arguments are sizes."""
    main = _functions(module)["main"]
    kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    if not any("?" in str(one) for one in (*kind.inputs, *kind.results)):
        return Program(str(module), tuple(map(str, kind.inputs)), own)
    wanted = [str(one).replace("?", str(size)) for one in kind.inputs]
    sizes = next((place for place, one in enumerate(kind.inputs) if str(one) != "tensor<i64>"), 0)
    lines, operands = [], []
    for place, (before, after) in enumerate(zip(map(str, kind.inputs), wanted, strict=True)):
        operands.append(f"%a{place}" if before == after and place >= sizes else f"%b{place}")
        if place < sizes:
            lines.append(f"%b{place} = stablehlo.constant dense<{size}> : tensor<i64>")
        elif before != after:
            lines.append(f"%b{place} = stablehlo.convert %a{place} : ({after}) -> {before}")
    results = ", ".join(map(str, kind.results))
    lines.append(f"%r:{len(kind.results)} = call @unsized({', '.join(operands)}) : ({', '.join(map(str, kind.inputs))}) -> ({results})")
    lines.append(f"return {', '.join(f'%r#{place}' for place in range(len(kind.results)))} : {results}")
    arguments = ", ".join(f"%a{place}: {one}" for place, one in enumerate(wanted) if place >= sizes)
    main.attributes["sym_name"] = ir.StringAttr.get("unsized", module.context)
    main.attributes["sym_visibility"] = ir.StringAttr.get("private", module.context)
    inner = "\n".join(str(view.operation) for view in module.body.operations)
    text = f"module @m {{\n{inner}\nfunc.func public @main({arguments}) -> ({results}) {{\n" + "\n".join(lines) + "\n}\n}\n"
    code = _jax.mlir.refine_polymorphic_shapes(text.encode(), enable_shape_assertions=False)
    return Program(code, tuple(wanted[sizes:]), own)


@functools.cache
def _client() -> Any:
    return jax.devices("cpu")[0].client


def run(program: Program, arrays: Sequence[np.ndarray[Any, Any]] | None = None) -> list[np.ndarray[Any, Any]]:
    """Results on XLA; without arrays, on drawn ones. Raises Refusal."""
    if any(kind in str(program.code) for kind in _DEADLY):
        raise Refusal("XLA ends the process on numbers of six bits")
    try:
        devices = xla_client.DeviceList(tuple(jax.devices("cpu")[:1]))
        executable = _client().compile_and_load(program.code, devices, xla_client.CompileOptions())
    except Exception as error:
        raise Refusal(" ".join(str(error).split())[:300]) from None
    given = [jax.device_put(array) for array in (drawn(program) if arrays is None else arrays)]
    results = executable.execute_sharded(given).disassemble_into_single_device_arrays()
    return [np.asarray(one[0]) for one in results]


def drawn(program: Program) -> list[np.ndarray[Any, Any]]:
    """Arrays for the arguments, of small numbers of both signs."""
    draw = np.random.default_rng(_SEED)
    return [_drawn(kind.removeprefix("tensor<").removesuffix(">"), draw) for kind in program.inputs]


def _drawn(kind: str, draw: np.random.Generator) -> np.ndarray[Any, Any]:
    *sizes, name = (
        kind.split("x") if "complex" not in kind else (*kind[: kind.index("complex")].split("x")[:-1], kind[kind.index("complex") :])
    )
    shape = tuple(map(int, sizes))
    if name == "i1":
        return draw.random(shape) < 0.5
    if name.startswith("complex"):
        wide = draw.normal(size=shape) + 1j * draw.normal(size=shape)
        return np.asarray(wide, np.complex64 if "f32" in name else np.complex128)
    if name.startswith(("i", "ui")):
        return draw.integers(0, 4, shape).astype(name.replace("i", "int"))
    return np.asarray(draw.normal(size=shape)).astype(name.replace("bf", "bfloat") if name == "bf16" else name.replace("f", "float"))
