"""Costs of an edit: agreement, perplexity, KL, legitimate differences."""
