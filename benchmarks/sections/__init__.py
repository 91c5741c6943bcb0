"""The sections of `benchmarks/run.py`: each is a function that measures, and returns a table."""
