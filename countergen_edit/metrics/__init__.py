"""Metrics: from a model, edited or not, to result rows and to what is shown of them."""

COSTS = ("agreement", "perplexity", "kl", "legitimate_differences")
"""The costs that are measured unless others are chosen."""
