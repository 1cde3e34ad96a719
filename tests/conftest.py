"""What tests measured and want to be seen is printed at the end, from every process that ran tests."""

from __future__ import annotations


def pytest_terminal_summary(terminalreporter):
    for report in terminalreporter.stats.get("passed", []):
        for name, text in report.user_properties:
            if name == "shown":
                terminalreporter.section(report.nodeid)
                terminalreporter.write_line(text)
