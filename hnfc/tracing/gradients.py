"""A graph followed by what computes its gradients."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._functorch._aot_autograd.logging_utils import setup_stacktrace_preservation_hooks
from torch.fx.experimental.proxy_tensor import make_fx


def with_gradients(graph: fx.GraphModule, inputs: Sequence[Any]) -> fx.GraphModule:
    """The graph followed by what computes the gradients of the sum of its results, in operations with their places in the source."""

    def joint(*arguments: Any) -> Any:
        results = fx.Interpreter(graph).run(*arguments)
        loss = sum(r.sum() for r in results if isinstance(r, torch.Tensor) and r.requires_grad)
        if not isinstance(loss, torch.Tensor):
            return results
        setup_stacktrace_preservation_hooks([loss.grad_fn] if loss.grad_fn is not None else [])
        wanted = [argument for argument in arguments if isinstance(argument, torch.Tensor) and argument.requires_grad]
        return results, torch.autograd.grad(loss, wanted, allow_unused=True)

    ready = [v.detach().requires_grad_(v.is_floating_point()) if isinstance(v, torch.Tensor) else v for v in inputs]
    with fx.traceback.preserve_node_meta(), torch.autograd.detect_anomaly(check_nan=False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_fx(joint)(*ready)
