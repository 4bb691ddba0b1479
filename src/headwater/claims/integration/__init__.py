"""Document 002: what self-attention adds to the residual stream, ``t1 … t5, h``, and how that compares with recurrent models."""
