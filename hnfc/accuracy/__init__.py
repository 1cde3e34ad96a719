"""Programs of numbers (FPCore) in forms that lose fewer digits: `-O accuracy`."""
