"""The greedy search: a worklist of operations, users before what they use, so that the largest pattern is seen first.

It ends on every rule set: a new operation is one generation older than the root that it replaces, rules do not run on
roots of the last generation, and the number of rewrites is bounded by the size of the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriterListener, RewritePattern
from xdsl.rewriter import InsertPoint

from hnfc.analysis.cost import flops
from hnfc.analysis.ranges import Ranges
from hnfc.core.dead_code import erase_dead
from hnfc.core.value_numbering import Numbering
from hnfc.dialects.num import COMPUTING
from hnfc.dsl import core
from hnfc.dsl.description import describe
from hnfc.rewrite.builder import DoesNotFit, ReplacementBuilder
from hnfc.rewrite.conditions import ConditionChecker, Observations
from hnfc.rewrite.matcher import CompiledRule, Match, Matcher, compile_rule
from hnfc.rewrite.nary_terms import Product, Root, Sum
from hnfc.rewrite.probing import Prober
from hnfc.rewrite.record import NearMiss, Rewrite, RewriteOutcome

GENERATIONS = 24
REWRITES_PER_OPERATION = 20
MIN_REWRITES = 200
_MAX_NEAR_MISSES = 200
_REACH = 5
"""Greatest height of a pattern's root above a new value that it sees."""
_MAX_USERS = 24
_GROUPS = (Product, Sum, Root)
NO_GAIN = "it would not lower the cost"


@dataclass
class RewriteStep:
    """A match that may run: the operations to insert before its root and the value that takes the root's place."""

    match: Match
    operations: list[Operation]
    value: SSAValue
    given: str

    def discard(self) -> None:
        """Takes back what was built: it must not count as a user of the program's values."""
        for operation in reversed(self.operations):
            operation.drop_all_references()

    def apply(self, rewriter: PatternRewriter) -> None:
        """Inserts the operations, replaces the root and erases what nothing uses any more."""
        root = self.match.root
        old = root.results[0]
        rewriter.insert(self.operations, InsertPoint.before(root))
        rewriter.handle_operation_replacement(root, [self.value, *root.results[1:]])
        if self.value.name_hint is None:
            self.value.name_hint = old.name_hint
        rewriter.replace_all_uses_with(old, self.value)
        erase_dead([root], rewriter)


@dataclass
class Greedy:
    """Applies rules until none fits, to blocks of one function.

    assume: names of rules whose `where` the user asserts. place: the text that says where an operation is in the
    user's source.
    """

    matcher: Matcher
    ranges: Ranges = field(default_factory=Ranges)
    observations: Observations = field(default_factory=Observations)
    assume: frozenset[str] = frozenset()
    place: Callable[[Operation], str] = lambda op: op.name
    numbering: Numbering = field(default_factory=Numbering)
    origins: dict[Operation, Operation] = field(default_factory=dict)
    """For an operation that was made here or before: the one in whose place it stands."""
    outcome: RewriteOutcome = field(default_factory=RewriteOutcome)
    prober: Prober | None = None
    """Tries each rewrite on inputs beyond the samples."""
    vouched: frozenset[str] = frozenset()
    """Rules that the user lets run whatever the prober says."""
    listener: PatternRewriterListener = field(default_factory=PatternRewriterListener)
    """Sees every insertion, replacement, modification and removal of an operation."""
    _made_by: dict[Operation, str] = field(default_factory=dict)
    _no_gain: dict[tuple[Any, ...], list[Attribute]] = field(default_factory=dict)
    """Keys of `_shapes` that did not pay, and the types in them, which must live as long as their identity counts."""

    def run(self, block: Block) -> RewriteOutcome:
        """Rewrites the block until no rule fits, and returns what was done in all runs so far."""
        worklist = [op for op in block.ops if type(op) in COMPUTING]
        waiting = set(worklist)
        generation: dict[Operation, int] = {}
        budget = len(self.outcome.rewrites) + MIN_REWRITES + REWRITES_PER_OPERATION * len(worklist)
        rewriter = PatternRewriter(InsertPoint.at_end(block))
        rewriter.extend_from_listener(self.listener)
        while worklist:
            op = worklist.pop()
            if op not in waiting:
                continue
            waiting.discard(op)
            if op.parent is None:
                continue
            age = generation.get(op, 0)
            step = self.step(op)
            if step is None:
                continue
            if age >= GENERATIONS:
                step.discard()
                self._note(f"rule `{step.match.compiled.rule.name}` would go on for ever here; it was stopped after {GENERATIONS} rounds")
                continue
            if len(self.outcome.rewrites) >= budget:
                step.discard()
                self._note(
                    f"rule `{step.match.compiled.rule.name}` makes the program grow for ever; it was stopped after {budget} rewrites"
                )
                break
            self._record(op, step)
            step.apply(rewriter)
            for new in step.operations:
                generation[new] = age + 1
                self.origins[new] = op
                self._made_by[new] = step.match.compiled.rule.name
            for candidate in [*users_within(step.value, _REACH), *step.operations]:
                if candidate not in waiting and type(candidate) in COMPUTING:
                    waiting.add(candidate)
                    worklist.append(candidate)
        return self.outcome

    def step(self, op: Operation) -> RewriteStep | None:
        """The first rule that fits at this root, may run and can be built."""
        counted = self.outcome.statistics
        for match in self.matcher.match(op, self.numbering, counted):
            if match.compiled.contains_itself and match.compiled.rule.name in self._makers(op):
                continue
            statistics = counted[match.compiled.rule.name]
            statistics.matched += 1
            start = perf_counter()
            found = self._built(match, op)
            statistics.seconds += perf_counter() - start
            if found is not None:
                return found
        return None

    def _makers(self, op: Operation) -> Iterator[str]:
        """Rules that the operation and those in whose place it stands were made by."""
        while op in self.origins:
            if op in self._made_by:
                yield self._made_by[op]
            op = self.origins[op]

    def _built(self, match: Match, op: Operation) -> RewriteStep | None:
        """The step of a match; None, and the reason noted, where it may not run or cannot be built."""
        rule = match.compiled.rule
        if match.compiled.needs_gain and self._surely_no_gain(match):
            self._miss(rule, op, "gain", NO_GAIN)
            return None
        if (rule.where is not core.TRUE or rule.when is not core.TRUE) and not self._permitted(match, op):
            return None
        builder = ReplacementBuilder(match.bindings, _element(op))
        reason, cause = "", "types"
        try:
            value = builder.finish(match)
            if match.compiled.needs_gain and not self._gains(match, builder):
                reason, cause = NO_GAIN, "gain"
                key = _shapes(match)
                if key is not None:
                    self._no_gain[key] = [b.type for b in match.bindings.values() if isinstance(b, SSAValue)]
            elif self.prober is not None and rule.within is None and rule.name not in self.vouched and value is not op.results[0]:
                reason, cause = self.prober.objection(match, builder.operations, value, self.numbering), "probe"
        except DoesNotFit as error:
            reason = str(error)
        if reason or value is op.results[0]:
            builder.discard()
            if reason:
                self._miss(rule, op, cause, reason)
            return None
        given = "" if rule.where == core.TRUE else describe(rule.where)
        vouched = " (on your word)" if given and rule.name in self.assume else ""
        return RewriteStep(match, builder.operations, value, given + vouched)

    def _permitted(self, match: Match, op: Operation) -> bool:
        """Return whether `where` is known to hold, or vouched for, and `when` holds too."""
        rule = match.compiled.rule
        judge = ConditionChecker(match, self.ranges, self.observations)
        where, when = judge.judge(rule.where), judge.judge(rule.when)
        judge.close()
        if not where.holds and rule.name not in self.assume:
            self._miss(rule, op, "where", where.why_not)
            return False
        if not when.holds:
            self._miss(rule, op, "when", lambda: f"not needed: {when.reason()}")
            return False
        return True

    def _gains(self, match: Match, after: ReplacementBuilder) -> bool:
        """Return whether the replacement takes fewer arithmetic operations than the pattern as it stands."""
        compiled = match.compiled
        before = ReplacementBuilder(match.bindings, _element(match.root))
        before.value(compiled.rule.pattern if compiled.replacement is compiled.rule.replacement else compiled.rule.replacement)
        gains = sum(map(flops, after.operations)) < sum(map(flops, before.operations))
        before.discard()
        return gains

    def _surely_no_gain(self, match: Match) -> bool:
        """Return whether the same rule was seen not to pay for operands of the same shapes."""
        key = _shapes(match)
        return key is not None and key in self._no_gain

    def _record(self, op: Operation, step: RewriteStep) -> None:
        rule = step.match.compiled.rule
        old = op.results[0]
        self.outcome.rewrites.append(
            Rewrite(rule, self._place(op), old, step.value, step.given, tuple(step.operations), step.match.compiled.backwards)
        )
        self.outcome.replaced[old] = step.value
        self.outcome.statistics[rule.name].applied += 1

    def _miss(self, rule: core.Rule, op: Operation, cause: str, reason: str | Callable[[], str]) -> None:
        """Counts a near miss by its cause; the reason is put into words only while there is room to report it."""
        self.outcome.statistics[rule.name].blocked[cause] += 1
        if len(self.outcome.near_misses) < _MAX_NEAR_MISSES:
            self.outcome.near_misses.append(NearMiss(rule, self._place(op), reason if isinstance(reason, str) else reason()))

    def _place(self, op: Operation) -> str:
        return origin_of(self.origins, self.place)(op)

    def _note(self, text: str) -> None:
        if text not in self.outcome.notes:
            self.outcome.notes.append(text)


def origin_of(origins: Mapping[Operation, Operation], place: Callable[[Operation], str]) -> Callable[[Operation], str]:
    """The place of an operation, which is that of the one in whose place it stands."""

    def found(op: Operation) -> str:
        while op in origins:
            op = origins[op]
        return place(op)

    return found


def users_within(value: SSAValue, distance: int) -> list[Operation]:
    """The operations that use the value, directly or through at most `distance` others; the farthest first."""
    found: dict[Operation, None] = {}
    layer = [value]
    for _ in range(distance):
        layer = [r for v in layer for use in v.uses if use.operation not in found for r in _mark(use.operation, found)]
        if len(found) > _MAX_USERS:
            break
    return list(found)[::-1]


def _mark(operation: Operation, found: dict[Operation, None]) -> list[SSAValue]:
    found[operation] = None
    return list(operation.results)


class RulePattern(RewritePattern):
    """One rule as a pattern of xDSL, for any pass: `PatternRewriteWalker(RulePattern(rule)).rewrite_module(module)`.

    It rewrites where the rule's `where` is known from the operations alone; `Greedy` runs all rules at once, and faster. Any rule is taken,
    proved or not: `hnfc.load_rules` gives verdicts. No error is raised for an operation that the rule does not fit; it stays.
    """

    def __init__(self, rule: core.Rule) -> None:
        self.rule = rule
        self._search = Greedy(Matcher(compile_rule(rule)))

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Rewrites the operation where the rule fits it."""
        if type(op) not in COMPUTING:
            return
        # other patterns may have changed operations in place since
        self._search.numbering, self._search.ranges = Numbering(), Ranges()
        step = self._search.step(op)
        if step is not None:
            step.apply(rewriter)


def _shapes(match: Match) -> tuple[Any, ...] | None:
    """The direction of the rule and the types and numbers that it is applied to: what its gain depends on.

    Types stand for themselves by identity: `tensor` makes one object of each.
    """
    key: list[Any] = [id(match.compiled), match.scale, match.rest is None]
    for binding in match.bindings.values():
        if isinstance(binding, _GROUPS):
            return None
        key.append(id(binding.type) if isinstance(binding, SSAValue) else binding)
    return tuple(key)


def _element(op: Operation) -> Attribute:
    type_ = op.results[0].type
    assert isinstance(type_, TensorType)
    element: Attribute = type_.element_type
    return element


def compile_rules(rules: Iterable[core.Rule]) -> list[CompiledRule]:
    return [compiled for rule in rules for compiled in compile_rule(rule)]
