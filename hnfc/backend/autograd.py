"""Calls of functions with derivatives of our own: one node of a traced graph, also under Dynamo."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import fx

Tensor = torch.Tensor


def leaf(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function as one node of a graph that torch.fx traces, as it does to unpickle a module."""

    @wraps(function)
    def called(*arguments: Any) -> Any:
        proxy = next((argument for argument in arguments if isinstance(argument, fx.Proxy)), None)
        if proxy is not None:
            return proxy.tracer.create_proxy("call_function", called, arguments, {})
        return function(*arguments)

    return called


def apply(function: Any, with_forward_mode: Any, *arguments: Any) -> Tensor:
    """The value of a differentiable function."""
    chosen = function if torch.compiler.is_compiling() else with_forward_mode
    return chosen.apply(*arguments)  # type: ignore[no-any-return]
