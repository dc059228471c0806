"""The erasers, one file each."""
