"""A module as it is written for IREE: operations that it computes badly, or lacks, in forms of others.

Files in the torch dialect keep torch's operations, and torch runs them as they are: its own code is good, and a form is slower.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from torch_mlir import ir
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from hnfc.backend import iree_forms as forms
from hnfc.backend import iree_trigonometry as trigonometry
from hnfc.backend import special
from hnfc.backend.expansions import widened
from hnfc.backend.term import EmittedTerm
from hnfc.backend.torch_mlir import emit_bytecode, export
from hnfc.dialects.num.base import NumOp
from hnfc.dialects.num.constant import ConstantOp
from hnfc.dialects.types import DYNAMIC, ELEMENT_NAMES, FORMATS
from hnfc.frontend.reading import read
from hnfc.frontend.torch_mlir import import_module

Form: TypeAlias = Callable[..., EmittedTerm]


def forms_in(wide: dict[str, str], form: Form) -> dict[str, tuple[str, Form]]:
    """A form by element type. wide: the type that it computes in."""
    return {element: (computed, form) for element, computed in wide.items()}


def _same(name: str, x: EmittedTerm, y: EmittedTerm) -> EmittedTerm:
    """The operation itself, in another type."""
    return x.of(name, y)


ALL_F64 = {"f64": "f64", "f32": "f64", "f16": "f64", "bf16": "f64"}
ALL_F32 = {"f64": "f64", "f32": "f32", "f16": "f32", "bf16": "f32"}
_F64 = {"f64": "f64"}
_OWN = {element: element for element in ("f64", "f32", "f16", "bf16")}
_HALVES = {"f16": "f32", "bf16": "f32"}
_F64_AND_HALVES = {"f64": "f64", **_HALVES}
FORMS: dict[str, dict[str, tuple[str, Form]]] = {
    "expm1": forms_in(_F64, forms.expm1), "log1p": forms_in(_F64, forms.log1p), "tanh": forms_in(_F64, forms.tanh),
    "sinh": forms_in(ALL_F32, forms.sinh), "cosh": forms_in(ALL_F32, forms.cosh), "asinh": forms_in(ALL_F32, forms.asinh),
    "acosh": forms_in(ALL_F32, forms.acosh), "atanh": forms_in(ALL_F32, forms.atanh),
    "exp2": forms_in(ALL_F64, forms.exp2), "log2": forms_in(_F64, forms.log2), "log10": forms_in(ALL_F64, forms.log10),
    "erf": forms_in(_F64, forms.erf), "erfc": forms_in(ALL_F64, special.erfc), "log_ndtr": forms_in(ALL_F64, special.log_ndtr),
    "erfcx": forms_in(ALL_F64, special.erfcx),
    "i0": forms_in(ALL_F64, special.i0), "i0e": forms_in(ALL_F64, special.i0e),
    "sin": forms_in(ALL_F64, trigonometry.sin), "cos": forms_in(ALL_F64, trigonometry.cos), "tan": forms_in(ALL_F64, trigonometry.tan),
    "asin": forms_in(_F64, trigonometry.asin), "acos": forms_in(_F64, trigonometry.acos), "atan": forms_in(ALL_F64, trigonometry.atan),
    "atan2": forms_in(ALL_F64, trigonometry.atan2),
    "silu": forms_in(_HALVES, forms.silu), "mish": forms_in(_F64_AND_HALVES, forms.mish), "softplus": forms_in(_F64, forms.softplus),
    "log_sigmoid": forms_in(ALL_F32, forms.log_sigmoid),
    "pow": forms_in(ALL_F64, forms.power), "remainder": forms_in(_F64, forms.remainder),
    "fmod": {**forms_in(_F64, forms.fmod_of_doubles), **forms_in({"f32": "f32", **_HALVES}, forms.fmod)},
    "maximum": forms_in(_OWN, forms.larger), "minimum": forms_in(_OWN, forms.smaller),
    "hypot": forms_in(ALL_F64, forms.hypot), "logaddexp": forms_in(ALL_F64, forms.logaddexp), "xlogy": forms_in(ALL_F32, forms.xlogy),
}  # fmt: skip
"""By element type: the type that a form computes in, and the form."""
_SIGNED = ("si8", "si16", "si32", "si64")
FORMS["neg"] = forms_in({element: element for element in (*_SIGNED, "ui8")}, forms.negated)
FORMS["abs"] = forms_in({"ui8": "ui8"}, forms.itself)
for _name in ("fmod", "remainder"):
    # of numbers without a sign the front end takes signed remainders
    FORMS[_name]["ui8"] = "si16", partial(_same, _name)
_LIBRARY = {"expm1", "log1p", "tanh", "log2", "log10", "erf", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "fmod", "remainder"} | {
    "maximum", "minimum"
}  # fmt: skip
"""Functions that other compilers of StableHLO have in their own libraries; the others torch-mlir takes apart, or refuses."""
_GELU = {"none": forms_in(ALL_F64, forms.gelu), "tanh": forms_in(ALL_F32, forms.gelu_tanh)}


@dataclass(frozen=True)
class RunnerForms:
    """The operations that a runner lacks or computes badly, with what is written instead: by name, and by element type."""

    runner: str
    by_name: Mapping[str, Mapping[str, tuple[str, Form]]]
    gelu: Mapping[str, Mapping[str, tuple[str, Form]]]
    signed_pools: bool = True
    """True where its pooling takes numbers without a sign for signed ones."""

    def of(self, name: str, attributes: Mapping[str, Any]) -> Mapping[str, tuple[str, Form]]:
        return self.gelu[attributes["approximate"]] if name == "gelu" else self.by_name.get(name, {})


IREE = RunnerForms("IREE", FORMS, _GELU)
STABLEHLO = RunnerForms("StableHLO", {name: form for name, form in FORMS.items() if name not in _LIBRARY}, _GELU)


def written(module: ir.Module, forms: RunnerForms = IREE) -> tuple[ir.Module, dict[str, int]]:
    """A copy of the module for a runner, and how often it holds another form of each operation."""
    imported = import_module(read(emit_bytecode(module), module.context), bodies=True)
    replaced: dict[SSAValue, SSAValue] = {}
    counted: Counter[str] = Counter()
    for function in (op for op in imported.module.ops if isinstance(op, FuncOp) and op.body.blocks):
        for operation in list(function.body.block.ops):
            if _expand(operation, replaced, forms, frozenset()):
                counted[operation.name.removeprefix("num.")] += 1
    if not replaced:
        return module, {}
    return export(imported, replaced), dict(sorted(counted.items()))


def sentence(counted: dict[str, int], runner: str) -> str:
    """The line of a report; empty where nothing is written otherwise."""
    if not counted:
        return ""
    names = ", ".join(f"{name} ×{count}" if count > 1 else name for name, count in counted.items())
    return f"written for {runner} in other operations, since it lacks these or computes them badly: {names} (docs/runners.md)"


def _expand(operation: Operation, replaced: dict[SSAValue, SSAValue], forms: RunnerForms, within: Collection[str]) -> bool:
    """Puts the form of an operation in front of it, and those of the form's own operations, but for those that it is a form `within`."""
    name = operation.name.removeprefix("num.")
    found = None if name in within else form_of(operation, forms)
    if found is None:
        return False
    replaced[operation.results[0]] = found.value
    block = operation.parent
    assert isinstance(block, Block)
    for made in _made(found.value):
        block.insert_op_before(made, operation)
        _expand(made, replaced, forms, {*within, name})
    return True


def form_of(operation: Operation, forms: RunnerForms = IREE) -> EmittedTerm | None:
    """The form of an operation; None where the runner's own is good, or no form of it is known."""
    if not isinstance(operation, NumOp) or not operation.results or not isinstance(kind := operation.results[0].type, TensorType):
        return None
    element, name = ELEMENT_NAMES.get(kind.element_type, ""), operation.name.removeprefix("num.")
    attributes = operation.attributes_as_python()
    table = forms.of(name, attributes)
    if (name, element) == ("max_pool", "ui8") and forms.signed_pools:
        return EmittedTerm(operation.operands[0]).cast("si16").of(name, **attributes).cast("ui8")
    if element not in table or _is_plain_power(operation):
        return widened(operation)
    wide, form = table[element]
    operands = [EmittedTerm(operand) for operand in operation.operands]
    found = form(*(operand.cast(wide) for operand in operands)).cast(element)
    if name in ("sin", "cos", "tan") and element in ("f32", "bf16"):
        far = operands[0].of("abs").compare("gt", trigonometry.FARTHEST)
        found = far.where(operands[0].of(name), found)
    return _fitted(found, kind)


def form_named(name: str) -> Form | None:
    """The form of an operation in the format in which it has one first; of `gelu (tanh)` that of the approximation."""
    table = _GELU["tanh" if "tanh" in name else "none"] if name.startswith("gelu") else FORMS.get(name, {})
    return next((form for element, (_, form) in table.items() if element in FORMATS), None)


def _fitted(term: EmittedTerm, kind: TensorType[Any]) -> EmittedTerm:
    """The term in the operation's own shape."""
    shape = tuple(kind.get_shape())
    return term if tuple(term.type.get_shape()) == shape or DYNAMIC in shape else term.of("broadcast", shape=shape)


def _is_plain_power(operation: Any) -> bool:
    """Return whether it is a power by a number: a constant exponent is lowered well."""
    return operation.name == "num.pow" and isinstance(operation.y.owner, ConstantOp)


def _made(value: SSAValue) -> Iterator[Operation]:
    """The operations that a form added and that are in no block yet, operands first."""
    seen: set[Operation] = set()
    stack = [(value.owner, False)]
    while stack:
        owner, ready = stack.pop()
        if not isinstance(owner, Operation) or owner.parent is not None:
            continue
        if ready:
            yield owner
        elif owner not in seen:
            seen.add(owner)
            stack.append((owner, True))
            stack += [(operand.owner, False) for operand in owner.operands]
