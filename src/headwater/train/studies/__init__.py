"""Experiments on training, one module each: settings in, a frozen value out that can be printed, saved and drawn."""
