"""Scoring many stored outputs by plain evaluators: in processes, by batches, each batch one commit."""
