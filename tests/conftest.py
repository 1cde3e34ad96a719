"""Long sweeps are sampled; what tests measured and want to be seen is printed at the end, from every process that ran tests."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of a test that is marked `sampled(n)`, n cases stay, always the same; the others become slow ones."""
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("slow"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for name, found in cases.items():
        number = found[0].get_closest_marker("sampled").args[0]
        kept = set(random.Random(name).sample(range(len(found)), min(number, len(found))))
        for place, item in enumerate(found):
            if place not in kept:
                item.add_marker(pytest.mark.slow)


def pytest_terminal_summary(terminalreporter):
    for report in terminalreporter.stats.get("passed", []):
        for name, text in report.user_properties:
            if name == "shown":
                terminalreporter.section(report.nodeid)
                terminalreporter.write_line(text)
