"""Tables of means, quantiles, ratios and failure rates."""
