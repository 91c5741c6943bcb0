"""Work plans: units of work for commands and functions, and what they need of each other."""
