"""Pure statistical functions on arrays and counts: intervals, tests, models, power."""
