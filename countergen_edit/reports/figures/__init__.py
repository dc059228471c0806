"""Figures: files that are drawn from rows alone."""
