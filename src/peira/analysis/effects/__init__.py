"""Effects of factors: regression, analysis of variance, mixed models, surfaces."""
