"""Trials and scores as read back from a store, and their rows for other tools."""
