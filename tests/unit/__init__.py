"""Tests of what is written in Python: `python -m unittest discover tests`, in the folder above."""
