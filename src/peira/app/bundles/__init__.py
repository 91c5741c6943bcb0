"""Bundles: pending work exported as a file, done elsewhere, and imported again."""
