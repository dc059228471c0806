"""Metrics: from a model, edited or not, to result rows."""
