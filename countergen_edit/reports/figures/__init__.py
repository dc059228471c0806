"""Figures: from result rows to interactive plots; nothing is computed here."""
