"""Tensors of the call in the folder of a step that `hnfc.watch` saved, as arrays, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from hnfc.core.errors import ModelError, UsageError
from hnfc.core.plain_files import read_bytes, read_json

STEP, TENSORS = "step.json", "tensors.safetensors"
"""Files in the folder of a step."""
_TYPES: dict[str, Any] = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16, "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2, "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8, "U8": np.uint8, "BOOL": np.bool_,
}  # fmt: skip
"""Types of elements by their names in files of safetensors."""


def is_step(path: str) -> bool:
    """Return whether a path is the folder of a step."""
    return (Path(path) / STEP).is_file()


WITHOUT_READER = "saved steps are read by the package safetensors: pip install safetensors"


def arrays_of_step(folder: str) -> dict[str, np.ndarray[Any, Any]]:
    """Tensors that the call took, in its order, as arg0, arg1, … Raises ModelError, and UsageError without safetensors."""
    try:
        from safetensors import SafetensorError, deserialize
    except ImportError as error:
        raise UsageError(WITHOUT_READER) from error
    try:
        data = read_json(Path(folder) / STEP)
        stored = dict(deserialize(read_bytes(Path(folder) / TENSORS)))  # type: ignore[no-untyped-call]
        tensors = {name: np.frombuffer(entry["data"], _TYPES[entry["dtype"]]).reshape(entry["shape"]) for name, entry in stored.items()}
        return {f"arg{index}": tensors[name] for index, name in enumerate(_names(data["arguments"]))}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise ModelError(f"no step of a watched run can be read: {error}", folder) from error


def _names(data: Any) -> Iterator[str]:
    """Names of the tensors in a nested argument."""
    ((kind, value), *_) = data.items()
    if kind == "tensor":
        yield value
    elif kind in ("list", "tuple", "dict"):
        for part in value.values() if kind == "dict" else value:
            yield from _names(part)
