"""hnfc: a compiler for numerics."""
