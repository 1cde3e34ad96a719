"""Settings and state of an optimizer as data, by the names of parameters."""

from __future__ import annotations

from typing import Any

import torch


def optimizer_as_data(optimizer: torch.optim.Optimizer | None, model: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> Any:
    """Class, settings by group and numbers of the state of an optimizer; its tensors go to `tensors`."""
    if optimizer is None:
        return None
    names = {id(p): name for name, p in model.named_parameters()}
    groups, state = [], dict[str, dict[str, Any]]()
    for group in optimizer.param_groups:
        settings = {key: _plain(value) for key, value in group.items() if key != "params"}
        groups.append({**settings, "params": [names.get(id(p), "") for p in group["params"]]})
        for p in group["params"]:
            for key, value in optimizer.state.get(p, {}).items() if id(p) in names else ():
                if isinstance(value, torch.Tensor):
                    tensors[f"optimizer.{names[id(p)]}.{key}"] = value
                else:
                    state.setdefault(names[id(p)], {})[key] = _plain(value)
    return {"class": type(optimizer).__name__, "groups": groups, "state": state}


def _plain(value: Any) -> Any:
    """A number or a text as it is; of tensors and others the text."""
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
