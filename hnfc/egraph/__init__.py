"""Equality saturation over rules that are proved: `EGraph`, `Saturation`, `extract`."""

from hnfc.egraph.extraction import Extraction, extract
from hnfc.egraph.graph import EGraph
from hnfc.egraph.matching import directions
from hnfc.egraph.program import Program
from hnfc.egraph.saturation import Saturation
from hnfc.egraph.search import Limits

__all__ = ["EGraph", "Extraction", "Limits", "Program", "Saturation", "directions", "extract"]
