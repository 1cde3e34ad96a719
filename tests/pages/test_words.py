"""First lines of reports: they claim no more than is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hnfc.frontend.models import read_model
from hnfc.pages.model import model_page
from hnfc.pipeline.compile import compile_module
from hnfc.pipeline.compiled import Compiled
from hnfc.pipeline.request import Request
from hnfc.pipeline.rulesets import load_rules
from hnfc.validation.measurement import Error
from tests.pages.test_graphs import ATTENTION, compiled

GOOD, LOST, FINE = Error(0, 1e-7, 8, 1e-7, 1e-7), Error(0, 1e12, 8, 1e-7, 1e-7), Error(3, 0.0, 8, 0.0, 0.0)


@pytest.fixture(scope="module")
def made() -> Compiled:
    return compiled(ATTENTION)


@pytest.mark.parametrize(
    ("before", "after", "tone", "words"),
    [
        (FINE, GOOD, "good", "Mended: output 0 was not finite in 3 of 8 elements; its error is now 1.0e-07."),
        (FINE, LOST, "warn", "has no right digit still"),
        (GOOD, FINE, "bad", "Output 0 is still not finite in 3 of 8 elements"),
        (GOOD, GOOD, "good", "the largest error of the outputs: 1.0e-07 → 1.0e-07"),
        (GOOD, LOST, "warn", "has no right digit still"),
        (None, None, "warn", "errors were not measured"),
        (GOOD, None, "warn", "errors were not measured"),
    ],
)
def test_the_headline_is_what_is_known(made: Compiled, before: Error | None, after: Error | None, tone: str, words: str) -> None:
    changed = replace(made, outputs=[replace(made.outputs[0], before=before, after=after)])
    page = model_page(changed, load_rules("stability").verdicts, [], str(ATTENTION), "")
    assert words in page.headline and page.tone == tone
    said = " ".join(line for _, lines in page.answers for line in lines)
    assert ("could not be computed" in said) == (before is None)
    assert ("Outputs were measured" in said) == (before is not None)


def test_a_model_without_samples_says_so() -> None:
    rules = load_rules("stability")
    found = compile_module(read_model(str(ATTENTION)), Request(phases=rules.allowed(), drawn=True))
    page = model_page(found, rules.verdicts, rules.withheld, str(ATTENTION), "")
    said = " ".join(line for _, lines in page.answers for line in lines)
    assert page.tone in ("plain", "warn") and "give --range arg0=LO:HI" in said
