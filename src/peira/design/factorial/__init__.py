"""Factorial designs: full, fractional, one factor at a time."""
