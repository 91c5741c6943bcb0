"""Runs that several processes execute together: ranges of the plan, leases, and who closes the run."""
