"""The command-line door: the only room that knows Hydra."""
