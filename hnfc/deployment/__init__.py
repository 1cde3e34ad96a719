"""Weights in their formats for the programs of others: settings of torchao, GGUF files, and checkpoints of vLLM."""
