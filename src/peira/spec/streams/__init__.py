"""Streams as they are declared: studies whose cases arrive, their triggers and goals."""
