"""Commands that analyse results: tables, comparisons, effects, rankings, gates, power."""
