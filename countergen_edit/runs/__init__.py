"""Experiments: what a configuration describes, run unit by unit into a run folder."""
