"""Benchmarks of the field as one metric: their figures, intervals, and what an edit changes."""
