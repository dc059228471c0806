"""Decisions as functions of rows: significance, changes, selection, verdict."""
