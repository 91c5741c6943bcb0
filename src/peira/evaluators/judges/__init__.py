"""LLM judges: single judges, pairwise comparison, panels and rubrics."""
