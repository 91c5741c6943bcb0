"""The estimate of a run: model calls, tokens, cost and time."""
