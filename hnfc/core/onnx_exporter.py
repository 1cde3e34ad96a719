"""torch's exporter of ONNX, without its messages."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import torch


def to_onnx(model: Any, args: tuple[Any, ...], opset: int, **settings: Any) -> Any:
    """The ONNX model of a module, or of an exported program without args. The exporter's errors have no common class: see `first_cause`."""
    with quiet(), torch.no_grad():
        # the exporter's optimizer drops constants near 0: x + 1e-9 becomes x
        made = torch.onnx.export(model, args, dynamo=True, opset_version=opset, verbose=False, optimize=False, **settings)
    assert made is not None
    return made.model_proto


def first_cause(error: BaseException) -> str:
    """The class and the first line of the error that others were raised from."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {text}"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Drops messages about optional packages and about steps."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
