"""Models behind a server of OpenAI's completions protocol: measured, never edited.

Answers are kept on disk and asked for once.
"""

from countergen_edit.models.served import writing  # noqa: F401 (says how a served model is asked)
from countergen_edit.models.served.model import ServedModel, connect

__all__ = ["ServedModel", "connect"]
