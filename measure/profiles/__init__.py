"""Checks trainmon's account of torch.profiler traces: against a plain account of the same files, another tool, size, and bad input."""
