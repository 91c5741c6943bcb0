"""Comparisons of levels, agents and runs."""
