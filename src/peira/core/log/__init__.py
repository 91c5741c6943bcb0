"""The event log: event types, the fold that applies them, and the rows that it projects."""
