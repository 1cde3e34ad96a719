"""The stages that a model goes through, in order."""
