"""Figures: files and Plotly figures that are drawn from rows alone."""
