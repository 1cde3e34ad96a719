"""Rules phase by phase with their verdicts: `load_rules` finds and proves them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hnfc.core.arguments import names_of
from hnfc.core.errors import UsageError, suggestion
from hnfc.core.judged_rule import JudgedRule
from hnfc.core.notebook import NotebookTable, notebook_html
from hnfc.core.progress import Progress, reporting
from hnfc.core.verdicts import verdicts
from hnfc.dsl import core
from hnfc.dsl.rulebook import load_files, shipped, shipped_targets
from hnfc.dsl.soundness import Status, Verdict
from hnfc.dsl.targets import TargetBook
from hnfc.egraph.search import Search
from hnfc.pipeline.levels import FORMS, SEARCHES, Searches, UnknownLevel, phases


@dataclass(frozen=True, repr=False)
class RuleSet:
    """Rules phase by phase, with the verdict on each; `allowed` gives those that may run. Notebooks show them as HTML.

    `rules["name"]` is a rule with its verdict.
    """

    phases: tuple[tuple[core.Rule, ...], ...]
    verdicts: Mapping[str, Verdict]
    unproved: frozenset[str] = frozenset()
    own: tuple[str, ...] = ()
    """The names of the rules that came from files."""
    targets: TargetBook = field(default_factory=lambda: TargetBook(shipped_targets))
    searches: Searches = Searches.NOTHING
    off: Mapping[str, str] = field(default_factory=dict)
    """Rules that the target cannot run, and the format that it lacks for them."""

    def allowed(self) -> list[list[core.Rule]]:
        """Proved rules, and those that the user lets run unproved."""
        return [[rule for rule in phase if self._may_run(rule.name) and rule.name not in self.off] for phase in self.phases]

    def for_search(self, search: Search, progress: Progress | None = None) -> tuple[RuleSet, Search]:
        """Without the rules that the search's target cannot run, and the search with the equal forms that it may go through."""
        target = search.target
        rules = {rule.name: rule for phase in self.phases for rule in phase}
        off = {name: lacking for name, rule in rules.items() if target is not None and (lacking := target.lacks(rule)) is not None}
        if search.kind == "greedy":
            return replace(self, off=off), search
        forms = [rule for rule in shipped().only(FORMS).rules if target is None or target.lacks(rule) is None]
        found = verdicts(forms, progress=progress)
        proved = tuple(rule for rule in forms if found[rule.name].proved)
        return replace(self, off=off, verdicts={**found, **self.verdicts}), replace(search, forms=proved)

    def _may_run(self, name: str) -> bool:
        """A vacuous rule never may: where its left side is met, what it says of it is about no real number. Nor may one with parameters,
        for which nothing here chooses values."""
        verdict = self.verdicts[name]
        if any(rule.name == name and rule.parameters for phase in self.phases for rule in phase):
            return False
        return verdict.proved or (name in self.unproved and verdict.status is not Status.VACUOUS)

    @property
    def withheld(self) -> list[str]:
        """Rules from files that may not run."""
        return sorted(name for name in self.own if not self._may_run(name))

    def check(self, names: Sequence[str]) -> None:
        """Raises UsageError for a name that is none of these rules'."""
        _known(names, self.verdicts)

    def __getitem__(self, name: str) -> JudgedRule:
        """A rule with its verdict. Raises KeyError with what was probably meant."""
        found = next((judged for judged in self if judged.rule.name == name), None)
        if found is None:
            raise KeyError(f"there is no rule `{name}` among these{suggestion(name, self.verdicts)}")
        return found

    def __iter__(self) -> Iterator[JudgedRule]:
        """The rules with their verdicts, each once."""
        rules = {rule.name: rule for phase in self.phases for rule in phase}
        return (JudgedRule(rule, self.verdicts[name]) for name, rule in rules.items())

    def _rows(self) -> list[list[str]]:
        return [[each.rule.name, each.rule.group, each.verdict.status.value, each.rule.reason] for each in self]

    def __repr__(self) -> str:
        rows = self._rows()
        proved = sum(status == Status.PROVED.value for _, _, status, _ in rows)
        return f"RuleSet({len(rows)} rules in {len(self.phases)} phases, {proved} proved)"

    def __str__(self) -> str:
        """A line for each rule, below the counts."""
        return "\n".join([repr(self), *(f"  {status.lower():8} {name:32} {reason}".rstrip() for name, _, status, reason in self._rows())])

    def _repr_html_(self) -> str:
        headings = ("rule", "group", "over the reals", "reason")
        return notebook_html(repr(self), "warn" if self.withheld else "plain", NotebookTable(headings, self._rows()))

    def __len__(self) -> int:
        return len(self.verdicts)


@reporting("reading rules …")
def load_rules(*groups: str | Path, allow_unproved: Sequence[str] = (), progress: Progress | None = None) -> RuleSet:
    """The rules of a level or group (`stability`, `fusion`, `all` …), of `.hnf` files (`-` is stdin), or of both, with their verdicts.

    Rules of files run in every phase of the levels beside them. allow_unproved: rules that may run without a proof, if they are not
    vacuous. Raises UsageError for a level or rule that there is not, HnfError for a faulty file, OSError for one that cannot be
    read. progress: takes the stage at hand in words; without it notebooks show a bar.
    """
    book = shipped()
    paths = [str(group) for group in groups if _is_file(group)]
    levels = [str(group) for group in groups if not _is_file(group)]
    files = load_files(paths)
    own = tuple(files.rules)
    try:
        names = [phase for level in levels for phase in phases(level, set(book.groups()))]
    except UnknownLevel as error:
        text = str(error)
        raise UsageError(f"{text}{'' if text.endswith('?') else ';'} a file of rules ends in .hnf") from None
    plan = tuple(tuple(book.only(phase).rules) + own for phase in names) or ((own,) if own else ())
    known = {rule.name for phase in plan for rule in phase}
    allowed = names_of(allow_unproved, "allow_unproved")
    _known(allowed, known)
    found = verdicts({rule.name: rule for phase in plan for rule in phase}.values(), progress=progress)
    own_names = tuple(rule.name for rule in own)
    return RuleSet(plan, found, frozenset(allowed), own_names, files.targets, searches=_searches(levels))


def chosen_rules(
    group: str | Sequence[str], rules: RuleSet | None, allow_unproved: Sequence[str], assume: Sequence[str]
) -> tuple[RuleSet, frozenset[str]]:
    """The rules that a caller named, or those given instead, and the names whose conditions are vouched for. Raises UsageError."""
    if rules is not None and not isinstance(rules, RuleSet):
        raise UsageError(f"`rules` takes what hnfc.load_rules returns, but got {rules!r}; `group` takes names of levels and .hnf files")
    loaded = rules if rules is not None else load_rules(*names_of(group, "group"), allow_unproved=allow_unproved)
    vouched = names_of(assume, "assume")
    loaded.check(vouched)
    return loaded, frozenset(vouched)


def _is_file(group: str | Path) -> bool:
    return str(group).endswith(".hnf") or str(group) == "-"


def _searches(levels: Sequence[str]) -> Searches:
    return max((SEARCHES.get(level, Searches.NOTHING) for level in levels), key=lambda s: s.value, default=Searches.NOTHING)


def _known(names: Sequence[str], rules: Collection[str]) -> None:
    for name in names:
        if name not in rules:
            meant = suggestion(name, rules) or "; `hnfc rules` lists the shipped ones"
            raise UsageError(f"there is no rule `{name}` in this run{meant}")
