"""Proofs stop by count; the clock, which only guards who waits, must not have a say in a test on a busy machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hnfc.dsl.soundness import prove

PATIENCE_MS = 40_000


@pytest.fixture(autouse=True, scope="session")
def patient() -> Iterator[None]:
    defaults = prove.__kwdefaults__
    before = defaults["timeout_ms"]
    defaults["timeout_ms"] = PATIENCE_MS
    yield
    defaults["timeout_ms"] = before
