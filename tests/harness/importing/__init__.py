"""Compares `trainmon import` of a torch.profiler trace with trainmon's own recording of the same process."""
