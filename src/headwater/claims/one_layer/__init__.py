"""Document 000: one-layer attention-only transformers, their circuits, paths and skip-trigrams."""
