"""Conversations: an agent that talks with a user over several turns."""
