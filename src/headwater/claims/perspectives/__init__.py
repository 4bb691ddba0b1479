"""Document 004: feed-forward layers, attention and normalisation around the residual stream."""
