"""Rewrites of a model larger than memory: each kind of layer once, then each layer by itself beside the original on its own values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import fx

from hnfc.backend.fx import raise_graph
from hnfc.core.errors import UsageError
from hnfc.core.notebook import lines_html
from hnfc.core.progress import Progress, reporting, tell
from hnfc.frontend.pytorch import import_graph
from hnfc.pipeline.compile import compile_module
from hnfc.pipeline.levels import Searches
from hnfc.pipeline.request import Request
from hnfc.pipeline.rulesets import RuleSet, load_rules
from hnfc.sharded.journal import Journal, digest_of
from hnfc.sharded.model import ShardedModel
from hnfc.sharded.running import SegmentRun, Values, WideRun, first_values, joined, relative_error, run_segment, separated, wider_than
from hnfc.sharded.segments import Chain, Segment, call_of, chain_of
from hnfc.validation.tolerance import TOLERATED_GROWTH, TOLERATED_ULPS

_OTHER_SIZES = (-64, -16, 16, 64)
"""Binary exponents of what the values before a layer are multiplied by."""


@dataclass(frozen=True)
class Rewrites:
    """The rewritten graph of one kind of layer, and the names of the rules that ran in it with their locations."""

    module: fx.GraphModule
    applied: tuple[tuple[str, str], ...]


@dataclass(frozen=True, repr=False)
class RewrittenModel:
    """A model that runs layer by layer from its files.

    layers: for each whether its rewritten graph runs (`rewritten`), and the errors of its values before and after on the sample.
    """

    model: ShardedModel
    chain: Chain
    rewrites: dict[str, Rewrites]
    layers: tuple[dict[str, Any], ...]
    kinds: tuple[tuple[torch.Size, torch.dtype], ...]
    """Shape and type of each input."""

    def run(self, sample: Any) -> tuple[torch.Tensor, ...]:
        """The outputs, in the order in which the model returns its tensors. Raises UsageError for inputs of other shapes or types."""
        args, kwargs = call_of(self.model, sample)
        leaves = [tensor for tensor in (*args, *kwargs.values()) if isinstance(tensor, torch.Tensor)]
        if tuple((tensor.shape, tensor.dtype) for tensor in leaves) != self.kinds:
            raise UsageError(f"the model was captured for inputs {list(self.kinds)}; optimize it for a sample like these")
        values = first_values(self.chain, args, kwargs)
        for segment, layer in zip(self.chain.segments, self.layers, strict=True):
            graph = self.rewrites[segment.digest].module if layer["rewritten"] else None
            values = run_segment(_run(segment, graph), segment, values, _state(self.model, self.chain, segment))
        return tuple(values[name] for name in self.chain.results)

    def report(self) -> str:
        """Rewrites of each kind of layer, and how many layers of it run so."""
        lines = []
        for digest, rewrites in self.rewrites.items():
            equal = [layer for layer in self.layers if layer["digest"] == digest]
            taken = [layer for layer in equal if layer["rewritten"]]
            if not rewrites.applied:
                continue
            names = equal[0]["name"] if len(equal) == 1 else f"{equal[0]['name']} … {equal[-1]['name']} ×{len(equal)}"
            lines.append(f"{names}: {len(rewrites.applied)} rewrites" + ("" if len(taken) == len(equal) else f", in {len(taken)} of them"))
            lines += [f"  {rule} at {place}" for rule, place in rewrites.applied]
            before, after = (max(layer[key] for layer in equal) for key in ("before", "after"))
            lines.append(f"  error of its values on the sample at most {before:.2g} before, {after:.2g} after")
        return "\n".join(lines) or "nothing to rewrite"

    def __repr__(self) -> str:
        return f"RewrittenModel({sum(layer['rewritten'] for layer in self.layers)} of {len(self.layers)} layers rewritten)"

    def __str__(self) -> str:
        return self.report()

    def _repr_html_(self) -> str:
        return lines_html(f"{self!r}\n{self}")


@reporting("capturing the model …")
def optimize(
    model: ShardedModel,
    sample: Any,
    group: str | Sequence[str] = "stability",
    work: str | Path | None = None,
    progress: Progress | None = None,
) -> RewrittenModel:
    """Rewrites by proved rules. Equal layers are rewritten once; in each a rewrite is kept only if it loses nothing on the sample, and in
    the first of a kind nothing on values of other sizes.

    Conditions of rules are shown from types, sizes and constants, not from the sample or weights; forms are not searched for. work: a
    folder from which a run that was ended goes on; it is deleted at the end. Raises UsageError for a level that searches a whole model.
    """
    rules = load_rules(*((group,) if isinstance(group, str) else group))
    if rules.searches is Searches.EVERYWHERE:
        raise UsageError(f"the level {group} searches whole models; for models in shards there are stability, fusion and groups of rules")
    args, kwargs = call_of(model, sample)
    chain = chain_of(model, args, kwargs)
    first = first_values(chain, args, kwargs)
    wide = wider_than(list(model.dtypes.values()))
    rewrites = {segment.digest: _rewritten(segment, rules) for segment in {s.digest: s for s in reversed(chain.segments)}.values()}
    journal = Journal(
        None if work is None else Path(work),
        ["optimize", group, model.checkpoint.identity(), model.config, digest_of(first), [segment.digest for segment in chain.segments]],
    )
    for place, segment in enumerate(chain.segments[len(journal.done) :], len(journal.done)):
        tell(f"layers: {place + 1} of {len(chain.segments)}, {segment.name} …")
        true, ours = separated(journal.values(joined(first, first)))
        alike = next((layer["elsewhere"] for layer in journal.done if layer["digest"] == segment.digest), None)
        found, true, ours = _judged(segment, rewrites[segment.digest], _state(model, chain, segment), true, ours, wide, alike)
        journal.add(found, joined(true, ours))
    kinds = tuple((tensor.shape, tensor.dtype) for tensor in first.values())
    result = RewrittenModel(model, chain, rewrites, tuple(journal.done), kinds)
    journal.remove()
    return result


def _rewritten(segment: Segment, rules: RuleSet) -> Rewrites:
    fixed = frozenset(range(len(segment.values), len(segment.values) + len(segment.state)))
    request = Request(phases=rules.allowed(), unproved=rules.unproved, validate=False, fixed=fixed, native=True)
    compiled = compile_module(import_graph(segment.graph), request)
    root, graph = raise_graph(compiled.export(native=True))
    return Rewrites(fx.GraphModule(root, graph), tuple((applied.rule.name, applied.place) for applied in compiled.applied))


def _judged(
    segment: Segment, rewrites: Rewrites, state: Values, true: Values, ours: Values, wide: torch.dtype, elsewhere: bool | None
) -> tuple[dict[str, Any], Values, Values]:  # fmt: skip
    """Record of a layer, and its values. The rewritten graph runs where its error is tolerated beside that of the original.

    elsewhere: whether it is on values of other sizes too; None where no layer of the kind has been tried.
    """
    exact = run_segment(WideRun(segment.graph, wide), segment, true, state)
    own = run_segment(_run(segment, None), segment, ours, state)
    shown = [name for name in segment.results if name in own]
    before = after = relative_error(own, exact, shown)
    found, taken = own, False
    if rewrites.applied:

        def tolerated(values: Values) -> bool:
            return _tolerated(segment, rewrites, state, values, wide)

        # both from the same values, so that errors of earlier layers count on neither side
        taken = tolerated(ours)
        if taken and elsewhere is None:
            elsewhere = all(tolerated(_scaled(ours, segment.values, exponent)) for exponent in _OTHER_SIZES)
        taken = taken and elsewhere is not False
        if taken:
            found = run_segment(_run(segment, rewrites.module), segment, ours, state)
            after = relative_error(found, exact, shown)
    record = {"rewritten": taken, "elsewhere": elsewhere, "before": before, "after": after}
    return {"name": segment.name, "digest": segment.digest, **record}, exact, found


def _tolerated(segment: Segment, rewrites: Rewrites, state: Values, values: Values, wide: torch.dtype) -> bool:
    """Compare both graphs on these values: true where the rewritten one is about as good. Where the wider type has no finite number either,
    it is finite if the original is."""
    own, new = (run_segment(_run(segment, graph), segment, values, state) for graph in (None, rewrites.module))
    exact = run_segment(WideRun(segment.graph, wide), segment, values, state)
    shown = [name for name in segment.results if name in own]
    for name in shown:
        unknown = ~exact[name].isfinite()
        if bool((unknown & own[name].isfinite() & ~new[name].isfinite()).any()):
            return False
        for values_there in (own, new, exact):
            values_there[name] = torch.where(unknown, torch.zeros_like(values_there[name]), values_there[name])
    ulp = max((torch.finfo(own[name].dtype).eps for name in shown if own[name].is_floating_point()), default=0.0)
    old_error, new_error = relative_error(own, exact, shown), relative_error(new, exact, shown)
    return new_error <= max(TOLERATED_GROWTH * old_error, TOLERATED_ULPS * ulp / 2)


def _scaled(values: Values, names: Sequence[str], exponent: int) -> Values:
    """Floating-point values among the names, times a power of two, as far as their type reaches."""
    changed = dict(values)
    for name in names:
        if values[name].is_floating_point():
            changed[name] = values[name] * 2.0**exponent
    return changed


def _run(segment: Segment, rewritten: fx.GraphModule | None) -> fx.Interpreter:
    return SegmentRun(segment.graph) if rewritten is None else fx.Interpreter(rewritten, garbage_collect_values=True)


def _state(model: ShardedModel, chain: Chain, segment: Segment) -> Values:
    return model.read([name for name in segment.state if name not in chain.constants]) | chain.constants
