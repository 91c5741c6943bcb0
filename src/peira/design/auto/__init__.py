"""The design `auto`: the smallest candidate that answers the declared hypotheses."""
