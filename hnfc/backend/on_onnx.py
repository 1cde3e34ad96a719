"""The operations that ONNX lacks, or that onnxruntime computes badly, with what is written instead (docs/runners.md).

torch's exporter takes expm1, log1p, erfc and the like apart into the formulas that overflow or cancel.
"""

from __future__ import annotations

from hnfc.backend import iree_forms as forms
from hnfc.backend import special
from hnfc.backend.on_iree import ALL_F32, ALL_F64, FORMS, RunnerForms, forms_in
from hnfc.backend.term import EmittedTerm


def sigmoid(x: EmittedTerm) -> EmittedTerm:
    """1/(1 + e^-x); onnxruntime's own is 0 or 2^-24 below -17."""
    return 1.0 / ((-x).of("exp") + 1.0)


def tanh(x: EmittedTerm) -> EmittedTerm:
    """x where x³/3 is less than its rounding; onnxruntime's own flushes parts of the smallest normal numbers."""
    return x.of("abs").compare("lt", 2.0**-12).where(x, x.of("tanh"))


def remainder(x: EmittedTerm, y: EmittedTerm) -> EmittedTerm:
    """fmod, plus y where its sign is not y's."""
    return forms.with_sign_of(y, x.of("fmod", y))


_GOOD_IN_F64 = {"pow", "fmod"}
"""Functions of float64 that onnxruntime has, and computes well; most of the others it lacks."""
_DOUBLES = {name: {"f64": table["f64"]} for name, table in FORMS.items() if "f64" in table and name not in _GOOD_IN_F64}
_OWN = {
    "expm1": forms_in(ALL_F32, forms.expm1), "log1p": forms_in(ALL_F32, forms.log1p),
    "sigmoid": forms_in(ALL_F32, sigmoid), "silu": forms_in(ALL_F32, forms.silu), "mish": forms_in(ALL_F32, forms.mish),
    "softplus": forms_in(ALL_F32, forms.softplus), "log_sigmoid": forms_in(ALL_F32, forms.log_sigmoid),
    "logaddexp": forms_in(ALL_F64, forms.logaddexp), "hypot": forms_in(ALL_F64, forms.hypot),
    "erfc": forms_in(ALL_F64, special.erfc), "log_ndtr": forms_in(ALL_F64, special.log_ndtr),
    "erfcx": forms_in(ALL_F64, special.erfcx),
    "i0": forms_in(ALL_F64, special.i0), "i0e": forms_in(ALL_F64, special.i0e),
    "remainder": forms_in(ALL_F32, remainder), "tanh": {**forms_in(ALL_F32, tanh), **_DOUBLES["tanh"]},
}  # fmt: skip
ONNX = RunnerForms(
    "ONNX", {**_DOUBLES, **_OWN}, {"none": forms_in(ALL_F64, forms.gelu), "tanh": forms_in(ALL_F32, forms.gelu_tanh)}, signed_pools=False
)
