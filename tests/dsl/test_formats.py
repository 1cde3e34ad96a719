"""`format` declarations: what they give, and what the reader is told where one is wrong."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hnfc.dialects.formats import Float, Format, Overflow
from hnfc.dsl.diagnostics import Diagnostic, HnfError, render
from hnfc.dsl.formats import FormatBook
from hnfc.dsl.parser import parse
from hnfc.dsl.printer import print_file
from hnfc.dsl.rulebook import load_files, shipped, shipped_formats
from tests.dsl.test_printer import bare

OWN = """format my_e4m2 "mine" {
    exponent = 4
    fraction = 2
    overflow = saturate
}

format of_width(w, e = w / 2) : float {
    exponent = e
    fraction = w - 1 - e
}

format twelve = of_width(12)
"""


def book(text: str) -> FormatBook:
    found = FormatBook(shipped_formats)
    found.add(parse(text, "f.hnf"))
    return found


def faults(text: str) -> list[Diagnostic]:
    with pytest.raises(HnfError) as caught:
        book(text)
    return caught.value.diagnostics


def test_declarations_give_formats() -> None:
    found = book(OWN)
    mine, twelve = found.format("my_e4m2"), found.format("twelve")
    assert isinstance(mine, Float) and isinstance(twelve, Float)
    assert (mine.name, mine.exponent, mine.fraction, mine.bias, mine.overflow) == ("my_e4m2", 4, 2, 7, Overflow.SATURATE)
    assert (twelve.name, twelve.exponent, twelve.fraction) == ("twelve", 6, 5)
    assert dataclasses.replace(found.format("of_width(12)"), name="") == dataclasses.replace(found.format("of_width(w=12, e=6)"), name="")
    assert found.format("of_width( 8,e=3 )").name == "of_width(8, 3)"
    assert found.format("mx(my_e4m2)").stored_bits == 7.25


@pytest.mark.parametrize(
    ("text", "code", "place", "words"),
    [
        ("format a : flaot {}", "HNF0604", "1:12", ("no kind `flaot`", "did you mean `float`?")),
        ("format a { exponent = 4 fraktion = 3 fraction = 3 }", "HNF0605", "1:25", ("no field `fraktion`", "did you mean `fraction`?")),
        ("format a { exponent = 4 fraction = 3 exponent = 5 }", "HNF0605", "1:38", ("given twice", "remove one")),
        ("format a { exponent = 4 }", "HNF0606", "1:8", ("no `fraction`", "add `fraction = …`")),
        ("format a : fixed { integer = 3 fraction = 4 }", "HNF0606", "1:8", ("no `overflow`", "`saturate` or `wrap`")),
        ("format a { exponent = 4.5 fraction = 3 }", "HNF0608", "1:23", ("a whole number from 0 to 64", "9/2")),
        ("format a { exponent = 65 fraction = 3 }", "HNF0608", "1:23", ("a whole number from 0 to 64", "65")),
        ("format a { exponent = four fraction = 3 }", "HNF0608", "1:23", ("a whole number", "`four`")),
        ("format a { exponent = 4 fraction = 3 subnormals = maybe }", "HNF0608", "1:51", ("`yes` or `no`", "`maybe`")),
        ("format a { exponent = 4 fraction = 3 specials = fn }", "HNF0608", "1:49", ("one of `ieee`, `all_ones`", "`fn`")),
        ("format a { exponent = 4 fraction = 3 overflow = wrap }", "HNF0608", "1:49", ("one of `infinity`, `nan`", "`wrap`")),
        ("format a { exponent = 4 fraction = 3 dtype = f31 }", "HNF0608", "1:46", ("an element type", "f32")),
        ("format a { exponent = 4 fraction = 3 stored = 0 }", "HNF0608", "1:47", ("a number above 0",)),
        ("format a : integer { bits = 8 scale = 2 ** -1100 }", "HNF0608", "1:39", ("that float64 holds",)),
        ("format a { exponent = 4 fraction = 3 specials = none overflow = infinity }", "HNF0609", "1:8", ("there are no infinities",)),
        ("format a { exponent = 4 fraction = 3 zero = no subnormals = yes }", "HNF0609", "1:8", ("has a zero",)),
        ("format a { exponent = 12 fraction = 3 }", "HNF0609", "1:8", ("float64 does not hold",)),
        ("format a : integer { bits = 8 sign = no narrow = yes }", "HNF0609", "1:8", ("symmetric",)),
        ("format a : integer { bits = 0 }", "HNF0609", "1:8", ("no codes",)),
        ("format a : block { element = MXFP4_E2M1 size = 32 scale = e8m0fnu }", "HNF0609", "1:8", ("element is MXFP4_E2M1",)),
        ("format a : block { element = fp16 size = 0 scale = e8m0fnu }", "HNF0609", "1:8", ("a block has an element",)),
        ("format a : block { element = fp17 size = 32 scale = e8m0fnu }", "HNF0602", "1:30", ("no format `fp17`", "did you mean `fp1")),
        ("format a : block { element = 8 size = 32 scale = e8m0fnu }", "HNF0602", "1:30", ("expected a format, but got 8",)),
        ("format a = b", "HNF0602", "1:12", ("no format `b`",)),
        ("format a = fixed(3)", "HNF0610", "1:12", ("needs fraction", "as in `fixed(integer, fraction)`")),
        ("format a = fixed(3, 4, 5)", "HNF0610", "1:12", ("takes 2 arguments, but got 3",)),
        ("format a = fixed(3, fraktion=4)", "HNF0610", "1:12", ("no parameter", "did you mean `fraction`?")),
        ("format a = fixed(3, integer=4)", "HNF0610", "1:12", ("given twice",)),
        ("format a = fp16(3)", "HNF0610", "1:12", ("takes no arguments",)),
        ("format a = fixed(3, x)", "HNF0608", ":", ("`x`",)),
        ("format fp16 { exponent = 4 fraction = 3 }", "HNF0601", "1:8", ("two formats `fp16`", "rules/formats.hnf, line")),
        ("format a = fp16\nformat a = fp32", "HNF0601", "2:8", ("two formats `a`", "line 1")),
        ("format a = b\nformat b = a", "HNF0607", ":", ("need each other: ",)),
        ("format a(w) { exponent = w fraction = v + 1 }", "HNF0611", "1:39", ("`v` is no number",)),
        ("format a(w) { exponent = w fraction = v }", "HNF0608", "1:39", ("a whole number", "`v`")),
        ("format a(w) { exponent = w fraction = 2.5 }", "HNF0608", "1:39", ("a whole number",)),
        ("format a(w) : block { element = fp17 size = w scale = e8m0fnu }", "HNF0602", "1:33", ("no format `fp17`",)),
        ("format a(w, v = 1 / 0) = fixed(w, v)", "HNF0611", "1:17", ("division by 0",)),
        ("format a(w) = fixd(w, 3)", "HNF0602", "1:15", ("did you mean `fixed`?",)),
        ("format a(w) = fixed(w, 3, 4)", "HNF0610", "1:15", ("takes 2 arguments, but got 3",)),
        ("format a(w) = fixed(w, yes)", "HNF0608", ":", ("a whole number", "`yes`")),
        ("format a(w) = b(w)\nformat b(w) = a(w)", "HNF0607", ":", ("need each other",)),
        ("format a(x, x) = fixed(x, x)", "HNF0603", "1:13", ("two parameters `x`",)),
        ("format a(x) = fp16", "HNF0603", "1:10", ("does not use its parameter `x`", "remove it")),
        ("format a(x = 1, y) = fixed(x, y)", "HNF0603", "1:17", ("`y` has no default",)),
        ("format a { exponent = 4 / 0 fraction = 3 }", "HNF0611", "1:23", ("division by 0",)),
        ("format a { exponent = 0 ** -1 fraction = 3 }", "HNF0611", "1:23", ("division by 0",)),
        ("format a { exponent = 2 ** 0.5 fraction = 3 }", "HNF0611", "1:23", ("not a small whole number",)),
        ("format a { exponent = 2 ** 2 ** 99 fraction = 3 }", "HNF0611", "1:23", ("not a small whole number",)),
        ("format a { exponent = e + 1 fraction = 3 }", "HNF0611", "1:23", ("`e` is no number",)),
        ("format a { exponent = fp16 + 1 fraction = 3 }", "HNF0611", "1:23", ("`fp16` is no number",)),
        ("format a { exponent = mx(fp16) + 1 fraction = 3 }", "HNF0611", "1:23", ("expected a number, but got mx",)),
        ("format a { exponent = 4 > 3 fraction = 3 }", "HNF0611", "1:23", ("expected a number, a word or a format",)),
        ("format a { exponent = " + "9" * 2000 + " fraction = 3 }", "HNF0611", "1:23", ("longer than any format needs",)),
    ],
)  # fmt: skip
def test_diagnostics(text: str, code: str, place: str, words: tuple[str, ...]) -> None:
    diagnostic = faults(text)[0]
    source = text if diagnostic.file == "f.hnf" else None
    told = render(diagnostic, source)
    assert told.startswith(f"error[{code}]") and place in told and all(word in told for word in words), told
    assert source is None or "^" in told


def test_every_fault_of_a_file_is_reported_and_nothing_of_it_is_kept() -> None:
    found = FormatBook(shipped_formats)
    with pytest.raises(HnfError) as caught:
        found.add(parse("format good = fp16\nformat a : no {}\nformat b { exponent = 4 }\nformat fp16 = fp32", "f.hnf"))
    assert [d.code for d in caught.value.diagnostics] == ["HNF0601", "HNF0604", "HNF0606"]
    with pytest.raises(HnfError):
        found.format("good")


def test_the_faults_of_a_call_name_the_declaration_and_its_arguments() -> None:
    with pytest.raises(HnfError) as caught:
        shipped_formats().format("minifloat_ieee(8, 14)")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.file == "rules/formats.hnf" and diagnostic.note.startswith("with width = 8, exponent = 14")


@pytest.mark.parametrize("text", ["", "3", "fp16 fp16", "fp16 + 1", "x(", "fp16\nformat b = fp32", "rule r exp(x) => x", "$"])
def test_what_names_no_format_is_refused(text: str) -> None:
    with pytest.raises(HnfError):
        shipped_formats().format(text)


def test_the_rulebook_has_the_formats_of_a_file_and_of_what_it_imports(tmp_path: Path) -> None:
    (tmp_path / "base.hnf").write_text(OWN)
    (tmp_path / "main.hnf").write_text('import "base.hnf"\nformat thirteen = of_width(13, 6)\nrule r abs(abs(x)) => abs(x)')
    found = load_files([tmp_path / "main.hnf"])
    assert found.formats.format("thirteen").bits == 13 and found.formats.format("bf16").bits == 16
    assert [rule.name for rule in found.rules] == ["r"]
    assert {"my_e4m2", "thirteen", "fp16"} <= set(found.formats.names())
    assert {form.name for form in found.formats.formats()} >= {"my_e4m2", "twelve", "thirteen", "fp16"}


def test_a_file_that_declares_a_known_format_word_for_word_may_be_read_again() -> None:
    found = book('format fp16 "IEEE 754 binary16" {\n exponent = 5\n fraction = 10 # bits\n dtype = f16\n}')
    assert found.format("fp16") == shipped_formats().format("fp16")
    assert shipped().formats.format("fp16") == shipped_formats().format("fp16")


def test_the_layout_keeps_comments_and_is_its_own_layout() -> None:
    messy = """# head
format   a(w,e=2**(w-1))"t":float{ # behind the head
 exponent=e # behind a field
 # before a field
 fraction=w-e-1 bias=-3
 # before the end
} # behind the end
format b=a( 3 , e = 4 )  # behind a name
format c:log{}
format d{exponent=1}
"""
    printed = print_file(parse(messy))
    assert print_file(parse(printed)) == printed
    assert [c.text for c in parse(printed).comments] == [c.text for c in parse(messy).comments]
    assert 'format a(w, e = 2 ** (w - 1)) "t" : float {  # behind the head\n    exponent = e  # behind a field\n' in printed
    assert "format b = a(3, e=4)  # behind a name" in printed and "format d {\n    exponent = 1\n}" in printed


names = st.sampled_from(["a", "b", "width"])
values = st.sampled_from(["1", "2 ** (a - 1)", "yes", "fp16", "fixed(3, 4)", "-a / 2", "f(a, b=2)"])
fields = st.lists(st.tuples(names, values), max_size=3).map(lambda found: "{" + " ".join(f"{n} = {v}" for n, v in found) + "}")
bodies = st.one_of(fields, fields.map(lambda f: f": float {f}"), values.map(lambda v: f"= {v}"))
parameters = st.lists(names | st.tuples(names, values).map(" = ".join), max_size=3).map(lambda p: f"({', '.join(p)})" if p else "")


@given(st.lists(st.tuples(names, parameters, st.sampled_from(["", '"why"']), bodies).map(lambda d: "format " + " ".join(d)), max_size=3))
def test_any_declarations_round_trip(declarations: list[str]) -> None:
    file = parse("\n".join(declarations))
    printed = print_file(file)
    assert bare(parse(printed).declarations) == bare(file.declarations)
    assert print_file(parse(printed)) == printed


@given(st.text(alphabet='format ab{}=():,*/-+12\n"#floatexponentfraction', max_size=60))
def test_any_text_gives_formats_or_diagnostics(text: str) -> None:
    try:
        found = book(text)
    except HnfError as error:
        assert error.diagnostics and all(render(d, text) for d in error.diagnostics)
    else:
        assert all(isinstance(form, Format) for form in found.formats())


def test_threads_may_ask_for_formats_at_once() -> None:
    found = book(OWN)
    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(lambda n: found.format(f"mx(of_width({n % 40 + 6}, 3))").bits, range(400)))
    assert names == [n % 40 + 6 for n in range(400)]
