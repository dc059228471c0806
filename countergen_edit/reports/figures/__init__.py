"""Figures, drawn from rows alone: for the HTML report, and as files."""
