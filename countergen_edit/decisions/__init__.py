"""Decisions as functions of rows: significance, changes, selection, verdict."""

JUDGEMENT = "judgement"
"""The row of a judgement."""
RECOMMENDED, OVER_BUDGET, HARMFUL, NOTHING = (
    "recommended",
    "costs too much",
    "does harm",
    "shows nothing",
)
