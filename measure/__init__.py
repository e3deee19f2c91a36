"""Measures trainmon from outside: evaluation, real faults, real GPUs, packages, virtual machines.

`python measure COMMAND` runs one of these. The programs that trainmon is tested on are in the package `workloads` in tests/, which
imports nothing from this one.
"""
