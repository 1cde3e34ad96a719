"""Words of a rule file and the declarations that they stand in: also of a file that does not follow the grammar, as while it is typed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.constant import ConstantOp, WeightOp
from hnfc.dialects.num.opaque import OpaqueOp
from hnfc.dsl.expressions import CONSTANTS, PROPERTIES

DECLARATIONS = ("library", "import", "def", "rule", "test", "format", "target")
CLAUSES = ("where", "when", "for", "orthogonal", "let", "within", "source", "structural", "gives", "unchanged", "const", "and", "or", "not")
CONDITIONS = (*sorted(PROPERTIES), "free", "size", "rank", "dtype", "shape")
SPELLINGS = {"squeeze": "squeeze[-1](x)", "unsqueeze": "unsqueeze[-1](x)", "permute": "permute(x, const p)",
             "einsum": 'einsum("ij,jk->ik", a, b)'}  # fmt: skip
"""Functions that stand for an operation of another name, and their forms."""
_UNSAYABLE = (OpaqueOp, ConstantOp, WeightOp)
FUNCTIONS = tuple(sorted({*(name for name, operation in OPERATIONS.items() if operation not in _UNSAYABLE), *SPELLINGS}))
"""Functions that a rule may call."""
_TOKEN = re.compile(
    r'(?P<comment>#[^\n]*)|(?P<string>"[^"\n]*"?)|(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)'
    r"|(?P<operator><=>|=>|~>|==|!=|<=|>=|\*\*|[-+*/@<>=:,()\[\]{}|])"
)


@dataclass(frozen=True)
class RuleWord:
    """kind: comment, string, number, name, operator. Lines and columns count from 0; columns are in UTF-16 units, as editors count."""

    kind: str
    text: str
    line: int
    column: int
    start: int

    @property
    def end_column(self) -> int:
        return self.column + utf16(self.text)


@dataclass(frozen=True)
class DeclaredPart:
    """A declaration: its keyword, its name ("" where it has none), and its words."""

    keyword: str
    name: str
    words: tuple[RuleWord, ...]

    @property
    def name_word(self) -> RuleWord | None:
        """The word that names it."""
        return self.words[1] if len(self.words) > 1 and self.words[1].kind == "name" else None

    @property
    def last_line(self) -> int:
        return self.words[-1].line


def utf16(text: str) -> int:
    """Length in UTF-16 units."""
    return len(text) + sum(ord(c) > 0xFFFF for c in text)


def words_of(text: str) -> list[RuleWord]:
    """All words, in order."""
    found = []
    for number, line in enumerate(text.split("\n")):
        for match in _TOKEN.finditer(line):
            found.append(RuleWord(match.lastgroup or "", match[0], number, utf16(line[: match.start()]), match.start()))
    return found


def declarations_of(words: Sequence[RuleWord]) -> list[DeclaredPart]:
    """The declarations: each begins at a keyword that begins its line."""
    starts = [
        i for i, w in enumerate(words)
        if w.kind == "name" and w.text in DECLARATIONS and w.column == 0 and (i == 0 or words[i - 1].line < w.line)
    ]  # fmt: skip
    found = []
    for start, end in pairwise([*starts, len(words)]):
        inside = tuple(w for w in words[start:end] if w.kind != "comment")
        name = inside[1].text if len(inside) > 1 and inside[1].kind == "name" else ""
        found.append(DeclaredPart(inside[0].text, name, inside))
    return found


def word_at(words: Sequence[RuleWord], line: int, column: int) -> RuleWord | None:
    """The name at a position, or ending there."""
    return next((w for w in words if w.kind == "name" and w.line == line and w.column <= column <= w.end_column), None)


def kind_of(word: RuleWord, after: RuleWord | None, declared: DeclaredPart | None, definitions: frozenset[str]) -> str:
    """Kind of a name for colours: keyword, function, property, number, or variable."""
    called = after is not None and after.text in ("(", "[")
    at_start = declared is not None and declared.words and declared.words[0] == word
    if at_start or (word.text in CLAUSES and not called):
        return "keyword"
    if declared is not None and declared.name_word == word:
        return "function" if declared.keyword == "def" else "class"
    if word.text in CONSTANTS:
        return "number"
    if called and word.text in CONDITIONS:
        return "property"
    if called and (word.text in FUNCTIONS or word.text in definitions):
        return "function"
    return "variable"
