"""Commands about what is under way: the inbox of people, and control of runs."""
