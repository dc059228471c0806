"""Errors, seeds, registries, and the reading and writing of files: nothing of the field."""
