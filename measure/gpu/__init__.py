"""The check of trainmon on a machine with a real device: see check.py."""
