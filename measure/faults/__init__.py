"""Faults, made for real around trainmon: one function each, in files by what is broken."""
