"""What every stage needs: errors, the interpreter, samples, verdicts of rules, and arrays, tensors and the torch dialect as data."""
