"""Answers of the language server that need no editor: words, completions, names across files, edits."""

from __future__ import annotations

from pathlib import Path

import pytest

from hnfc.core.verdicts import verdicts
from hnfc.dsl.rulebook import load_text
from hnfc.language_server import symbols
from hnfc.language_server.actions import RuleEdit, proposed_condition, written_test
from hnfc.language_server.buffers import RuleBuffer, read_buffer
from hnfc.language_server.completing import active_signature, completions
from hnfc.language_server.describing import word_text
from hnfc.language_server.server import KINDS, colours
from hnfc.language_server.tokens import FUNCTIONS, word_at
from hnfc.rewrite.rule_tests import run_tests

SHIPPED = sorted((Path(__file__).parents[2] / "rules").glob("*.hnf"))


def buffer_of(text: str) -> RuleBuffer:
    return read_buffer(Path("/w/a.hnf"), text)


def applied(text: str, edit: RuleEdit) -> str:
    lines = text.split("\n")
    if edit.end is not None:
        line = lines[edit.line]
        lines[edit.line] = line[: edit.column] + edit.text + line[edit.end[1] :]
        return "\n".join(lines)
    return "\n".join([*lines[: edit.line], edit.text.rstrip("\n"), *lines[edit.line :]])


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_file_is_read_as_it_is_by_the_compiler(path: Path) -> None:
    buffer = read_buffer(path, path.read_text())
    assert [f for f in buffer.faults if f.severity == "error"] == []
    assert [d.name for d in buffer.declarations if d.keyword == "rule"] == [rule.name for rule in buffer.rules]
    data = colours(buffer)
    assert len(data) == 5 * len(buffer.words) and all(0 <= kind < len(KINDS) for kind in data[3::5]) and min(data) >= 0


def test_a_faulty_declaration_leaves_the_others() -> None:
    buffer = buffer_of("rule a\n    exp(x => x\n\nrule b\n    log(1 + x) => log1p(x)\n\nrule c\n    exq(x) => x\n")
    assert [rule.name for rule in buffer.rules] == ["b"]
    assert {fault.span.line for fault in buffer.faults if fault.span} == {2, 8}


CONDITIONS = {
    "none yet": "rule a\n    relu(s * x) => s * relu(x)\n",
    "with a reason, and a rule below": 'rule a "r"\n    sqrt(x * x) => x\n\nrule b\n    log(1 + x) => log1p(x)\n',
    "one that is too weak": "rule a\n    sqrt(x * x) * y => x * y\n    where y > 0\n",
    "over lines": "rule a\n    sqrt(x *\n        x)\n        => x\n",
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("text", CONDITIONS.values(), ids=CONDITIONS)
def test_the_proposed_condition_proves_the_rule(text: str) -> None:
    buffer = buffer_of(text)
    rule = buffer.rules[0]
    verdict = verdicts([rule], jobs=1, cached=False)["a"]
    assert not verdict.proved
    edit = proposed_condition(buffer, rule, verdict)
    assert edit is not None
    changed = load_text(applied(text, edit), "a.hnf").rules[0]
    assert verdicts([changed], jobs=1, cached=False)["a"].proved


TESTED = (
    "log(1 + x) => log1p(x)", "exp(x) / sum[k](exp(x)) => softmax[k](x)", "x * y + x * z => x * (y + z)",
    "sqrt(x) * sqrt(x) => x where x >= 0",
)  # fmt: skip


@pytest.mark.parametrize("text", TESTED)
def test_a_written_test_passes(text: str) -> None:
    source = f"rule a\n    {text}\n\nrule b\n    tanh(-x) => -tanh(x)\n"
    buffer = buffer_of(source)
    edit = written_test(buffer, buffer.rules[0])
    assert edit is not None
    book = load_text(applied(source, edit), "a.hnf")
    (result,) = run_tests(book)
    assert result.passed and result.rule == "a"
    again = buffer_of(applied(source, edit))
    assert written_test(again, again.rules[0]) is None


@pytest.mark.parametrize(
    ("line", "column", "words"),
    [(0, 5, "PROVED"), (1, 5, "log(1 + "), (3, 6, "def half(y)"), (1, 10, "any tensor"), (2, 5, "precondition"), (1, 2, None)],
)
def test_hover(line: int, column: int, words: str | None) -> None:
    buffer = buffer_of("rule a\n    log1p(x) => log1p(x + 0 * x)\n    where x > 0\ndef half(y) = y / 2\n")
    word = word_at(buffer.words, line, column)
    verdict = verdicts(buffer.rules, jobs=1, cached=False)["a"]
    text = word_text(buffer, word, buffer.declared_at(line), verdict, ()) if word is not None else None
    assert text is None if words is None else text is not None and words in text


def test_every_function_has_a_hover() -> None:
    for name in FUNCTIONS:
        buffer = buffer_of(f"rule a\n    {name}(x) => x\n")
        word = word_at(buffer.words, 1, 5)
        assert word is not None
        text = word_text(buffer, word, buffer.declared_at(1), None, ())
        assert text is not None and name in text and text.split("```")[2].strip(), name


def test_completions_fit_their_place() -> None:
    buffer = buffer_of("def half(y) = y / 2\n\nrule a\n    exp(first) => second + h\n\n\ntest a\n")
    labels = {c.label for c in completions(buffer, 3, 28)}
    assert {"half", "softmax", "first", "second", "where", "finite", "pi"} <= labels and "rule" not in labels
    assert {"rule", "test", "def"} <= {c.label for c in completions(buffer, 4, 0)}
    assert [c.label for c in completions(buffer_of("rule a\n    log(1 + x) => log1p(x)\n\ntest "), 3, 5)] == ["a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("where(x, ", ("where(", 1)),
        ("sum[k](", ("sum[axes](", 0)),
        ("exp(x) + maximum(f(a, b), ", ("maximum(", 1)),
        ("exp(x)", None),
        ("half(x, ", ("half(y)", 1)),
        ("slice[k](x, 1, ", ("slice[k](", 2)),
        ("f(exp(x), ", None),
    ],
)
def test_signatures(text: str, expected: tuple[str, int] | None) -> None:
    buffer = buffer_of(f"def half(y) = y / 2\nrule a\n    {text}")
    found = active_signature(buffer, 2, 4 + len(text))
    assert (found and (found[0].startswith(expected[0]), found[2])) == (expected and (True, expected[1])) if expected else found is None


def test_names_are_followed_across_files(tmp_path: Path) -> None:
    texts = {
        "lib.hnf": "def half(y) = y / 2\n",
        "a.hnf": 'import "lib.hnf"\nrule r\n    half(x) + half(x) => x\ntest r\n    x = [1] gives [1]\nrule other\n    half(x) * 2 => x\n',
        "b.hnf": "def half(z) = z / 2\nrule r\n    half(z) * 4 => 2 * z\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    buffers = {tmp_path / name: read_buffer(tmp_path / name, text) for name, text in texts.items()}
    a = buffers[tmp_path / "a.hnf"]

    def at(line: int, column: int) -> symbols.NamedThing:
        word = word_at(a.words, line, column)
        assert word is not None
        thing = symbols.named_at(a, word)
        assert thing is not None
        return thing

    half, rule, capture = at(2, 5), at(3, 5), at(2, 9)
    assert [(p.name, w.line) for p, w in symbols.uses(half, buffers)] == [("lib.hnf", 0), ("a.hnf", 2), ("a.hnf", 2), ("a.hnf", 6)]
    found = symbols.definition(half, buffers)
    assert found is not None and found[0].name == "lib.hnf"
    assert [(p.name, w.line) for p, w in symbols.uses(rule, buffers)] == [("a.hnf", 1), ("a.hnf", 3)]
    assert [w.line for _, w in symbols.uses(capture, buffers)] == [2, 2, 2, 4]


def test_renaming_changes_nothing_of_the_meaning(tmp_path: Path) -> None:
    text = 'def twice(x) = 2 * x\nrule r "x"\n    twice(x) + y => y + x + x  # x\n    where x > 0\ntest r\n    x = [1], y = [2] gives [4]\n'
    buffer = read_buffer(tmp_path / "a.hnf", text)
    word = word_at(buffer.words, 2, 10)
    thing = symbols.named_at(buffer, word) if word is not None else None
    assert thing is not None
    lines = text.split("\n")
    for _, each in sorted(symbols.uses(thing, {buffer.path: buffer}), key=lambda use: (use[1].line, -use[1].column)):
        lines[each.line] = lines[each.line][: each.column] + "renamed" + lines[each.line][each.end_column :]
    changed = load_text("\n".join(lines), "a.hnf")
    assert "def twice(x) = 2 * x" in lines[0] and '"x"' in lines[1] and "# x" in lines[2] and "renamed = [1]" in lines[5]
    assert all(result.passed for result in run_tests(changed)) and verdicts(changed.rules, jobs=1, cached=False)["r"].proved
