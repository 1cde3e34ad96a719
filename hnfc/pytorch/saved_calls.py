"""Arguments of a call as JSON with tensors beside it, and those of a step that `hnfc.watch` saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from hnfc.core.errors import ModelError, UsageError
from hnfc.core.plain_files import read_json
from hnfc.core.saved_steps import STEP, TENSORS, WITHOUT_READER


def saved_arguments(folder: Path) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of the call in the folder of a step. Raises ModelError."""
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError as error:
        raise UsageError(WITHOUT_READER) from error
    try:
        data = read_json(folder / STEP)
        args, kwargs = arguments_from_data(data["arguments"], load_file(folder / TENSORS), torch.device("cpu"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise ModelError(f"no step of a watched run can be read: {error}", str(folder)) from error
    return tuple(args), kwargs


def arguments_as_data(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """A nested argument as JSON; its tensors go to `tensors`."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            raise UsageError(f"an argument is a tensor of layout {value.layout}")
        name = f"argument.{len(tensors)}"
        tensors[name] = value
        return {"tensor": name, "requires_grad": value.requires_grad}
    if isinstance(value, bool | int | str) or value is None:
        return {"value": value}
    if isinstance(value, float):
        return {"float": repr(value)}
    if type(value) in (list, tuple):
        return {"list" if isinstance(value, list) else "tuple": [arguments_as_data(part, tensors) for part in value]}
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {"dict": {name: arguments_as_data(part, tensors) for name, part in value.items()}}
    raise UsageError(f"an argument is a {type(value).__name__}, which a file cannot hold")


def arguments_from_data(data: Any, tensors: dict[str, torch.Tensor], device: torch.device) -> Any:
    ((kind, value), *_) = data.items()
    if kind == "tensor":
        return tensors[value].to(device).requires_grad_(data["requires_grad"])
    if kind == "float":
        return float(value)
    if kind == "value":
        return value
    if kind == "dict":
        return {name: arguments_from_data(part, tensors, device) for name, part in value.items()}
    parts = [arguments_from_data(part, tensors, device) for part in value]
    return parts if kind == "list" else tuple(parts)
