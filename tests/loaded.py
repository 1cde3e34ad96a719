"""What a command loads before it looks at its input: a process that is forked from one with it begins there."""

from hnfc.core.verdicts import verdicts
from hnfc.dsl.rulebook import shipped
from hnfc.pipeline.rulesets import load_rules

verdicts(shipped().rules)
load_rules("stability")
