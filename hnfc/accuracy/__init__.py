"""Programs of numbers (FPCore) in forms that lose fewer digits: `improve`, and `account` for what holds of the outcome."""

from hnfc.accuracy.account import account
from hnfc.accuracy.improving import Improved, ImprovementSettings, NotImproved, improve, program_errors, rules_for_programs

__all__ = ["Improved", "ImprovementSettings", "NotImproved", "account", "improve", "program_errors", "rules_for_programs"]
