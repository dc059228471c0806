"""Experiments: a configuration is run unit by unit into a run folder."""
