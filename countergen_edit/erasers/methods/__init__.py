"""The erasers."""
