"""Numerical solvers."""
