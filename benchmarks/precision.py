"""Formats for whole models beside torch.autocast and a search: bytes at the same error, and error at the same bytes.

    python benchmarks/precision.py [--quick] [--long] [autocast] [search] [MODEL …]

autocast    each model under torch.autocast on the CPU in bfloat16, wholly in a 16-bit format, and in the formats of PrecisionOptimizer
search      Optuna's TPE, 50 trials, on formats by layers, on the same objective; with --long also for a hundred times as long as hnfc takes

Bytes are those of parameters and of the values live at the worst moment, in the formats that they are stored in; what an operation widens
for itself is not counted, for anybody. Parameters of autocast count in bfloat16 where an operation is given them so, and in float32 in the
line below; in memory it keeps both. Errors are root mean squares relative to that of the outputs of the float32 model, on inputs that
were not analyzed.
"""

from __future__ import annotations

import copy
import math
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
warnings.filterwarnings("ignore")

from precision_models import MODELS, Inputs, loaded  # noqa: E402

from hnfc.precision.assignment import Assignment, assign  # noqa: E402
from hnfc.precision.cast_insertion import casts_of  # noqa: E402
from hnfc.precision.distances import distance  # noqa: E402
from hnfc.precision.optimizer import PrecisionAnalysis, PrecisionOptimizer  # noqa: E402
from hnfc.precision.requirements import bytes_of  # noqa: E402
from hnfc.precision.values import PrecisionSite  # noqa: E402
from hnfc.pytorch.optimized import arguments_of  # noqa: E402
from hnfc.pytorch.program import CapturedProgram  # noqa: E402
from hnfc.pytorch.settings import Settings  # noqa: E402
from hnfc.rewriter import load_rules  # noqa: E402

FORMATS = ("bf16", "fp16", "fp32")
EIGHTHS = ("Q8_0", "MXINT8", "fp8_e4m3fn", "fp8_e5m2")
FINE = 3e-2
"""A second target where autocast's error is larger."""
TRIALS = 50
MISSED = 1e12
"""What formats that miss the target count as, in bytes."""

# bytes


class Observing(fx.Interpreter):
    """Notes of every tensor of a graph its storage, number of elements and type."""

    def __init__(self, graph: fx.GraphModule) -> None:
        super().__init__(graph)
        self.storages: list[Any] = []  # kept, so that no address is used twice
        self.seen: dict[fx.Node, tuple[int, int, torch.dtype]] = {}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, torch.Tensor):
            storage = result.untyped_storage()
            self.storages.append(storage)
            self.seen[n] = storage.data_ptr(), result.numel(), result.dtype
        return result


def observed(graph: fx.GraphModule, tensors: Sequence[torch.Tensor]) -> dict[fx.Node, tuple[int, int, torch.dtype]]:
    watching = Observing(graph)
    with torch.no_grad():
        watching.run(*tensors)
    return watching.seen


def peak(graph: fx.GraphModule, seen: Mapping[fx.Node, tuple[int, int, torch.dtype]], sizes: Mapping[fx.Node, float]) -> float:
    """The most bytes live at once. seen: storages, which views share, and elements; sizes: bytes of an element of each node.

    What the graph is given stays; every other storage lives from where it is made to where it, or a view of it, is last used.
    """
    nodes = list(graph.graph.nodes)
    place = {node: index for index, node in enumerate(nodes)}
    size: dict[int, float] = {}
    start: dict[int, int] = {}
    end: dict[int, int] = {}
    for node in nodes:
        if node in seen:
            storage, elements, _ = seen[node]
            size[storage] = max(size.get(storage, 0), elements * sizes[node])
            start.setdefault(storage, -1 if node.op == "placeholder" else place[node])
            last = len(nodes) if node.op == "placeholder" else max((place[user] for user in node.users), default=place[node])
            end[storage] = max(end.get(storage, -1), last)
    change = [0.0] * (len(nodes) + 3)
    for storage in size:
        change[start[storage] + 1] += size[storage]
        change[end[storage] + 2] -= size[storage]
    live = most = 0.0
    for step in change:
        live += step
        most = max(most, live)
    return most


@dataclass
class Captured:
    """A model's graph with what its values are in float32 and under autocast."""

    graph: fx.GraphModule
    plain: Mapping[fx.Node, tuple[int, int, torch.dtype]]
    cast: Mapping[fx.Node, tuple[int, int, torch.dtype]]

    @staticmethod
    def of(program: CapturedProgram, model: nn.Module, inputs: Inputs) -> Captured:
        tensors = [t.detach() for t in program.signature.gather(model, list(inputs))]
        plain = observed(program.graph, tensors)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return Captured(program.graph, plain, observed(program.graph, tensors))

    def in_formats(self, sites: Sequence[PrecisionSite], formats: Mapping[str, str]) -> float:
        places = {place: bytes_of(site, formats[site.name]) / max(site.elements, 1) for site in sites for place in site.nodes}
        nodes = enumerate(self.graph.graph.nodes)
        return peak(self.graph, self.plain, {n: places.get(i, self.plain[n][2].itemsize) for i, n in nodes if n in self.plain})

    def in_one(self, dtype: torch.dtype) -> float:
        return peak(
            self.graph, self.plain, {n: dtype.itemsize if d.is_floating_point else d.itemsize for n, (_, _, d) in self.plain.items()}
        )

    def under_autocast(self, narrow_parameters: bool) -> float:
        sizes: dict[fx.Node, float] = {n: d.itemsize for n, (_, _, d) in self.cast.items()}
        for node in self.cast if narrow_parameters else ():
            if node.op == "placeholder" and any(self._narrows(user, node) for user in node.users):
                sizes[node] = torch.bfloat16.itemsize
        # views are those of the run in float32: autocast copies what it casts
        return peak(self.graph, {n: (*self.plain[n][:2], d) for n, (_, _, d) in self.cast.items()}, sizes)

    def _narrows(self, user: fx.Node, operand: fx.Node) -> bool:
        return self.cast[operand][2] == torch.float32 and user in self.cast and self.cast[user][2] == torch.bfloat16


def program_of(analysis: PrecisionAnalysis) -> CapturedProgram:
    args, kwargs = arguments_of(analysis.sample)
    return CapturedProgram.of(analysis.model, args, kwargs, Settings(load_rules("none")))


# comparisons


def error(run: Callable[..., Any], model: nn.Module, inputs: Inputs) -> float:
    with torch.no_grad():
        true, found = model(*inputs).double(), run(*inputs).double()
    return float((found - true).square().mean().sqrt() / true.square().mean().sqrt())


def under_autocast(model: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return model(*inputs)


def wholly(dtype: torch.dtype, model: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
    given = pytree.tree_map(lambda t: t.to(dtype) if t.is_floating_point() else t, inputs)
    return copy.deepcopy(model).to(dtype)(*given)


def show(name: str, how: str, found: float, size: float, whole: float, more: str = "") -> None:
    print(f"{name:10} {how:32} {found:9.2e} {size / 1e6:10.4f} {size / whole:6.2f}  {more}", flush=True)


def tightest(analysis: PrecisionAnalysis, captured: Captured, most: float, loose: float) -> Assignment | None:
    """The assignment for the least target that takes at most so many bytes, by bisection of its logarithm."""
    low, high, best = loose / 1e4, loose, None
    for _ in range(10):
        target = math.sqrt(low * high)
        outcome = assign(analysis.sites, replace(analysis.requirements, target=target))
        if isinstance(outcome, Assignment) and captured.in_formats(analysis.sites.sites, outcome.formats) <= most:
            high, best = target, outcome
        else:
            low = target
    return best


def autocast(names: Sequence[str], quick: bool) -> None:
    print(f"{'model':10} {'':32} {'error':>9} {'MB':>10} {'':>6}  MB relative to autocast's")
    for name in names:
        model, sample, unseen = loaded(name, quick)
        amp = error(partial(under_autocast, model), model, unseen)
        start = time.perf_counter()
        analysis = optimizer(amp).analyze(model, sample)
        seconds = time.perf_counter() - start
        captured = Captured.of(program_of(analysis), model, sample)
        whole = captured.under_autocast(narrow_parameters=True)
        show(name, "float32", 0.0, captured.in_one(torch.float32), whole)
        show(name, "autocast", amp, whole, whole)
        show(name, "autocast, parameters in float32", amp, captured.under_autocast(narrow_parameters=False), whole)
        for how, dtype in (("all in bfloat16", torch.bfloat16), ("all in float16", torch.float16)):
            show(name, how, error(partial(wholly, dtype, model), model, unseen), captured.in_one(dtype), whole)
        ours(name, f"hnfc, target {amp:.1e}", analysis, captured, whole, unseen, f"analyzed in {seconds:.1f} s")
        eighths = optimizer(amp, *EIGHTHS).analyze(model, sample)
        ours(name, f"hnfc with 8 bits, target {amp:.1e}", eighths, captured, whole, unseen)
        best = tightest(analysis, captured, whole, amp)
        if best is None:
            print(f"{name:10} no assignment of autocast's bytes has an estimated error below its error")
        else:
            ours(name, "hnfc, the bytes of autocast", replace(analysis, outcome=best), captured, whole, unseen)
        if amp > FINE:
            finer = optimizer(FINE).analyze(model, sample)
            ours(name, f"hnfc, target {FINE}", finer, captured, whole, unseen)
        halves(name, min(amp, FINE), model, sample)


def optimizer(target: float, *more: str) -> PrecisionOptimizer:
    return PrecisionOptimizer(target, formats=(*more, *FORMATS), least="peak")


def halves(name: str, target: float, model: nn.Module, sample: Inputs) -> None:
    found = PrecisionOptimizer(target, formats=("bf16", "fp16"), least="bytes").analyze(model, sample)
    mixed = "mixed they do" if isinstance(found.outcome, Assignment) else "nor do they mixed"
    print(f"{name:10} of the 16-bit formats, {found.h0_dim} do for the whole model with a target of {target:.1e}; {mixed}", flush=True)


def ours(name: str, how: str, analysis: PrecisionAnalysis, captured: Captured, whole: float, unseen: Inputs, more: str = "") -> None:
    if not isinstance(analysis.outcome, Assignment):
        print(f"{name:10} {how:32} refused: {analysis.outcome.reasons[0]}", flush=True)
        return
    size = captured.in_formats(analysis.sites.sites, analysis.outcome.formats)
    show(name, how, error(analysis.apply(), analysis.model, unseen), size, whole, more)


def layer(site: PrecisionSite) -> str:
    """What one decision of the search is for: the blocks of a transformer in three parts each, other modules as they are."""
    parts = site.module.removeprefix("model.").split(".")
    return ".".join(parts[:4]) if parts[:2] == ["encoder", "layer"] else parts[0]


@dataclass
class Search:
    """One decision for each group of sites, as a search over formats has it."""

    analysis: PrecisionAnalysis
    captured: Captured
    program: CapturedProgram
    tensors: Sequence[torch.Tensor]
    target: float

    @property
    def groups(self) -> list[str]:
        return sorted({layer(site) for site in self.analysis.sites.sites})

    def with_formats(self, chosen: Mapping[str, str]) -> PrecisionAnalysis:
        formats = {site.name: chosen[layer(site)] for site in self.analysis.sites.sites}
        assert isinstance(self.analysis.outcome, Assignment)
        return replace(self.analysis, outcome=replace(self.analysis.outcome, formats=formats))

    def objective(self, trial: Any) -> float:
        """Bytes; and what misses the target is dearer than anything that meets it, by how much it misses it."""
        given = self.with_formats({group: trial.suggest_categorical(group, self.analysis.requirements.formats) for group in self.groups})
        casts = casts_of(given.outcome, given.sites, self.program.graph, given.dtypes, given.wide)
        found = distance(self.program.graph, casts, self.tensors, False) / given.sites.rms
        if found > self.target:
            return MISSED * min(found / self.target, 1e6)
        return self.captured.in_formats(given.sites.sites, given.get_precision_assignment())


def search(names: Sequence[str], quick: bool, long: bool) -> None:
    try:
        import optuna
    except ImportError as problem:
        print(problem)
        return
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    print(f"{'model':10} {'':32} {'error':>9} {'MB':>10} {'':>6}  MB relative to autocast's")
    for name in names:
        for more in ((), EIGHTHS):
            against_tpe(optuna, name, quick, long, more)


def against_tpe(optuna: Any, name: str, quick: bool, long: bool, more: tuple[str, ...]) -> None:
    """The seconds of both include what captures the model's graph."""
    model, sample, unseen = loaded(name, quick)
    target = min(error(partial(under_autocast, model), model, unseen), FINE)
    start = time.perf_counter()
    analysis = optimizer(target, *more).analyze(model, sample)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    assign(analysis.sites, analysis.requirements)
    solved = time.perf_counter() - start
    start = time.perf_counter()
    program = program_of(analysis)
    captured = Captured.of(program, model, sample)
    whole = captured.under_autocast(narrow_parameters=True)
    bits = " and 8 bits" if more else ""
    ours(name, f"hnfc{bits}, target {target:.1e}", analysis, captured, whole, unseen, f"{seconds:.1f} s, solved in {solved:.3f} s of it")
    tensors = [t.detach() for t in program.signature.gather(model, list(sample))]
    searched = Search(analysis, captured, program, tensors, target)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(searched.objective, n_trials=TRIALS)

    def tell() -> None:
        taken = time.perf_counter() - start
        how = f"TPE{bits}, {len(study.trials)} trials, {len(searched.groups)} groups"
        if study.best_value >= MISSED:
            print(f"{name:10} {how:32} none meets the target: {study.best_value / MISSED:.3g} times it; {taken:.1f} s", flush=True)
        else:
            ours(name, how, searched.with_formats(study.best_params), captured, whole, unseen, f"{taken:.1f} s")

    tell()
    if long:
        study.optimize(searched.objective, timeout=max(0.0, 100 * seconds - (time.perf_counter() - start)))
        tell()


def main(arguments: list[str]) -> None:
    quick, long = "--quick" in arguments, "--long" in arguments
    names = [a for a in arguments if a in MODELS]
    parts = [a for a in arguments if a in ("autocast", "search")] or ["autocast", "search"]
    # what torch imports and compiles on its first use is nobody's time
    optimizer(1e-2).analyze(nn.Linear(2, 2), torch.ones(1, 2))
    if "autocast" in parts:
        autocast(names or list(MODELS), quick)
    if "search" in parts:
        search([n for n in names if n in ("MiniLM", "exp-exp")] or ["MiniLM", "exp-exp"], quick, long)


if __name__ == "__main__":
    main(sys.argv[1:])
