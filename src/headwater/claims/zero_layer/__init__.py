"""Document 001: zero-layer transformers, their bigrams, rank and direct path."""
