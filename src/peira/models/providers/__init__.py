"""The built-in providers of models."""
