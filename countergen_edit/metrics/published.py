"""How a model is looked up in tables of published figures: by its exact id, and by nothing else.

A model that was derived from a published one has another name, and gets none of its figures.
"""

from __future__ import annotations


def published_name(model: str) -> str:
    """A model's name as published tables have it: what is behind the last slash, in small letters.

    >>> published_name("openai-community/gpt2"), published_name("/models/gpt2-xl/")
    ('gpt2', 'gpt2-xl')
    """
    return model.rstrip("/").rpartition("/")[2].lower()
