"""Decisions about people who differ in their group."""
