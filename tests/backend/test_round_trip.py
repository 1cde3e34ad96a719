"""Every operation from torch through `num` to the torch dialect and back to numbers; and through text."""

# ruff: noqa: E501  (tables)

from __future__ import annotations

from io import StringIO

import numpy as np
import pytest
import torch
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.parser import Parser
from xdsl.printer import Printer

from hnfc.backend.torch_mlir import build, emit_bytecode, export
from hnfc.core.errors import ModelError
from hnfc.dialects.num import NUM
from hnfc.dialects.types import FORMATS
from hnfc.frontend.torch_mlir import import_module
from tests.dialects.building import DTYPES, assert_close, doubles, flat, operation, to_numpy, to_torch
from tests.dialects.samples import ALL, NOT_IN_TORCH, NUMPY, SAMPLES, SOURCES, Sample
from tests.exporting import export_torch
from tests.running import run_torch_mlir

NOT_LOWERED = {"lgamma"}
"""Written as `torch.operator`: torch has them, the torch dialect does not, and they have no steps."""

LOSSY = {("attention", "f64")}
"""IREE computes attention in float32."""


def parse(text: str) -> object:
    context = Context()
    for dialect in (Builtin, Func, NUM):
        context.load_dialect(dialect)
    return Parser(context, text).parse_module()


def generic(module: ModuleOp) -> str:
    stream = StringIO()
    Printer(stream, print_generic_format=True).print_op(module)
    return stream.getvalue()


@pytest.mark.parametrize(("name", "sample"), ALL)
def test_text_is_read_back(name: str, sample: Sample) -> None:
    module, made = operation(name, sample.operands(0), sample.attributes)
    module.verify()
    read = parse(str(module))
    read.verify()  # type: ignore[attr-defined]
    assert str(read) == str(module)
    assert str(parse(generic(module))) == str(module)
    again = next(op for op in read.walk() if op.name == made.name)  # type: ignore[attr-defined]
    assert again.attributes_as_python() == made.attributes_as_python()


@pytest.mark.sampled(90)
@pytest.mark.parametrize(
    ("name", "sample", "precision"),
    [(*case.values, "f32") for case in ALL] + [(name, samples[0], p) for name, samples in SAMPLES.items() for p in ("f64", "f16", "bf16")],
)
def test_what_is_built_computes_what_torch_computes(name: str, sample: Sample, precision: str) -> None:
    if (name in SOURCES and precision != "f64") or (name, precision) in NOT_IN_TORCH:
        pytest.skip("nothing to compare with")
    arrays = sample.operands(0, NUMPY[precision])
    module, _ = operation(name, arrays, sample.attributes)
    built = build(module)
    assert _names_of(built) == [made for made in _names_of(built) if made.startswith(("torch.", "func."))]
    if name in NOT_LOWERED or (name, precision) in LOSSY or any(0 in shape for shape in sample.shapes):
        return
    try:
        got = run_torch_mlir(built, arrays)
    except ModelError as error:
        pytest.fail(f"{name} needs a form (`@expands`) in hnfc/backend/expansions.py, which is `in_steps` if its class has steps: {error}")
    expected = flat(sample.torch(*map(to_torch, arrays)))
    unit = FORMATS[precision].unit_roundoff
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == to_numpy(b).dtype
        assert_close(a, doubles(to_numpy(b)), unit, 0 if sample.exact and precision == "f32" else max(sample.slack, 16.0))


def _names_of(module: object) -> list[str]:
    body = module.body.operations[0].regions[0].blocks[0]  # type: ignore[attr-defined]
    return [op.operation.name for op in body.operations]


@pytest.mark.sampled(60)
@pytest.mark.parametrize(("name", "sample"), [case for case in ALL if case.values[0] not in SOURCES])
def test_import_finds_the_operation_and_export_changes_nothing(name: str, sample: Sample) -> None:
    arrays = sample.operands(0, np.float32)
    if any(0 in shape for shape in sample.shapes):
        pytest.skip("torch.export specialises empty tensors")
    module = export_torch(sample.torch, *map(to_torch, arrays), decompose=False)
    before, text = emit_bytecode(module), str(module)
    imported = import_module(module)
    imported.module.verify()
    names = {op.name for op in imported.module.walk()}
    if sample.imports is None:
        assert f"num.{name}" in names
        known = ("torch.constant.", "torch.aten._assert", "torch.prim.")
        assert all(op.operation.data.startswith(known) for op in imported.module.walk() if op.name == "num.opaque")
    assert emit_bytecode(export(imported, {})) == before
    assert str(module) == text
    if sample.imports is None and name not in NOT_LOWERED:
        rebuilt = build(imported.module, module.context, imported.weight_attributes)
        for a, b in zip(run_torch_mlir(rebuilt, arrays), flat(sample.torch(*map(to_torch, arrays))), strict=True):
            assert_close(a, doubles(to_numpy(b)), FORMATS["f32"].unit_roundoff, max(sample.slack, 16.0))


SCALARS = {
    "add": lambda x: x + 2.5, "radd": lambda x: 2.5 + x, "sub": lambda x: x - 2.5, "rsub": lambda x: 2.5 - x, "mul": lambda x: x * 2.5,
    "div": lambda x: x / 2.5, "rdiv": lambda x: 2.5 / x, "pow": lambda x: x**3, "square": lambda x: x**2, "sqrt": lambda x: x**0.5,
    "clamp": lambda x: x.clamp(0.5, 1.5), "clamp_min": lambda x: x.clamp(min=1.0), "gt": lambda x: x > 1.0, "where": lambda x: torch.where(x > 1, x, 0.0),
    "fill": lambda x: x.masked_fill(x > 1, -1.0), "alpha": lambda x: torch.add(x, x, alpha=3), "addcmul": lambda x: torch.addcmul(x, x, x, value=0.5),
    "remainder": lambda x: x % 0.75, "fmod": lambda x: torch.fmod(x, 0.75), "leaky": lambda x: torch.nn.functional.leaky_relu(x - 1),
    "elu": lambda x: torch.nn.functional.elu(x - 1), "base": lambda x: 2.0**x, "std": lambda x: x.std(-1), "norm": lambda x: x.norm(dim=-1),
    "softplus": lambda x: torch.nn.functional.softplus(x, beta=2.0), "lerp": lambda x: torch.lerp(x, x * 2, 0.25),
    "mean": lambda x: x.mean(), "max": lambda x: x.max(-1).values, "linear": lambda x: torch.nn.functional.linear(x, x, x[:, 0]),
    "chunk": lambda x: x.chunk(2, -1)[1], "split": lambda x: x.split([1, 4], 1)[1], "stack": lambda x: torch.stack([x, x], -1),
    "unbind": lambda x: x.unbind(0)[1], "select": lambda x: x[1], "addmm": lambda x: torch.addmm(x[:, 0], x, x.T, beta=0.5, alpha=2.0),
    "var_mean": lambda x: torch.var_mean(x, -1)[0], "logit": lambda x: torch.logit(x / 10), "full": lambda x: x + torch.full_like(x, 2.0),
    "arange": lambda x: x * torch.arange(5), "zeros": lambda x: x + torch.zeros(5), "int": lambda x: x.to(torch.int64) + 1,
    "floor_divide": lambda x: torch.div(x, 0.5, rounding_mode="floor"), "flatten": lambda x: x.flatten(), "hardtanh": lambda x: torch.nn.functional.hardtanh(x),
    "diff": lambda x: torch.diff(x, dim=-1, prepend=x[:, :1]), "diff_rows": lambda x: torch.diff(x, dim=0),
    "prod": lambda x: x.prod(), "cumsum": lambda x: x.cumsum(-1), "all": lambda x: (x > 1).all(-1), "isnan": lambda x: x.isnan(),
    "bce": lambda x: torch.nn.functional.binary_cross_entropy_with_logits(x, x / 10), "bool": lambda x: (x > 1) & (x < 2) | ~(x > 3),
}  # fmt: skip


@pytest.mark.sampled(35)
@pytest.mark.parametrize(("name", "decompose"), [(n, d) for n in sorted(SCALARS) for d in (False, True) if (n, d) != ("bce", False)])
def test_canonical_forms_compute_the_same(name: str, decompose: bool) -> None:
    """Nothing stays opaque, and what is rebuilt from `num` alone gives torch's numbers."""
    function = SCALARS[name]
    x = np.random.default_rng(0).uniform(0.1, 4.0, (3, 5)).astype(np.float32)
    module = export_torch(function, to_torch(x), decompose=decompose)
    imported = import_module(module)
    opaque = {op.operation.data for op in imported.module.walk() if op.name == "num.opaque"}
    assert not {
        name for name in opaque if not name.startswith(("torch.constant.", "torch.aten._assert", "torch.aten.empty", "torch.prim."))
    }
    rebuilt = build(imported.module, module.context, imported.weight_attributes)
    assert_close(run_torch_mlir(rebuilt, [x])[0], doubles(to_numpy(function(to_torch(x)))), 2.0**-24, 32.0)


SPECIALS = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -1e-30, 100.0, -100.0, 3e38, -3e38], np.float32)
EXPANDED = (
    "erfc",
    "log_ndtr",
    "i0e",
    "log_sigmoid",
    "softplus",
    "asinh",
    "mish",
    "tanh",
    "sigmoid",
    "expm1",
    "log1p",
    "hypot",
    "logaddexp",
    "xlogy",
)


@pytest.mark.parametrize("name", EXPANDED)
def test_forms_hold_at_special_values(name: str) -> None:
    sample = SAMPLES[name][0]
    arrays = [SPECIALS] if len(sample.shapes) == 1 else [np.repeat(SPECIALS, len(SPECIALS)), np.tile(SPECIALS, len(SPECIALS))]
    module, _ = operation(name, arrays, sample.attributes)
    (got,) = run_torch_mlir(build(module), arrays)
    expected = to_numpy(sample.torch(*map(to_torch, arrays)))
    if name == "hypot":  # torch says inf for hypot(inf, nan)
        expected = np.where(np.isnan(arrays[0]) | np.isnan(arrays[1]), got, expected)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-37)


def test_dtypes_are_covered() -> None:
    assert set(DTYPES) == {"f64", "f32", "f16", "bf16"}
