"""A page in the system's Chromium, driven by Playwright; errors of its scripts are kept. Tests are skipped where there is no Chromium."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu"]


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """The browser."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    if path is None:
        pytest.skip("there is no Chromium on this system: apt-get install chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@contextlib.contextmanager
def opened(browser: Any, file: Path | str, **settings: Any) -> Iterator[Any]:
    """The page of a file or an address. What its scripts fail at, and what it asks of a network, fails the test."""
    page = browser.new_page(**settings)
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: faults.append(request.url) if request.url.startswith("http") and isinstance(file, Path) else None)
    page.goto(file.as_uri() if isinstance(file, Path) else file)
    yield page
    assert faults == []
    page.close()
