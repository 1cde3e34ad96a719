"""What does a rule change in IEEE arithmetic?"""

from hnfc.dsl.ieee.judge import DEFAULT_SECONDS, FORMATS_JUDGED, ieee_verdicts
from hnfc.dsl.ieee.verdict import IEEE_VERSION, IeeeExample, IeeeStatus, IeeeVerdict, Tensor

__all__ = ["DEFAULT_SECONDS", "FORMATS_JUDGED", "IEEE_VERSION", "IeeeExample", "IeeeStatus", "IeeeVerdict", "Tensor", "ieee_verdicts"]
