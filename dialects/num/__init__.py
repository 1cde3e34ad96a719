"""The `num` dialect: pure tensor mathematics, one class an operation."""
