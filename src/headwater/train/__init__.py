"""Corpus to weights: recipes, the loop, baselines and what they are compared by."""
