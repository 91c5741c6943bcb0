"""The plan of a study: conditions, trials, run order, manifest, subsets, estimates and reuse."""
