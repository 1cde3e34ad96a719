"""Requirements on a format assignment, and its two results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from hnfc.core.errors import UsageError, alternatives
from hnfc.dsl.rulebook import shipped_targets
from hnfc.dsl.targets import Target as Machine
from hnfc.formats.granular import Granular, is_for_activations, is_for_weights
from hnfc.formats.named import canonical, format_named
from hnfc.formats.scaled import is_plain, split, stored_bytes, stored_format
from hnfc.precision.certificates import RUN, Cycle, Edge
from hnfc.precision.policy import Policy, SemanticDType
from hnfc.precision.targets import Allowance, Errors, Target, allowances
from hnfc.precision.values import PrecisionSite, PrecisionSites

LEAST = ("moved", "bytes", "parameters", "peak", "time")
"""Objectives."""


@dataclass(frozen=True)
class Requirements:
    """Requirements on an assignment. target: bound of the error of the outputs, relative to their root mean square, or absolute; one number
    for all together, or numbers for single outputs.

    pins: formats by patterns of names of sites, modules or operations, as a shell matches them. uncast: pairs of such patterns between
    whose sites no cast is allowed where one feeds the other. memory: bytes at most, of all sites together, or with least="peak" the peak
    live bytes. Raises UsageError for what is no requirement, as a target that is not above 0.
    """

    target: Target = 1e-3
    relative: bool = True
    formats: tuple[str, ...] = ("bf16", "fp16", "fp32")
    pins: Mapping[str, str] = field(default_factory=dict)
    uncast: Sequence[tuple[str, str]] = ()
    memory: float = math.inf
    policy: Policy | None = None
    headroom: float = 2.0
    """By how much a value may become larger than on the samples before it overflows."""
    scaling: bool = True
    """True if a value that overflows may be stored with a scale that is a power of two."""
    target_machine: Machine | None = None
    """Formats that it has no rate for are not chosen."""
    least: str = "bytes"
    """Objective: bytes that are `moved`, as `Timing` counts them, casts included; `bytes` of all sites, or of `parameters`; peak live bytes
    (`peak`), which `memory` limits then; or `time` as `Timing` models it."""
    saturation: bool = True
    """True if a value of which only masks overflow may be stored with these as numbers that the format has."""

    margin: float = 1.0
    """Factor by which errors on the samples must be below the targets, since those of other inputs may be larger."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "formats", tuple(dict.fromkeys(map(canonical, self.formats))))
        object.__setattr__(self, "pins", {pattern: canonical(form) for pattern, form in self.pins.items()})
        for option, value in (("memory_budget", self.memory), ("headroom", self.headroom), ("margin", self.margin)):
            if not isinstance(value, int | float):
                raise UsageError(f"`{option}` takes a number, but got {value!r}")
        if not isinstance(self.target, Mapping | int | float):
            raise UsageError(f"the target accuracy is a number, or numbers by output, but got {self.target!r}")
        if not isinstance(self.target, Mapping) and not self.target > 0:
            raise UsageError(f"the target accuracy is a number above 0, such as 1e-3, not {self.target:g}")
        if not self.formats:
            raise UsageError("there are no formats to choose from: name one at least, such as fp32")
        if not self.memory >= 0:
            raise UsageError(f"the memory budget is a number of bytes from 0, not {self.memory:g}; without one, leave it out")
        if not 1 <= self.headroom < math.inf:
            raise UsageError(f"the headroom is how many times as large values may become, a number from 1, not {self.headroom:g}")
        if not 1 <= self.margin < math.inf:
            raise UsageError(f"the margin is how many times as large errors on other inputs may be, a number from 1, not {self.margin:g}")
        if not all(first and second for first, second in self.uncast):
            raise UsageError("an empty pattern names no sites between which no cast is allowed; * names all")

    def allowances(self, sites: PrecisionSites) -> tuple[Allowance, ...]:
        """The largest absolute errors that are allowed: of all outputs together, or of single ones. Raises UsageError."""
        found = allowances(self.target, self.relative, sites.rms, sites.outputs, sites.names)
        return tuple(replace(a, limit=a.limit / self.margin, scale=a.scale / self.margin) for a in found)

    def raised(self, targets: Mapping[Allowance, float]) -> Target:
        """The target with other numbers for some of its allowances, in its own terms."""
        if not isinstance(self.target, Mapping):
            return next(iter(targets.values()))
        named: dict[int | str, float] = {a.output: error for a, error in targets.items() if a.output is not None}
        # the first key that names an output counts
        return named | {key: error for key, error in self.target.items() if key not in named}

    def limit(self, sites: PrecisionSites) -> float:
        """The largest absolute error of all outputs together that is allowed; infinite where targets are for single ones."""
        return next((a.limit for a in self.allowances(sites) if a.output is None), math.inf)


@dataclass(frozen=True)
class Assignment:
    """A format for every site by its name. error: the estimated root mean square error of the outputs."""

    formats: Mapping[str, str]
    error: float
    limit: float
    size: float
    """Bytes of all sites."""
    bound: float
    """No assignment takes fewer bytes (fewer at the peak, or seconds, where these are minimized); what this one takes for models of up to
    2,000 sites, and a little less for larger ones, for the peak, and where the least was not proved in time. Beyond 5,000 sites casts are
    no part of the bound on time. It is of the target as it was given: where a run had it made stricter, it is further below."""
    seconds: float | None = None
    """The modelled time on the machine, casts included, where one is named."""
    measured: float | None = None
    """Measured error on the samples when the model runs in these formats."""
    certified: float | None = None
    """Error bound, where one was requested: proved, or with a probability."""
    probability: float | None = None
    """Probability that the errors are within their bounds, if roundings are independent and unbiased; None where the bounds are proved."""
    errors: Errors = field(default_factory=dict)
    """The estimated error of each output, and with the key None of all; single ones where targets are for them."""
    measured_errors: Errors = field(default_factory=dict)
    """The same, measured on the samples."""
    certified_errors: Errors = field(default_factory=dict)
    """The same, bounded."""
    infinite: int = 0
    """Elements of the outputs that are infinite on the samples before anything is in another format: no error counts them."""
    peak: float = math.nan
    """Peak live bytes: what the model is given, and values from what computes them to what reads them last."""
    moved: float = math.nan
    """Bytes that operations and casts read and write, counted."""
    parameters: float = math.nan
    """Bytes of parameters and constants."""

    @property
    def not_counted(self) -> str:
        """A sentence on the infinite elements; empty where there are none."""
        if not self.infinite:
            return ""
        are = "element that is" if self.infinite == 1 else "elements that are"
        return f"not counted: {self.infinite} {are} infinite in the model as it is; rules may mend that (stability)"

    def cost(self, least: str) -> float:
        """Cost by an objective."""
        found = {"moved": self.moved, "bytes": self.size, "parameters": self.parameters, "peak": self.peak, "time": self.seconds}[least]
        assert found is not None
        return found


@dataclass(frozen=True)
class Solution:
    """Formats, the bytes of all sites, and a number of bytes or seconds that no other assignment is below."""

    formats: Mapping[str, str]
    size: float
    bound: float
    seconds: float | None = None


@dataclass(frozen=True)
class Relaxation:
    """One change that makes the requirements possible, and what it costs. then: the requirements with it, where they can say it."""

    change: str
    cost: str
    then: Requirements | None = None


@dataclass(frozen=True)
class Infeasible:
    """Explanation of an infeasible assignment in the reader's words: the constraints of a cycle, if one is the cause, then the worst
    sites, at most five, and the requirements that they run into.

    Of pins only those are named without which there would be an assignment. nodes: the sites that the reasons speak of.
    needed: for a site the bits of significand that it needs, and what its format has. relaxations: each resolves it alone.
    """

    reasons: tuple[str, ...]
    nodes: tuple[str, ...]
    needed: Mapping[str, tuple[int, int]]
    relaxations: tuple[Relaxation, ...]
    obstruction: Cycle | None = None
    certificate: str = RUN
    """Proof of it, and its cohomology."""

    @property
    def cycle(self) -> tuple[Edge, ...]:
        """(u, v, bits): v must have so many bits more than u, the ground having 0; all add up to more than 0. Empty without a cycle."""
        return self.obstruction.edges if self.obstruction is not None else ()


def _meant(name: str, machines: list[str]) -> str:
    """A way out for a name that no machine has: a number is an error."""
    try:
        float(name)
    except ValueError:
        return alternatives(name, machines)
    return f": targets are machines ({', '.join(machines)}); the error of the outputs is the target accuracy (--target-accuracy {name})"


def machine_of(name: str | None, least: str | None, formats: Sequence[str]) -> tuple[Machine | None, str]:
    """The shipped machine of that name, and what is minimized: by default bytes of parameters where a format is for these alone, and
    otherwise bytes that are moved. Raises UsageError where there is no such machine, or time has nothing to run on."""
    if least is None:
        least = "parameters" if any(is_for_weights(format_named(form)) for form in formats) else "moved"
    machine = shipped_targets().target(name) if name is not None else None
    if name is not None and machine is None:
        raise UsageError(f"there is no target `{name}`{_meant(name, shipped_targets().names())}")
    if least not in LEAST:
        raise UsageError(f"what is minimized is {', '.join(LEAST[:-1])} or {LEAST[-1]}, not `{least}`")
    if least == "time" and machine is None:
        raise UsageError("time is modelled on a target, such as h100: name one")
    return machine, least


def checked_width(width: float, certified: bool) -> float | None:
    """The distance from the samples within which the error is proved; None without a proof. Raises UsageError."""
    if not 0 <= width < math.inf:
        raise UsageError(f"the width is a number from 0, how far inputs may be from the samples, not {width:g}")
    if width and not certified:
        raise UsageError("the width is that of inputs for which the error is proved: ask for a proof too (certified), or leave it out")
    return width if certified else None


def runs_on(machine: Machine, form: str) -> bool:
    """Return whether a machine has the format; scales that are found are undone before anything is computed."""
    return isinstance(stored_format(form), Granular) or machine.runs(element_of(form))


def element_of(form: str) -> str:
    """Element type of a format on machines; "" where they have no such type. That what is beyond is NaN, or is the largest
    number, is the same to them."""
    return "f8E4M3FN" if split(form)[0] == "fp8_e4m3fn" else stored_format(form).dtype


def bytes_of(site: PrecisionSite, form: str) -> float:
    return stored_bytes(site.shape or (site.elements,), form)


def parameter_bytes(site: PrecisionSite, form: str) -> float:
    """Size of a parameter or a constant; 0 for computed values."""
    return bytes_of(site, form) if site.role is SemanticDType.PARAM else 0.0


def suits(site: PrecisionSite, form: str) -> bool:
    """Return whether a format is one for such values: scales that are found once are for parameters with two axes or more, those of tokens
    for what is computed."""
    stored, is_parameter = stored_format(form), site.role is SemanticDType.PARAM
    if is_for_weights(stored):
        return is_parameter and len(site.shape) > 1
    return not (is_parameter and is_for_activations(stored))


def matches(site: PrecisionSite, pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in (site.name, site.module, site.operation))


def pinned(site: PrecisionSite, requirements: Requirements) -> tuple[str, str] | None:
    """The format that a pin or the policy requires, and which of them: the first pin that matches, before the policy."""
    for pattern, form in requirements.pins.items():
        if matches(site, pattern):
            return form, f"the pin `{pattern}`"
    if requirements.policy is not None:
        wanted = site.role.to_dtype(requirements.policy)
        name = next((known for known in site.moved if is_plain(known) and format_named(known) == wanted), str(wanted))
        return name, f"the policy `{requirements.policy.part(site.role)}`"
    return None


def uncast(first: PrecisionSite, second: PrecisionSite, pairs: Sequence[tuple[str, str]]) -> bool:
    return any((matches(first, a) and matches(second, b)) or (matches(first, b) and matches(second, a)) for a, b in pairs)
