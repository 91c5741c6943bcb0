"""Hypothesis tests, and corrections for several of them."""
