"""Axes, counterfactual pairs, substitution, sources of data, and splits that cannot leak."""
