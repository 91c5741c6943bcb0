"""Work plans as tasks: the source of their units, and what an attempt at a unit does."""
