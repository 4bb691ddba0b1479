"""The model: configuration, weights, the one forward pass, checkpoints."""
