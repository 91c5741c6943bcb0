"""Streams for users: hosts that serve them, and what any process can see and ask of one."""
