"""Fingerprints: what makes a verdict stale, and what does not. Edits are made in a copy of the sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path

import pytest

from hnfc.dialects.num import OPERATIONS
from hnfc.dsl import fingerprint as module
from hnfc.dsl.core import Apply, Capture, Rule, condition_expressions, walk
from hnfc.dsl.fingerprint import ERROR, IEEE, REALS, Basis, Finder, basis_in, fingerprint
from hnfc.dsl.rulebook import shipped
from hnfc.dsl.source_modules import WHOLE
from hnfc.dsl.sources import Place, Sources
from tests.soundness.reading import rules_of

RULES = {rule.name: rule for rule in shipped().rules}


class Edited:
    """The sources with other texts for some files."""

    def __init__(self, path: Path, texts: dict[str, str], below: str = "") -> None:
        self.path, self.texts, self.below = path, texts, below

    @property
    def name(self) -> str:
        return self.path.name

    def joinpath(self, *parts: str) -> Edited:
        return Edited(self.path.joinpath(*parts), self.texts, "/".join((self.below, *parts)).strip("/"))

    def iterdir(self) -> list[Edited]:
        return [self.joinpath(entry.name) for entry in self.path.iterdir()]

    def is_file(self) -> bool:
        return self.path.is_file()

    def read_text(self, encoding: str) -> str:
        return self.texts[self.below] if self.below in self.texts else self.path.read_text(encoding)


def basis(finder: Finder, path: str = "", edit: Callable[[str], str] = str) -> Basis:
    root = Path(str(files("hnfc")))
    if not path:
        return _unchanged(finder)
    text = (root / path).read_text(encoding="utf-8")
    assert edit(text) != text
    return basis_in(Sources(Edited(root, {path: edit(text)})), finder)  # type: ignore[arg-type]


@cache
def _unchanged(finder: Finder) -> Basis:
    return basis_in(Sources(Path(str(files("hnfc")))), finder)


def stale(finder: Finder, path: str, edit: Callable[[str], str]) -> set[str]:
    """The shipped rules whose fingerprints an edit changes."""
    before, after = basis(finder), basis(finder, path, edit)
    return {name for name, rule in RULES.items() if fingerprint(rule, finder, basis=before) != fingerprint(rule, finder, basis=after)}


def using(*operations: str) -> set[str]:
    return {name for name, rule in RULES.items() if operations_of(rule) & set(operations)}


def operations_of(rule: Rule) -> set[str]:
    roots = (rule.pattern, rule.replacement, *condition_expressions(rule.where))
    return {node.name for root in roots for node in walk(root) if hasattr(node, "operation")}


def replaced(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new, 1)


def commented(text: str) -> str:
    """The text with a comment, a docstring and blank lines more wherever they may stand."""
    lines = text.replace('"""\n\nfrom __future__', '"""  # said\n\n\nfrom __future__', 1).split("\n")
    return "\n".join(f"{line}  # why not" if line.endswith(":") and line.startswith("def ") else line for line in lines) + "\n# the end\n"


@pytest.mark.parametrize("finder", [REALS, IEEE, ERROR], ids=["reals", "ieee", "error"])
def test_the_basis_is_that_of_the_sources(finder: Finder) -> None:
    assert module.current_basis(finder) == basis(finder)


def test_sources_that_changed_since_they_were_imported_have_a_basis_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_IMPORTED", "another")
    found = [module.current_basis.__wrapped__(REALS) for _ in range(2)]
    assert len({each.code for each in (*found, basis(REALS))}) == 3


ELEMENTARY, PROOF = "dialects/num/elementary.py", "dsl/soundness/proof.py"

NEW = '''

@irdl_op_definition
class HalfOp(UnaryOp):
    """x/2."""

    name = "num.half"
    FACTS: ClassVar = Facts(real=lambda m, x: x / 2, evaluate=lambda x: x / 2, range=magnitude, torch=())
'''


@pytest.mark.parametrize(
    ("path", "edit"),
    [
        (ELEMENTARY, commented),
        (ELEMENTARY, replaced('"""-x."""', '"""The negation."""')),
        (ELEMENTARY, lambda text: text + NEW),
        (PROOF, commented),
        (PROOF, replaced('"""One attempt to prove', '"""An attempt to prove')),
        ("dsl/parser.py", lambda text: text + "\nUNUSED = 1\n"),
        ("dialects/num/elementary.py", replaced("range=magnitude", "range=lambda x: magnitude(x)")),
    ],
    ids=["comments", "docstring", "operation", "comments in the prover", "docstring in the prover", "parser", "a fact that is not read"],
)
def test_what_makes_nothing_stale(path: str, edit: Callable[[str], str]) -> None:
    assert stale(REALS, path, edit) == set()


@pytest.mark.parametrize("finder", [REALS, IEEE], ids=["reals", "ieee"])
def test_a_changed_formula_makes_stale_what_uses_it(finder: Finder) -> None:
    changed = replaced("real=lambda m, x: m.exp(x),", "real=lambda m, x: m.exp(x) + 0,")
    assert stale(finder, ELEMENTARY, changed) == using("exp") != set()


def test_a_changed_function_makes_stale_the_operations_that_call_it() -> None:
    found = stale(IEEE, "dialects/num/softmax.py", replaced("np.exp(x - np.max(", "np.exp(x * 1 - np.max("))
    assert found == using("softmax") != set()


def test_a_changed_evaluation_says_nothing_of_the_reals() -> None:
    edit = replaced("np.exp(x - np.max(", "np.exp(x * 1 - np.max(")
    assert stale(REALS, "dialects/num/softmax.py", edit) == set()


@pytest.mark.parametrize(
    ("path", "edit"),
    [
        (PROOF, replaced("MAX_CASES = 200", "MAX_CASES = 201")),
        ("dsl/soundness/term.py", lambda text: text + "\nfor name in ():\n    pass\n"),
        ("dsl/core.py", replaced("const: bool = False", "const: bool = True")),
        ("dialects/formats/kinds.py", lambda text: text.replace("2", "3")),
        # the prover writes additions itself
        ("dialects/num/arithmetic.py", replaced("real=lambda m, x, y: x + y", "real=lambda m, x, y: y + x")),
    ],
    ids=["constant", "statement", "rules", "formats", "addition"],
)
def test_a_changed_prover_makes_everything_stale(path: str, edit: Callable[[str], str]) -> None:
    assert stale(REALS, path, edit) == RULES.keys()


def test_error_reports_rest_on_the_operations_that_formulas_are_written_in() -> None:
    """So that a change of one makes all of them stale."""
    assert stale(ERROR, ELEMENTARY, replaced("real=lambda m, x: m.exp(x),", "real=lambda m, x: m.exp(x) + 0,")) == RULES.keys()


def test_a_change_of_a_definition_is_a_change_of_the_rules_that_use_it() -> None:
    """Definitions are inlined, so that each rule holds all that it says."""
    text = "def f(x) = {}\nrule used log(f(x)) => log(f(x)) + 0\nrule unused log(1 + x) => log1p(x)"
    before, same, after = (rules_of(text.format(body)) for body in ("x + 1", "x + 1", "x + 2"))
    assert [fingerprint(rule) for rule in before] == [fingerprint(rule) for rule in same]
    assert fingerprint(before[0]) != fingerprint(after[0])
    assert fingerprint(before[1]) == fingerprint(after[1])


def test_an_operation_in_an_attribute_counts() -> None:
    """An order of axes may be a product of orders."""
    x, p, q = map(Capture, "xpq")
    moved = Apply(OPERATIONS["transpose"], (x,), (("perm", Apply(OPERATIONS["matmul"], (p, q))),))
    before = basis(REALS)
    after = replace(before, operations={**before.operations, "matmul": "changed"})
    rule = Rule("r", "t", "", "", moved, x)
    assert fingerprint(rule, basis=before) != fingerprint(rule, basis=after)


@pytest.fixture
def other_versions(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[str], str]], None]]:
    """Packages get the versions that a function says, until the end of the test."""

    def install(version: Callable[[str], str]) -> None:
        monkeypatch.setattr(module.metadata, "version", version)
        module._installed.cache_clear()

    yield install
    module._installed.cache_clear()


@pytest.mark.parametrize("package", ["z3-solver", "python-flint"])
def test_the_programs_that_the_prover_calls_count(package: str, other_versions: Callable[[Callable[[str], str]], None]) -> None:
    before = fingerprint(RULES["exp_product"])
    right = module.metadata.version
    other_versions(lambda name: "0.0" if name == package else right(name))
    assert fingerprint(RULES["exp_product"]) != before


def test_a_program_that_no_package_manager_knows_has_a_version_too(other_versions: Callable[[Callable[[str], str]], None]) -> None:
    before = fingerprint(RULES["exp_product"])

    def unknown(name: str) -> str:
        raise module.metadata.PackageNotFoundError(name)

    other_versions(unknown)
    assert fingerprint(RULES["exp_product"]) != before


def test_the_metadata_of_a_package_is_read_once_for_all_rules(other_versions: Callable[[Callable[[str], str]], None]) -> None:
    read: list[str] = []
    other_versions(lambda name: read.append(name) or "1.0")
    for rule in list(RULES.values())[:5]:
        fingerprint(rule)
    assert sorted(read) == sorted(REALS.packages)


# Reading sources -----------------------------------------------------------------------------------------------------


def closure(tmp_path: Path, texts: dict[str, str], *roots: tuple[str, str]) -> str:
    for name in ("dsl", "dialects/num"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return Sources(tmp_path).closure([Place(*root) for root in roots]).digest


@pytest.mark.parametrize(
    ("used", "changed"),
    [
        ("def g(): return 1", "def g(): return 2"),
        ("def g(x: int = 1): return x", "def g(x: int = 2): return x"),
        ("g = 1", "g = 2"),
        ("class g:\n    def a(self): return 1", "class g:\n    def a(self): return 2"),
        ("def g(): return h()\ndef h(): return 1", "def g(): return h()\ndef h(): return 2"),
        ("g = {}\ng[1] = 2", "g = {}\ng[1] = 3"),
        ("from math import sin as g", "from math import cos as g"),
        ("def g():\n    from math import sin as s\n    return s", "def g():\n    from math import cos as s\n    return s"),
        ("def g(): return 1\nunused = 1", None),
        ("def g(): return 1", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("use", ["from hnfc.dsl.b import g\ndef f(): return g", "from hnfc.dsl import b\ndef f(): return b.g"])
def test_what_is_used_counts(tmp_path: Path, use: str, used: str, changed: str | None) -> None:
    """None: a comment and a definition that nothing uses are added."""
    texts = {"dsl/a.py": use, "dsl/b.py": used, "dsl/__init__.py": ""}
    before = closure(tmp_path, texts, ("hnfc.dsl.a", "f"))
    after = closure(tmp_path, {**texts, "dsl/b.py": changed or f"# said\n{used}\ndef another(): return 3\n"}, ("hnfc.dsl.a", "f"))
    assert (before == after) == (changed is None)


def test_where_a_name_leads_counts(tmp_path: Path) -> None:
    """Though the function itself reads the same, and both that it could mean are in use."""
    texts = {"dsl/a.py": "from hnfc.dsl.b import g\ndef f(): return g", "dsl/b.py": "def g(): return 1", "dsl/c.py": "def g(): return 2"}
    roots = (("hnfc.dsl.a", "f"), ("hnfc.dsl.b", "g"), ("hnfc.dsl.c", "g"))
    before = closure(tmp_path, texts, *roots)
    assert closure(tmp_path, {**texts, "dsl/a.py": "from hnfc.dsl.c import g\ndef f(): return g"}, *roots) != before


@pytest.mark.parametrize("text", ["from .b import g\ndef f(): return g", "import hnfc.dsl.b\ndef f(): return hnfc.dsl.b.g"])
def test_imports_that_cannot_be_followed_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        closure(tmp_path, {"dsl/a.py": text, "dsl/b.py": "g = 1"}, ("hnfc.dsl.a", "f"))


def test_every_module_can_be_read() -> None:
    sources = Sources(Path(str(files("hnfc"))))
    folders = [Path(str(files("hnfc"))) / name for name in ("dialects", "dsl")]
    modules = [path for folder in folders for path in folder.rglob("*.py")]
    assert len(modules) > 100
    for path in modules:
        name = ".".join(("hnfc", *path.relative_to(Path(str(files("hnfc")))).with_suffix("").parts)).removesuffix(".__init__")
        assert sources.parts(Place(name, WHOLE))
