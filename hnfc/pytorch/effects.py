"""Python state that a call of a module changes: a graph would not change it, so such calls are not captured."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch

from hnfc.core.errors import ModelError
from hnfc.pytorch.guards import CONTAINERS, INTERNAL, frozen, is_same
from hnfc.pytorch.reads import Reading

_MISSING = object()


@contextlib.contextmanager
def unchanged(model: torch.nn.Module, reading: Reading) -> Iterator[None]:
    """Undoes what calls in the body do to attributes of the model, and notes what they read. Raises ModelError if there was any."""
    # within the call: torch.export itself undoes assignments, without a word
    changed: list[str] = []
    attributes: dict[str, Any] = model.__dict__
    own, forward = attributes.get("forward", _MISSING), model.forward

    @functools.wraps(forward)
    def watched(*args: Any, **kwargs: Any) -> Any:
        own_parts = ((name, part) for name, part in model.named_modules() if not type(part).__module__.startswith("torch."))
        before = [(name, vars(part), _copied(vars(part))) for name, part in own_parts]
        try:
            with reading:
                return forward(*args, **kwargs)
        finally:
            changed.extend(f"{name}.{found}".lstrip(".") for name, now, old in before for found in _undone(now, old))

    attributes["forward"] = watched
    try:
        with reading.of_state():
            yield
    finally:
        if own is _MISSING:
            del attributes["forward"]
        else:
            attributes["forward"] = own
    if changed:
        raise ModelError(
            f"a call of {type(model).__name__} assigns `{changed[0]}`, which a graph would not do: make it a buffer, or, if it is kept "
            "for later calls, call the model once before"
        )


def _copied(values: dict[str, Any]) -> dict[str, Any]:
    return {name: (value, _copy(value)) for name, value in values.items() if _is_watched(name, value)}


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, dict | list | set) else value


def _is_watched(name: str, value: Any) -> bool:
    return name not in INTERNAL and name != "forward" and not isinstance(value, torch.nn.Module)


def _undone(now: dict[str, Any], old: dict[str, Any]) -> list[str]:
    """The attributes that differ, which are as before afterwards."""
    changed = []
    for name in [name for name, value in now.items() if _is_watched(name, value) and name not in old]:
        changed.append(name)
        del now[name]
    for name, (value, copy) in old.items():
        current = now.get(name, _MISSING)
        if isinstance(value, CONTAINERS):
            if isinstance(current, CONTAINERS) and frozen(current) == frozen(copy):
                continue
            if isinstance(value, list):
                value[:] = copy
            elif isinstance(value, dict | set):
                value.clear()
                value.update(copy)
        elif is_same(current, value):
            continue
        changed.append(name)
        now[name] = value
    return changed
