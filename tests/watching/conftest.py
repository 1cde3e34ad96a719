"""Traces without remedies, which take most of their time; the tests of traces try them."""

from __future__ import annotations

import pytest

import hnfc.tracing


@pytest.fixture(autouse=True)
def _without_remedies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hnfc.tracing, "add_remedies", lambda *_: None)
