"""torch-mlir's end-to-end suite: small modules with inputs, each through `hnfc.optimize`, beside the module itself.

`python -m tests.suites.torch_mlir_modules --checkout FOLDER [NAME …]` prints what is not right, and the counts. FOLDER is a checkout of
github.com/llvm/torch-mlir; of it the package projects/pt1/python/torch_mlir_e2e_test is imported.
"""

from __future__ import annotations

import copy
import functools
import importlib
import multiprocessing
import sys
import types
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

import hnfc
from hnfc.core.errors import ModelError
from tests.suites import forked
from tests.suites.checkouts import parsed_arguments
from tests.suites.comparing import copied, difference, is_nearer
from tests.suites.preparing import prepared

PACKAGE = "projects/pt1/python"
_SEED = 5
LEFT_OUT = {
    "rng": "draws numbers",
    "constant_alloc": "its `empty` has no values",
    "custom_op_example": "an operation of torch-mlir's own build",
    "timeout": "a test of torch-mlir's time limit",
    "vision_models": "downloads weights",
}
"""Files of the suite that say nothing of hnfc."""
_UNDEFINED = ("Empty", "Bernoulli", "Dropout", "Uniform", "Rand", "Normal", "Exponential", "Multinomial", "rrelu", "Rrelu")
"""Parts of names of modules whose results are drawn, or have no value."""


@functools.cache
def tests(checkout: Path) -> tuple[list[Any], dict[str, str]]:
    """The tests of the suite, and by file the reason why it has none here."""
    folder = checkout / PACKAGE
    sys.path.insert(0, str(folder))
    sys.modules.setdefault("multiprocess", multiprocessing)  # which the suite only needs for processes of its own
    for name in ("torchvision", "torchvision.ops"):  # which few modules use, and files of many import
        sys.modules.setdefault(name, types.ModuleType(name))
    suite = types.ModuleType("torch_mlir_e2e_test.test_suite")  # its own file takes a version that the wheel of torch-mlir lacks
    suite.__path__ = [str(folder / "torch_mlir_e2e_test" / "test_suite")]
    sys.modules[suite.__name__] = suite
    absent = dict(LEFT_OUT)
    try:
        for path in sorted((folder / "torch_mlir_e2e_test" / "test_suite").glob("*.py")):
            if path.stem in LEFT_OUT or path.stem == "__init__":
                continue
            try:
                importlib.import_module(f"torch_mlir_e2e_test.test_suite.{path.stem}")
            except ImportError as error:
                absent[path.stem] = str(error)
        return list(importlib.import_module("torch_mlir_e2e_test.registry").GLOBAL_TEST_REGISTRY), absent
    finally:
        sys.path.remove(str(folder))


def cases(checkout: Path, names: Sequence[str] = ()) -> Iterator[tuple[str, Any]]:
    """A case for every test whose results are defined."""
    for test in tests(checkout)[0]:
        drawn = any(part in test.unique_name for part in _UNDEFINED)
        if (test.unique_name in names) if names else not drawn:
            yield test.unique_name, partial(judged, test)


class Recorder:
    """Stands for a module in a test: notes each call, and answers with what the module says."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            self.calls.append((name, copied(arguments)))
            return getattr(self.module, name)(*arguments)

        return call


class Method(torch.nn.Module):
    """A method of a module as a module."""

    def __init__(self, module: torch.nn.Module, name: str) -> None:
        super().__init__()
        self.module = module
        self.name = name

    def forward(self, *arguments: Any) -> Any:
        return getattr(self.module, self.name)(*arguments)


def judged(test: Any) -> tuple[str, str]:
    """Outcome of every call that a test makes."""
    framework = importlib.import_module("torch_mlir_e2e_test.framework")
    torch.manual_seed(_SEED)
    module = test.program_factory().eval()
    recorder = Recorder(copy.deepcopy(module))
    try:
        test.program_invoker(recorder, framework.TestUtils())
    except Exception as error:
        return forked.RIGHT, f"the module itself raises: {type(error).__name__}: {error}"
    for name, arguments in recorder.calls:
        kind, detail = _judged(module, name, arguments)
        if kind != forked.RIGHT:
            return kind, detail
    return forked.RIGHT, ""


def _judged(module: torch.nn.Module, name: str, arguments: tuple[Any, ...]) -> tuple[str, str]:
    theirs = copied(arguments)
    torch.manual_seed(_SEED)
    wanted = getattr(copy.deepcopy(module), name)(*theirs)
    target = copy.deepcopy(module) if name == "forward" else Method(copy.deepcopy(module), name)
    sample, ours = copied(arguments), copied(arguments)
    try:
        better = hnfc.optimize(target, sample)
        torch.manual_seed(_SEED)
        found = better(*ours)
    except ModelError as error:
        return forked.REFUSED, " ".join(str(error).split())
    fault = difference(found, wanted) or difference(ours, theirs)

    def exactly(wide: Any) -> Any:
        return getattr(copy.deepcopy(module).double(), name)(*wide)

    if fault and not is_nearer(found, wanted, exactly, arguments):
        return forked.WRONG, fault
    fault = difference(sample, arguments)
    return (forked.WRONG, f"the sample changed: {fault}") if fault else (forked.RIGHT, "")


def main() -> None:
    options = parsed_arguments(__doc__)
    with prepared():
        chosen = list(cases(options.checkout, options.names))[:: options.every]
        for name, reason in tests(options.checkout)[1].items():
            print(f"left out {name}: {reason}", flush=True)
        forked.show(forked.run(chosen, jobs=options.jobs, seconds=180))


if __name__ == "__main__":
    main()
