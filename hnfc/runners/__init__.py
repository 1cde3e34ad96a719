"""Accuracy of each operation as the runners of a model compute it, and its table in the documentation."""
