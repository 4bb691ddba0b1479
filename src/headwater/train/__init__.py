"""From a corpus to weights: recipes, the loop, baselines, studies."""
