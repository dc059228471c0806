"""Models that run on a server which speaks OpenAI's completions protocol: measured, never edited.

In: an address and the name of a model there. Out: a `ServedModel`, which scores continuations and
writes as any `LanguageModel` does; every answer is kept on disk, and asked for once.
Refused: what needs weights, tokens or whole next-token distributions.
"""

from countergen_edit.models.served import writing  # noqa: F401 (says how a served model is asked)
from countergen_edit.models.served.model import ServedModel, connect

__all__ = ["ServedModel", "connect"]
