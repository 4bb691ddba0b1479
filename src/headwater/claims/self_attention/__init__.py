"""Document 003: self-attention, soft lookup, cost, queries, keys and values, scaling, and transformer blocks."""
