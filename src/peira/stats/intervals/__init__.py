"""Confidence intervals: of means, proportions, quantiles, ratios, and by resampling."""
