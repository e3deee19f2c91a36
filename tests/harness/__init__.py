"""Tests trainmon from the outside: the evaluation, real faults, real devices, packages, virtual machines.

The entry points are `evaluate.py`, `on_gpu.py`, `faults.py`, and `dev.py` for everything else. The programs that trainmon is
tested on are in the package `workloads`, which imports nothing from this one.
"""
