"""What tests trainmon from outside: the evaluation, faults made for real, devices, packages, virtual machines, and their tests.

`evaluate.py`, `on_gpu.py` and `faults.py` are entry points, `dev.py` the entry point to everything else. The programs that
trainmon is held against are the package `workloads`, which uses nothing of this one.
"""
