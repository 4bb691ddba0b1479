"""Profiles, threads, and nothing that a test would have to know about."""

import os

import hypothesis
import torch

torch.set_num_threads(1)

hypothesis.settings.register_profile("quick", max_examples=30, deadline=None)
hypothesis.settings.register_profile("full", max_examples=300, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HEADWATER_PROFILE", "quick"))
