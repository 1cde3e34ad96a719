"""ONNX's own tests of its operators, which the package `onnx` makes: model, inputs, expected outputs.

`python -m tests.suites.onnx_nodes [--rewritten | --emitted] [NAME …]` prints what is not right, and the counts.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from hnfc.backend.entries import entry
from hnfc.backend.execution import runner
from hnfc.backend.on_iree import written
from hnfc.backend.on_onnx import ONNX
from hnfc.backend.onnx import emit_onnx, onnx_function
from hnfc.backend.references import run_with_references
from hnfc.core.errors import ModelError
from hnfc.frontend.models import read_model
from hnfc.pipeline.compile import compile_module
from hnfc.pipeline.request import Request
from hnfc.pipeline.rulesets import load_rules
from tests.suites import forked

_ULPS = {"bfloat16": 2**-6, "float16": 2**-9}
"""Two units in the last place of narrow formats, in which an order of sums makes one."""
_DRAWN = ("bernoulli", "dropout", "random")


def node_cases(names: Sequence[str] = ()) -> Iterator[tuple[str, Any]]:
    """Every test of a node whose inputs and outputs are all plain tensors and that draws nothing, with its name."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    for case in found:
        values = [*case.model.graph.input, *case.model.graph.output]
        drawn = any(name in case.name for name in _DRAWN) and ("default" not in case.name or "training" in case.name)
        wanted = not names or any(name in case.name for name in names)
        if wanted and not drawn and all(value.type.HasField("tensor_type") for value in values):
            yield case.name, case


READ, REWRITTEN, EMITTED = "as read", "rewritten", "emitted"


def judged(case: Any, form: str) -> tuple[str, str]:
    """Outcome of a test on torch, as read or rewritten; emitted: what `--emit onnx` writes for it, on onnxruntime and read again."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(case.model, path)
        try:
            module = read_model(path)
            target = entry(module)
            strange = next((one for one in target.inputs if one.element is None), None)
            if strange is not None:
                return forked.REFUSED, f"arrays cannot be given for {strange}"
            for given, expected in case.data_sets:
                kind, detail = _judged(path, module, target, given, expected, case, form)
                if kind != forked.RIGHT:
                    return kind, detail
        except ModelError as error:
            return forked.REFUSED, str(error).replace(str(path), "model.onnx")
    return forked.RIGHT, ""


def _judged(path: Path, module: Any, target: Any, given: Any, expected: Any, case: Any, form: str) -> tuple[str, str]:
    inputs = [as_array(value) for value in given]
    module, found = run_with_references(path, module, target.name, inputs)
    if form == EMITTED:
        return _emitted(module, target, inputs, found, expected, case)
    if form == REWRITTEN:
        rules = load_rules("all")
        module = compile_module(module, Request(phases=rules.allowed(), samples=[inputs], observed=True)).export()
        found = runner(module, target.name, "torch")(inputs)
    return _compared(found, expected, case)


def _compared(found: Any, expected: Any, case: Any) -> tuple[str, str]:
    for index, (one, wanted) in enumerate(zip(found, expected, strict=True)):
        fault = difference(one, as_array(wanted), case.rtol, case.atol)
        if fault:
            return forked.WRONG, f"output {index}: {fault}"
    return forked.RIGHT, ""


def _emitted(module: Any, target: Any, inputs: Any, found: Any, expected: Any, case: Any) -> tuple[str, str]:
    """Outcome of the ONNX model that hnfc writes: onnxruntime gives what is expected, and hnfc what it gave."""
    text = emit_onnx(written(module, ONNX)[0], target.name)
    again = read_model(text)
    kind, detail = _compared(runner(again, entry(again).name, "torch")(inputs), found, case)
    if kind != forked.RIGHT:
        return kind, f"read again: {detail}"
    kind, detail = _compared(onnx_function(text)(inputs), expected, case)
    return kind, detail and f"onnxruntime: {detail}"


def as_array(value: Any) -> np.ndarray[Any, Any]:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def difference(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], rtol: float, atol: float) -> str:
    """Description of the difference; empty where there is none beyond the tolerance of the test."""
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return f"{found.dtype}{list(found.shape)} instead of {wanted.dtype}{list(wanted.shape)}"
    if wanted.dtype.kind in "OSU":
        return "" if (found == wanted).all() else "other texts"
    rtol = max(rtol, _ULPS.get(wanted.dtype.name, 0.0))
    kind = np.complex128 if wanted.dtype.kind == "c" else np.float64
    if np.allclose(found.astype(kind), wanted.astype(kind), rtol=rtol, atol=atol, equal_nan=True):
        return ""
    return f"{found.ravel()[:4].tolist()} instead of {wanted.ravel()[:4].tolist()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    forms = parser.add_mutually_exclusive_group()
    for form in (REWRITTEN, EMITTED):
        forms.add_argument(f"--{form}", dest="form", action="store_const", const=form, default=READ)
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    load_rules("all")
    cases = [(name, partial(judged, case, options.form)) for name, case in node_cases(options.names)]
    forked.show(forked.run(cases))


if __name__ == "__main__":
    main()
