"""Commands as agents: what is under test is a program, with its own model calls recorded."""
