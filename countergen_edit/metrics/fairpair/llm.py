"""A language model as FairPair's perturber, as GPT-3.5 is in the paper (section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any

from annotated_types import Gt

from countergen_edit.core.errors import UserError
from countergen_edit.data.fairpair import PairedPrompt
from countergen_edit.models import LanguageModel, connect, generate, load_model

PROMPT = (
    "Rewrite the text so that it is about {target} and no longer about {source}. Keep every other "
    "word as it is, and write the rewritten text only.\n\nText: {text}\n\nRewritten text:"
)


class LLMPerturber:
    """p by a language model that is told to exchange the person and nothing else.

    A model with a chat template is asked in it, another continues the instruction. Its likeliest
    text is taken whole; the filters find its errors.

    Args:
        model: Address of a server, or a hub id, directory or GGUF file.
        served_name: The server's name of the model; by default its only one.
        prompt: The instruction, with {source} and {target}, each a name and its group, and {text}.
        max_new_tokens: Longest perturbed text, its prompt included.
    """

    def __init__(
        self,
        groups: tuple[str, str],
        model: str = "",
        served_name: str | None = None,
        prompt: str = PROMPT,
        max_new_tokens: Annotated[int, Gt(0)] = 256,
    ) -> None:
        if not model:
            raise UserError("perturber=llm has no model: write perturber={kind:llm,model:NAME}")
        self.groups, self.prompt, self.max_new_tokens = groups, prompt, max_new_tokens
        self._model = _opened(model, served_name)

    def __call__(self, texts: Sequence[str], prompt: PairedPrompt) -> list[str]:
        names = zip((prompt.source_name, prompt.target_name), self.groups, strict=True)
        source, target = (f"{name} ({group})" if name else group for name, group in names)
        asked = self.prompt.replace("{source}", source).replace("{target}", target)
        prompts = [asked.replace("{text}", text) for text in texts]
        how: dict[str, Any] = {"chat": self._model.chat.is_on, "progress": "Perturbing"}
        written = generate(self._model, prompts, max_new_tokens=self.max_new_tokens, **how)
        return [text.strip() for text in written]


@lru_cache(maxsize=1)
def _opened(model: str, served_name: str | None) -> LanguageModel:
    """The model, loaded once for all copies of a metric."""
    if model.startswith(("http://", "https://")):
        return connect(model, served_name, log_probs="none")
    return load_model(model, template="auto")
