"""Positions of formulas in the source of a model: the innermost Python frame that is neither torch's, nor hnfc's, nor Python's own."""

from __future__ import annotations

import sysconfig
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType

import torch

Place = tuple[str, int]
"""File and line."""

TORCH = f"{Path(torch.__file__).parent}/"
HNFC = f"{Path(__file__).parent.parent}/"
_PYTHON = f"{sysconfig.get_path('stdlib')}/"
_PACKAGES = ("/site-packages/", "/dist-packages/")
_MODULES = f"{TORCH}nn/modules/"
_CALLING = (f"{_MODULES}module.py", f"{_MODULES}container.py")
"""Files of torch that only call other modules."""


def is_own(file: str) -> bool:
    """Whether a file is the model's own code."""
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
