"""Foundations of every stage: errors, the interpreter, samples, verdicts of rules, and arrays, tensors and the torch dialect as data."""
