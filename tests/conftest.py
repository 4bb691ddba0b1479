"""Profiles, threads, and nothing that a test would have to know about."""

import os

import hypothesis
import torch

torch.set_num_threads(1)

# At a desk every run explores anew; a gate gives the same answer for the same code.
IS_GATE = bool(os.environ.get("CI"))
hypothesis.settings.register_profile("quick", max_examples=30, deadline=None, derandomize=IS_GATE)
hypothesis.settings.register_profile("full", max_examples=300, deadline=None, derandomize=IS_GATE)
hypothesis.settings.load_profile(os.environ.get("HEADWATER_PROFILE", "quick"))
