"""Work plans: executing them, looking at their units, merging what they made."""
