"""`target` declarations: what they mean, what is wrong with them, and that they print as they were."""

from __future__ import annotations

import pytest

from hnfc.dsl.diagnostics import HnfError
from hnfc.dsl.parser import parse
from hnfc.dsl.printer import print_file
from hnfc.dsl.rulebook import load_text, shipped_targets

OWN = """library own

# What is on the desk.
target desk "a small machine" {
    bandwidth = 50e9  # two channels
    memory = 16e9
    vector_f32 = 0.5e12
    matrix_f32 = 1e12
}
"""


def test_rates_and_what_has_none():
    desk = load_text(OWN, "own.hnf").targets.target("desk")
    assert desk is not None
    assert (desk.title, desk.bandwidth, desk.memory, desk.latency) == ("a small machine", 50e9, 16e9, 0.0)
    assert desk.rate("f32") == 0.5e12 and desk.rate("f32", matrix=True) == 1e12
    assert desk.rate("f64") == 0.5e12, "as slow as the slowest"
    assert desk.runs("f32") and not desk.runs("f64")


def test_the_shipped_ones_stand_beside_those_of_a_file():
    targets = load_text(OWN, "own.hnf").targets
    assert {"cpu", "a100", "h100", "tpu_v5e", "tpu_v5p", "desk"} <= set(targets.names())
    h100 = shipped_targets().target("h100")
    assert h100 is not None and h100.rate("bf16", matrix=True) > 10 * h100.rate("f32")
    assert not shipped_targets().target("tpu_v5e").runs("f64")


def test_it_prints_as_it_was_and_is_formatted_once():
    assert print_file(parse(OWN, "own.hnf")) == OWN
    loose = OWN.replace("    bandwidth = 50e9", " bandwidth=50e9").replace("\n}", " }")
    assert print_file(parse(loose, "own.hnf")) == OWN


@pytest.mark.parametrize(("text", "code", "place", "words"), [
    ("target t { memory = 1 vector_f32 = 1 }", "HNF0704", 8, "has no `bandwidth`"),
    ("target t { bandwidth = 1 memory = 1 }", "HNF0704", 8, "no rate in any format"),
    ("target t { bandwidth = 1 memory = 1 vector_f32 = 1 vektor_f16 = 1 }", "HNF0702", 52, "has no field `vektor_f16`"),
    ("target t { bandwidth = 1 memory = 1 vector_f32 = 1 memory = 2 }", "HNF0702", 52, "given twice"),
    ("target t { bandwidth = 0 memory = 1 vector_f32 = 1 }", "HNF0703", 24, "a number above 0"),
    ("target t { bandwidth = fast memory = 1 vector_f32 = 1 }", "HNF0703", 24, "a number above 0"),
    ("target t { bandwidth = 1e999 memory = 1 vector_f32 = 1 }", "HNF0703", 24, "a number above 0"),
    ("target cpu { bandwidth = 1 memory = 1 vector_f32 = 1 }", "HNF0701", 8, "two targets `cpu`"),
])  # fmt: skip
def test_what_is_wrong_is_said_where_it_is(text, code, place, words):
    with pytest.raises(HnfError) as caught:
        load_text(text, "own.hnf")
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.span.column) == (code, place)
    assert words in diagnostic.message and diagnostic.help


def test_a_faulty_target_adds_none():
    with pytest.raises(HnfError):
        load_text(OWN + "\ntarget t { }", "own.hnf")
    again = load_text(OWN + "\n" + OWN.replace("library own", ""), "own.hnf")
    assert "desk" in again.targets.names(), "the same one twice is one"
