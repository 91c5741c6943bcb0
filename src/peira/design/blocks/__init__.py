"""Designs with blocks: complete, incomplete, nested, Latin squares, sequences."""
