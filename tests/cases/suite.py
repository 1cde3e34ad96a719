"""58 small models from public bug reports: `f` as reported, inputs that break it, the true values, a tolerance.

`python tests/cases/suite.py` prints the table: each model exported through torch-mlir, compiled by hnfc, lowered to linalg and
run, before and after; by torch where torch-mlir cannot lower the model at all.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

HERE = Path(__file__).parent
if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent.parent))

from hnfc.backend.fx import raise_function  # noqa: E402
from hnfc.core.errors import ModelError  # noqa: E402
from hnfc.core.verdicts import verdicts  # noqa: E402
from hnfc.dsl.rulebook import shipped  # noqa: E402
from hnfc.pipeline.compile import compile_module  # noqa: E402
from hnfc.pipeline.compiled import Compiled  # noqa: E402
from hnfc.pipeline.levels import phases  # noqa: E402
from hnfc.pipeline.request import Request  # noqa: E402
from tests.exporting import export_torch  # noqa: E402
from tests.running import run_torch_mlir  # noqa: E402

UNIT_ROUNDOFF = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
KINDS = {"R": "stability rewrite", "P": "precision assignment", "B": "both", "N": "not fixable by a rewrite"}


@dataclass(frozen=True)
class Case:
    name: str
    module: ModuleType

    @property
    def kind(self) -> str:
        return KINDS[self.module.KIND]

    @property
    def gradient(self) -> bool:
        return getattr(self.module, "CHECK", "value") == "grad"

    @property
    def tolerance(self) -> float:
        return float(getattr(self.module, "TOL", 16 * UNIT_ROUNDOFF[self.module.DTYPE]))


@dataclass(frozen=True)
class Score:
    """Elements that are wrongly not finite, and the largest error of the others in the case's own metric."""

    bad: int
    error: float

    def within(self, tolerance: float) -> bool:
        return self.bad == 0 and self.error <= tolerance

    def worse_than(self, other: Score, tolerance: float) -> bool:
        if self.bad != other.bad:
            return self.bad > other.bad
        return self.error > max(other.error * 1.01, tolerance) if np.isfinite(other.error) else False

    def __str__(self) -> str:
        return f"{self.bad} bad" if self.bad else f"{self.error:.1e}"


@dataclass(frozen=True)
class Result:
    case: Case
    rules: tuple[str, ...]
    before: Score
    after: Score
    runner: str

    @property
    def fixed(self) -> bool:
        return self.after.within(self.case.tolerance)

    @property
    def worse(self) -> bool:
        return self.after.worse_than(self.before, self.case.tolerance)


@cache
def cases() -> tuple[Case, ...]:
    found = []
    for path in sorted((HERE / "models").glob("[0-9]*.py")):
        spec = importlib.util.spec_from_file_location(f"case_{path.stem}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found.append(Case(path.stem, module))
    return tuple(found)


def score(case: Case, out: torch.Tensor, reference: torch.Tensor) -> Score:
    out, reference = out.double(), reference.double()
    finite = torch.isfinite(reference)
    bad = (finite & ~torch.isfinite(out)) | (~finite & (out != reference))
    good = finite & torch.isfinite(out)
    if not good.any():
        return Score(int(bad.sum()), float("nan"))
    difference = (out - reference).abs()[good]
    if getattr(case.module, "METRIC", "rel") == "maxabs_scaled":
        return Score(int(bad.sum()), float(difference.max() / reference.abs()[finite].max()))
    size = reference.abs()[good]
    tiny = torch.finfo(case.module.DTYPE).tiny
    scale = torch.where(size > 0, torch.clamp(size, min=tiny), torch.ones_like(size))
    return Score(int(bad.sum()), float((difference / scale).max()))


def function_of(case: Case) -> Any:
    """`f`, or its gradient in the first input as a graph of forward operations."""
    if not case.gradient:
        return case.module.f
    from torch.fx.experimental.proxy_tensor import make_fx

    def gradient(*xs: torch.Tensor) -> torch.Tensor:
        first = xs[0].detach().requires_grad_(True)
        return torch.autograd.grad(case.module.f(first, *xs[1:]).sum(), first)[0]

    return make_fx(gradient)(*case.module.inputs())


def compile_case(case: Case, level: str = "stability") -> tuple[Any, Compiled]:
    """The exported module, and what hnfc makes of it, given the case's inputs as samples."""
    inputs = case.module.inputs()
    module = export_torch(function_of(case), *inputs)
    book = shipped()
    plan = [book.only(names).rules for names in phases(level, set(book.groups()))]
    proved = verdicts([rule for phase in plan for rule in phase])
    with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        np.savez(file, **{f"arg{i}": to_numpy(x) for i, x in enumerate(inputs)})
        file.flush()
        allowed = [[rule for rule in phase if proved[rule.name].proved] for phase in plan]
        return module, compile_module(module, Request(phases=allowed, calibrate=file.name))


def to_numpy(x: torch.Tensor) -> Any:
    return x.float().numpy() if x.dtype == torch.bfloat16 else x.numpy()


def run(case: Case, module: Any) -> tuple[torch.Tensor, str]:
    """The output of the compiled module; by torch where torch-mlir cannot lower an operation of the model."""
    import ml_dtypes

    inputs = case.module.inputs()
    arrays = [x.float().numpy().astype(ml_dtypes.bfloat16) if x.dtype == torch.bfloat16 else x.numpy() for x in inputs]
    try:
        out = np.asarray(run_torch_mlir(module, arrays)[0])
        return torch.from_numpy(out.astype(np.float64)), "compiled"
    except ModelError:
        return raise_function(module)(*inputs)[0], "torch"


def measure(case: Case, level: str = "stability") -> Result:
    reference = case.module.reference(*case.module.inputs())
    module, compiled = compile_case(case, level)
    before, _ = run(case, module)
    exported = compiled.export()
    after, runner = run(case, exported)
    rules = tuple(dict.fromkeys(applied.rule.name for applied in compiled.applied))
    return Result(case, rules, score(case, before, reference), score(case, after, reference), runner)


def results(names: tuple[str, ...] = ()) -> Iterator[Result]:
    for case in cases():
        if not names or any(case.name.startswith(name) for name in names):
            yield measure(case)


def table(rows: list[Result]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter="\t", lineterminator="\n")
    writer.writerow(["case", "kind", "before", "after", "tolerance", "run by", "verdict", "rules"])
    for r in rows:
        verdict = "fixed" if r.fixed else "WORSE" if r.worse else "open" if r.rules else "untouched"
        writer.writerow([r.case.name, r.case.kind, r.before, r.after, f"{r.case.tolerance:.1e}", r.runner, verdict, " ".join(r.rules)])
    for kind in KINDS.values():
        mine = [r for r in rows if r.case.kind == kind]
        out.write(f"{kind}: {sum(r.fixed for r in mine)} of {len(mine)} within tolerance\n")
    return out.getvalue()


if __name__ == "__main__":
    print(table(list(results(tuple(sys.argv[1:])))))
