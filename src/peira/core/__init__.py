"""Values and contracts without I/O: ids, events and their fold, the registry, the current trial."""
