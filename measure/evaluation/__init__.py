"""Holds trainmon against programs of which the truth is known: its verdicts, its cost, its screen."""
