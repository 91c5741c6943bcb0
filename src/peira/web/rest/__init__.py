"""The REST interface under /api/v1: its routes with their types, what they answer, and what they do."""
