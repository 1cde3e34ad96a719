"""The prover under test has time: what it finds must not hang on what else the machine does."""

from __future__ import annotations

import pytest

from hnfc.dsl.soundness import judge


@pytest.fixture(autouse=True)
def time_for_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "REMEDY_SECONDS", 20.0)
