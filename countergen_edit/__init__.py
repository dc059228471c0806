"""Find a group bias in a language model, project it out, prove what changed and at what cost."""

__version__ = "0.1.0"
