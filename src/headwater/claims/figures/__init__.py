"""The 32 figures that the documents ask for, each drawn from tensors of a real model or a real run."""
