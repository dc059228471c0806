"""The command line; no other package imports Hydra."""
