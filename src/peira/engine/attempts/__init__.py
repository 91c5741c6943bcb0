"""Attempts at tasks: admission, claims, channels, endings."""
