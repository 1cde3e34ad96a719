"""Settings and state of an optimizer as data, by the names of parameters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch


def optimizer_as_data(optimizer: torch.optim.Optimizer | None, names: Mapping[int, str], tensors: dict[str, torch.Tensor]) -> Any:
    """Class, settings by group and numbers of the state of an optimizer; its tensors go to `tensors`. names: of parameters by identity."""
    if optimizer is None:
        return None
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
    """A number or a text as it is; the number of a tensor of one; of others the text."""
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return value.item()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def optimizer_of_data(data: Any, model: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> torch.optim.Optimizer | None:
    """An optimizer of torch with the settings and the state of `optimizer_as_data`; None for one of another class."""
    kind = getattr(torch.optim, str(data["class"]), None) if data else None
    if not (isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)):
        return None
    parameters = dict(model.named_parameters())
    groups = [{**group, "params": [parameters[name] for name in group["params"] if name]} for group in data["groups"]]
    state: dict[Any, dict[str, Any]] = {parameters[name]: dict(numbers) for name, numbers in data["state"].items()}
    for name, p in parameters.items():
        start = f"optimizer.{name}."
        found = {key.removeprefix(start): t for key, t in tensors.items() if key.startswith(start) and "." not in key.removeprefix(start)}
        if found:
            state.setdefault(p, {}).update({key: t.clone() if t.dim() == 0 else t.to(p.device, copy=True) for key, t in found.items()})
    made: torch.optim.Optimizer = kind.__new__(kind)
    settings = {key: value for key, value in groups[0].items() if key != "params"} if groups else {}
    made.__setstate__({"defaults": settings, "state": defaultdict(dict, state), "param_groups": groups})
    return made
