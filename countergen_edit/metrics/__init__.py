"""Metrics: from a model, edited or not, to result rows and to what is shown of them."""
