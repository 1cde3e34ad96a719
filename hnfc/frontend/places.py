"""Positions of formulas in the source of a model: the innermost Python frame that is neither torch's, nor hnfc's, nor Python's own."""

from __future__ import annotations

import contextlib
import sysconfig
import threading
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache, partialmethod
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
from torch import fx
from torch.fx.proxy import TracerBase

Place = tuple[str, int]
"""File and line."""

TORCH = f"{Path(torch.__file__).parent}/"
HNFC = f"{Path(__file__).parent.parent}/"
_PYTHON = f"{sysconfig.get_path('stdlib')}/"
_PACKAGES = ("/site-packages/", "/dist-packages/")
_MODULES = f"{TORCH}nn/modules/"
_CALLING = (f"{_MODULES}module.py", f"{_MODULES}container.py")
"""Files of torch that only call other modules."""


@cache
def is_own(file: str) -> bool:
    """Return whether a file is the model's own code."""
    if file.startswith(("<", TORCH, HNFC)):
        return False
    return not file.startswith(_PYTHON) or any(folder in file for folder in _PACKAGES)


def innermost(frames: Iterable[Place]) -> Place | None:
    """The first own frame; where there is none, the first of torch's modules. frames: from the inside out."""
    module = None
    for place in frames:
        if is_own(place[0]):
            return place
        if module is None and place[0].startswith(_MODULES) and not place[0].startswith(_CALLING):
            module = place
    return module


def frames_below(frame: FrameType | None, stop: Collection[CodeType]) -> Iterator[Place]:
    """Frames from the inside out, up to the first one whose code is among `stop`."""
    while frame is not None and frame.f_code not in stop:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


# in graphs


_tracing = threading.local()
_patching = threading.Lock()
_patches = 0
_torch_filter = TracerBase._filter_traceback_frames
_REGIONS = (type(torch.ops.higher_order.wrap_with_autocast), type(torch.ops.higher_order.wrap_with_set_grad_enabled))
"""Operations that hold regions under `torch.autocast` and `torch.no_grad`; when it takes them out again it forgets the frames."""
_torch_regions = [region.__call__ for region in _REGIONS]


@contextlib.contextmanager
def recorded(start: str) -> Iterator[None]:
    """Lets torch note the frames of helper functions with the nodes of graphs that this thread traces; by itself it notes `forward` alone.

    start: the name of the function of hnfc below which the model runs.
    """
    global _patches
    outer = getattr(_tracing, "start", None)
    with _patching:
        _patches += 1
        if _patches == 1:
            _patch()
    _tracing.start = start
    try:
        yield
    finally:
        _tracing.start = outer
        with _patching:
            _patches -= 1
            if not _patches:
                _restore()


def _patch() -> None:
    TracerBase._filter_traceback_frames = _own_frames  # type: ignore[method-assign,assignment]
    for region, call in zip(_REGIONS, _torch_regions, strict=True):
        region.__call__ = partialmethod(_interpreted, call)  # type: ignore[method-assign,assignment]


def _restore() -> None:
    TracerBase._filter_traceback_frames = _torch_filter  # type: ignore[method-assign]
    for region, call in zip(_REGIONS, _torch_regions, strict=True):
        region.__call__ = call  # type: ignore[method-assign]


def _interpreted(self: Any, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A region that runs node by node, so that what is traced of it keeps the frames of its nodes."""
    if getattr(_tracing, "start", None) is not None:
        args = tuple(fx.Interpreter(arg).run if isinstance(arg, fx.GraphModule) else arg for arg in args)
    return call(self, *args, **kwargs)


def _own_frames(self: Any, frames: traceback.StackSummary) -> traceback.StackSummary:
    start = getattr(_tracing, "start", None)
    if start is None:
        return _torch_filter(self, frames)
    own = list[traceback.FrameSummary]()
    for frame in reversed(frames):
        if frame.name == start and frame.filename.startswith(HNFC):
            break
        if is_own(frame.filename):
            own.append(frame)
    return traceback.StackSummary.from_list(own[::-1]) if own else _torch_filter(self, frames)
