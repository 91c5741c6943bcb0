"""The pages that people look at; each is also JSON (.json) and a file of its own (.html)."""
