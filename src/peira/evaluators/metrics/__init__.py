"""Text similarity metrics: overlap, alignment and embeddings."""
