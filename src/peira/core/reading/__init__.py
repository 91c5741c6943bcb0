"""What a text says: readers that transforms and evaluators share. Each takes time linear in the text."""
