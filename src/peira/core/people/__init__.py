"""People who answer questions."""
