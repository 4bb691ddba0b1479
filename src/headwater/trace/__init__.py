"""Weights × tokens → why: questions about a run, followed upstream to the tokens they came from, exactly."""
