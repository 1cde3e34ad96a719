"""Errors and regressions of a function before and after a rewrite, on samples and probes."""
