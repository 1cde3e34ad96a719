"""Modules and verdicts that every command loads: a process that is forked from one with them begins at its input."""

from hnfc.core.verdicts import verdicts
from hnfc.dsl.rulebook import shipped
from hnfc.pipeline.rulesets import load_rules

verdicts(shipped().rules)
load_rules("stability")
