"""Optimisation behind the erasers, and the cvxpy references they are held against."""
