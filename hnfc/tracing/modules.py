"""The module that runs: its path, from hooks on all modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook


class ModulePath:
    """Context that follows calls of modules. names: their paths by identity."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = names
        self._running: list[str] = []
        self._hooks: list[Any] = []

    @property
    def current(self) -> str:
        """Path of the innermost module that runs; empty outside of all, and in one without a path."""
        return self._running[-1] if self._running else ""

    def __enter__(self) -> ModulePath:
        self._hooks = [register_module_forward_pre_hook(self._enter), register_module_forward_hook(self._leave, always_call=True)]
        return self

    def __exit__(self, *_: Any) -> None:
        for hook in self._hooks:
            hook.remove()

    def _enter(self, module: torch.nn.Module, _: Any) -> None:
        self._running.append(self._names.get(id(module), ""))

    def _leave(self, *_: Any) -> None:
        if self._running:
            self._running.pop()
