"""Weights to matrices: what a model says before any text is seen.

Everything here reads ``Weights`` and returns values; no text, no run. A circuit over the vocabulary is a ``Factored``: two thin
matrices whose product is never multiplied out.
"""
