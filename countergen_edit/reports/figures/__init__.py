"""Figures for the HTML report; each takes rows and gives a Plotly figure."""
