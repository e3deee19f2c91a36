"""Tests of the harness itself: `python -m unittest discover tests`."""
