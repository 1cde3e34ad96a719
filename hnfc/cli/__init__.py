"""The commands `hnfc` and `hnfc-opt`."""
