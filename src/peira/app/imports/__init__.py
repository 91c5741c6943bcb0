"""Importing outputs that were produced elsewhere."""
