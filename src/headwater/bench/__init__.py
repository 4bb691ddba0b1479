"""Side-by-side timings: every table of the benchmark report, its peers measured in the same run."""
