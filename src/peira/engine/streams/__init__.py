"""Streams under way: jobs, the source that offers them, timers, and the host that runs several of them."""
