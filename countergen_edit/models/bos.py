"""Whether texts begin with the beginning-of-text token (BOS): one decision, when a model is loaded.

In: a fast tokenizer and the decision. Out: the same tokenizer, whose post-processor follows it, so
that everything that is tokenised with it agrees, and everything that it is saved with.
Refused: a BOS first where there is no such token, a tokenizer that puts it there in its own way.
"""

from __future__ import annotations

import json
from typing import Any

from countergen_edit.errors import UserError

Bos = bool | str
"""Whether texts begin with BOS; `auto`, the only word, as the model's own tokenizer does."""


def adds_bos(tokenizer: Any) -> bool:
    """Whether a text begins with the tokenizer's beginning-of-text token."""
    first: list[int] = tokenizer("a").input_ids[:1]
    return tokenizer.bos_token_id is not None and first == [tokenizer.bos_token_id]


def set_bos(tokenizer: Any, bos: Bos, name: str) -> None:
    """Let a fast tokenizer begin texts with BOS, or not; what it saves does likewise.

    Args:
        tokenizer: changed in place, in its post-processor alone.
        bos: `auto` leaves it as it is.
        name: of the model, for errors.

    Raises:
        UserError: `bos` is neither true, false nor auto; there is no such token; or the tokenizer
            begins texts in a way of its own, which cannot be changed here.
    """
    if not isinstance(bos, bool) and bos != "auto":
        raise UserError(f"bos={bos!r}: write auto, true or false")
    if bos == "auto" or adds_bos(tokenizer) == bos:
        return
    if tokenizer.bos_token_id is None:
        raise UserError(
            f"bos=true, but the tokenizer of {name} has no beginning-of-text token: use bos=auto"
        )
    processor = tokenizer.backend_tokenizer.post_processor
    state = {} if processor is None else json.loads(processor.__getstate__())
    token, index = str(tokenizer.bos_token), int(tokenizer.bos_token_id)
    content = _with_bos(state, token, index) if bos else _without_bos(state, token)
    if content != state:
        tokenizer.backend_tokenizer.post_processor = _processor(content)
    if adds_bos(tokenizer) != bos:
        raise UserError(
            f"bos={str(bos).lower()}, but how the tokenizer of {name} begins a text "
            f"({type(processor).__name__}) cannot be changed here: use bos=auto"
        )


def _with_bos(state: dict[str, Any], token: str, index: int) -> dict[str, Any]:
    """A post-processor's content with a step after its own that puts the token first."""
    first = {"SpecialToken": {"id": token, "type_id": 0}}
    a, b = ({"Sequence": {"id": text, "type_id": i}} for i, text in enumerate("AB"))
    template = {
        "type": "TemplateProcessing",
        "single": [first, a],
        "pair": [first, a, b],
        "special_tokens": {token: {"id": token, "ids": [index], "tokens": [token]}},
    }
    return template if not state else {"type": "Sequence", "processors": [state, template]}


def _without_bos(state: dict[str, Any], token: str) -> dict[str, Any]:
    """A post-processor's content whose templates do not put the token before a text."""
    if state.get("type") == "Sequence":
        steps = [_without_bos(step, token) for step in state["processors"]]
        return state | {"processors": steps}
    if state.get("type") != "TemplateProcessing":
        return state
    templates = {}
    for key in ("single", "pair"):
        pieces = state[key]
        templates[key] = [
            piece
            for piece, following in zip(pieces, [*pieces[1:], {}], strict=True)
            if not ("Sequence" in following and piece.get("SpecialToken", {}).get("id") == token)
        ]
    return state | templates


def _processor(content: dict[str, Any]) -> Any:
    """A post-processor from its content; `tokenizers` reads one as part of a tokenizer only."""
    from tokenizers import Tokenizer
    from tokenizers.models import BPE

    bare = json.loads(Tokenizer(BPE()).to_str())
    return Tokenizer.from_str(json.dumps(bare | {"post_processor": content})).post_processor
