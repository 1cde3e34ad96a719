"""hnfc for JAX: functions in, differentiable functions out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hnfc.core.errors import UsageError
from hnfc.core.progress import Progress, reporting
from hnfc.egraph.search import search_of
from hnfc.jax.compiling import FunctionSettings
from hnfc.jax.dots import Scaled, delayed_dot_general, delayed_state, dot_general
from hnfc.jax.optimized import OptimizedFunction
from hnfc.pipeline.rulesets import RuleSet, chosen_rules
from hnfc.report.difference import Difference


@reporting("tracing the function …")
def optimize(
    function: Callable[..., Any] | None = None,
    *samples: Any,
    group: str | Sequence[str] = "stability",
    rules: RuleSet | None = None,
    ranges: Mapping[str, tuple[float, float]] | str | None = None,
    assume: Sequence[str] = (),
    allow_unproved: Sequence[str] = (),
    validate: bool = True,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    search: str = "greedy",
    cost: str | None = None,
    target: str | None = None,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> Any:
    """The function with its unstable formulas rewritten: called, jitted, differentiated and mapped as the original.

    samples: arguments of one call, on which old and new are compared; without them, each kind of call is traced and rewritten when it
    first comes. Without a function, a decorator.
    group: a level or group of rules, or several of them and `.hnf` files; `rules` gives loaded ones instead.
    ranges: bounds of inputs by name, `{"x": (-10, 10)}`, from which conditions of rules are shown; `"sample"` takes those of the first
    arrays that come.
    assume: rules whose condition you vouch for. allow_unproved: rules that may run without a proof, if they are not vacuous.
    validate: compares old and new, results and gradients, on the sample and on probes, and takes back a rule that made one worse.
    static_argnums, static_argnames: as for `jax.jit`. search, cost, target, seconds, progress: as for `hnfc.optimize`.

    Samples may have any shapes that the function takes; an error that it raises comes through. Raises ModelError where JAX's trace of it
    cannot be read, UsageError for options that do not fit, HnfError for a faulty rule file, and OSError for one that cannot be read.
    """
    loaded, vouched = chosen_rules(group, rules, allow_unproved, assume)
    loaded, chosen = loaded.for_search(search_of(search, cost, target, 0.0, seconds, targets=loaded.targets))
    settings = FunctionSettings(loaded, ranges, vouched, validate, chosen)
    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)

    def wrapped(function: Callable[..., Any]) -> OptimizedFunction:
        if not callable(function):
            raise UsageError(f"hnfc.jax.optimize takes a function of JAX, not {type(function).__name__}")
        return OptimizedFunction(function, settings, numbers, names)

    if function is None:
        return wrapped
    better = wrapped(function)
    if samples:
        better.prepare(*samples)
    return better


def diff(function: Callable[..., Any], better: Any) -> Difference:
    """The rewrites in `better` over `function`, one section for each kind of call so far.

    Raises UsageError where `better` does not come from `function` by `hnfc.jax.optimize`.
    """
    if not isinstance(better, OptimizedFunction):
        raise UsageError("this function does not come from hnfc.jax.optimize")
    if better.original is not function:
        raise UsageError("the second function was not made from the first")
    heads = [f"for {', '.join(form.inputs)}:\n" if len(better.forms) > 1 else "" for form in better.forms]
    texts = [head + form.outcome.text for head, form in zip(heads, better.forms, strict=True)]
    data = [part for form in better.forms for part in (form.outcome.data, *form.outcome.data["bodies"])]
    return Difference("\n\n".join(texts), tuple(data))


__all__ = ["OptimizedFunction", "Scaled", "delayed_dot_general", "delayed_state", "diff", "dot_general", "optimize"]
