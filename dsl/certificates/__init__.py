"""Certificates: what a rule claims, as a theorem for Coq, with a proof that `coqc` checks without hnfc."""
