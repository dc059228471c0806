"""Augmentation: texts become counterfactual pairs, by word substitution or by an instruct model.

Sources: CounterGen, section 3.1, and its released augmenters; FairPair, section 3.3 (the request
and the filters).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from string import Formatter
from typing import Any

import countergen_edit
from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import digest, whole
from countergen_edit.data.augmentation import (
    NO_GROUP,
    TWICE,
    Attempt,
    Case,
    Change,
    Conditions,
    Paraphrase,
    changes,
    reply,
)
from countergen_edit.data.sources.inputs import Input
from countergen_edit.metrics.augmented import augmented_rows, reasons_of, said_of
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel, lengths
from countergen_edit.models.progress import announce
from countergen_edit.models.tokens import instructed
from countergen_edit.runs.folder import RunFolder
from countergen_edit.runs.replies import Requests, Writing

PAIRS, REFUSED, CARD, REPLIES = "pairs.jsonl", "refused.jsonl", "card.md", "replies"
UNIT = "augmented"
SLOTS = {"request": ("change", "text"), "paraphrase_request": ("text",)}
"""The slots of requests."""


@dataclass(frozen=True)
class Augmentation:
    """The settings of an augmentation.

    Attributes:
        inputs: the texts.
        name: of the texts.
        conditions: the filter of rewritings; it holds the axis and the two groups.
        request: to the model, with {change} and {text}.
        paraphrases: further templates of each text.
        paraphrase_request: to the model, with {text}.
        top_p: of paraphrases, which are sampled; rewritings are greedy.
        temperature: of paraphrases.
        batch_size: requests at a time.
        seed: of names and paraphrases.

    Raises:
        UserError: a request lacks a slot or has an unknown one; a number is out of range.
    """

    inputs: tuple[Input, ...]
    name: str
    conditions: Conditions
    request: str
    paraphrases: int
    paraphrase_request: str
    top_p: float
    temperature: float
    batch_size: int
    seed: int

    def __post_init__(self) -> None:
        for key, slots in SLOTS.items():
            check_slots(key, getattr(self, key), slots)
        for key, least in (("paraphrases", 0), ("batch_size", 1)):
            if getattr(self, key) < least:
                raise UserError(f"{key}={getattr(self, key)}: at least {least}")

    def check(self, model: LanguageModel | None) -> None:
        """Refuse paraphrases without a model.

        Raises:
            UserError: naming the setting.
        """
        if self.paraphrases and model is None:
            raise UserError(
                f"paraphrases={self.paraphrases} are asked of a model: name one, such as "
                "model=/path/to/an/instruct/model"
            )

    def run(self, model: LanguageModel | None, folder: RunFolder) -> None:
        """Make the pairs; a killed run continues with the requests that have no reply yet.

        Args:
            model: None substitutes words alone.
            folder: for pairs, refused texts, card and rows.

        Raises:
            UserError: the requests cost more than is allowed; the disk is full.
        """
        if folder.done(UNIT):
            return
        texts, paraphrases = [*self.inputs], list[Paraphrase]()
        if model is not None and self.paraphrases:
            texts, paraphrases = self._paraphrased(model, folder.path / REPLIES)
        cases = self._cases(texts, model, folder.path / REPLIES)
        substitution = self.conditions.substitution
        pairs = [_pair(case, substitution.groups) for case in cases if not case.reason]
        refused = [_refusal(r) for r in paraphrases if r.reason]
        refused += [_left_out(case) for case in cases if case.reason]
        _write(folder.path / PAIRS, pairs)
        _write(folder.path / REFUSED, refused)
        rows = augmented_rows(self.name, cases, paraphrases, substitution, self.seed)
        with whole(folder.path / CARD) as temporary:
            temporary.write_text(_card(self, rows, model), "utf-8")
        folder.record(UNIT, rows)

    def _paraphrased(
        self, model: LanguageModel, store: Path
    ) -> tuple[list[Input], list[Paraphrase]]:
        """Texts with their kept paraphrases; and every paraphrase."""
        distinct = dict.fromkeys(one.text for one in self.inputs)
        asked = [instructed(model, self.paraphrase_request.format(text=text)) for text in distinct]
        longest = self._longest(model, [*distinct])
        writing = Writing(longest, self.paraphrases, True, self.top_p, self.temperature)
        said = dict(zip(distinct, self._said(model, asked, writing, store), strict=True))
        paraphrases: dict[str, list[Paraphrase]] = {}
        for text in distinct:
            own = paraphrases.setdefault(text, [])
            for made in (reply(one, text) for one in said[text]):
                kept = [paraphrase.made for paraphrase in own if not paraphrase.reason]
                reason = self.conditions.reason_of_paraphrase(text, made, kept)
                own.append(Paraphrase(text, made, reason))
        every: list[Input] = []
        for one in self.inputs:
            texts = [one.text, *(r.made for r in paraphrases[one.text] if not r.reason)]
            content = one.content or one.text
            every += [replace(one, text=text, content=content) for text in texts]
        return every, [r for own in paraphrases.values() for r in own]

    def _cases(
        self, texts: Sequence[Input], model: LanguageModel | None, store: Path
    ) -> list[Case]:
        """The case of each text."""
        substitution = self.conditions.substitution
        distinct = dict.fromkeys(one.text for one in texts)
        found = {text: changes(text, substitution, self.seed) for text in distinct}
        every = [change for own in found.values() for change in own]
        made = dict(zip(every, self._made(every, model, store), strict=True))
        cases, seen = [], set()
        for one in texts:
            attempts = [
                Attempt(change, made[change], self.conditions.reason(change, made[change]))
                for change in found[one.text]
            ]
            if (one.text, one.outputs) in seen:
                cases.append(Case(one, own_reason=TWICE))
            else:
                cases.append(Case(one, tuple(attempts), None if attempts else NO_GROUP))
            seen.add((one.text, one.outputs))
        return cases

    def _made(self, every: Sequence[Change], model: LanguageModel | None, store: Path) -> list[str]:
        """Each changed text: by the rules, or by the model."""
        if model is None or not every:
            return [change.by_rules for change in every]
        substitution = self.conditions.substitution
        asked = [
            instructed(
                model,
                self.request.format(change=change.in_words(substitution), text=change.text),
            )
            for change in every
        ]
        writing = Writing(self._longest(model, [change.text for change in every]))
        said = self._said(model, asked, writing, store)
        return [reply(text, change.text) for change, [text] in zip(every, said, strict=True)]

    def _said(
        self, model: LanguageModel, asked: Sequence[str], writing: Writing, store: Path
    ) -> list[list[str]]:
        requests = Requests(asked, writing, store, self.batch_size, self.seed)
        about = "Paraphrase" if writing.do_sample else "Rewriting"
        if costs := model.estimate([requests.asked()], self.seed):
            announce(f"{about}: {costs}")
        return requests.replies(model, about)

    def _longest(self, model: LanguageModel, texts: Sequence[str]) -> int:
        """Most tokens of a reply: those of the longest text and a quarter more."""
        longest = max(lengths(model, texts))
        return longest + longest // 4 + 8


def check_slots(key: str, request: str, slots: Sequence[str]) -> None:
    """Refuse a request that cannot be filled.

    >>> check_slots("request", "Turn {change}: {text}", ["change", "text"])
    >>> check_slots("request", "Change it", ["text"])
    Traceback (most recent call last):
        ...
    countergen_edit.core.errors.UserError: request='Change it': it needs {text}, no other slot
    """
    try:
        found = {name for _, name, _, _ in Formatter().parse(request) if name is not None}
    except ValueError:  # a brace that is not closed
        found = set()
    if found != set(slots):
        each = ", ".join(f"{{{slot}}}" for slot in slots)
        raise UserError(f"{key}={request!r}: it needs {each}, no other slot")


def _pair(case: Case, groups: tuple[str, str]) -> dict[str, Any]:
    """A line of CounterGen's format, which `source: jsonl` reads."""
    line: dict[str, Any] = {
        "input": case.input.text,
        "outputs": [*case.input.outputs],
        "variations": [
            {"text": text, "categories": [group]} for group, text in case.variations(groups).items()
        ],
    }
    return line | ({"content": case.input.content} if case.input.content else {})


def _left_out(case: Case) -> dict[str, Any]:
    """The line of a refused text."""
    line = {"input": case.input.text, "reason": case.reason}
    failed = next((attempt for attempt in case.attempts if attempt.reason), None)
    return line | ({"to": failed.change.target, "made": failed.made} if failed else {})


def _refusal(paraphrase: Paraphrase) -> dict[str, Any]:
    return {"input": paraphrase.text, "reason": paraphrase.reason, "paraphrase": paraphrase.made}


def _write(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    with whole(path) as temporary:
        temporary.write_text(text, "utf-8")


def _card(plan: Augmentation, rows: Sequence[Row], model: LanguageModel | None) -> str:
    """The card of the pairs, in Markdown."""
    conditions, substitution = plan.conditions, plan.conditions.substitution
    a, b = substitution.groups
    what = "neutral words" if conditions.compared == "neutral" else conditions.compared
    facts = {
        "Texts": f"{plan.name}, {len(plan.inputs)}, SHA-256 {digest([*map(asdict, plan.inputs)])}",
        "Axis": f"{substitution.axis.name}, {a} and {b}",
        "Seed": str(plan.seed),
        "Made by": f"countergen-edit {countergen_edit.__version__}",
        "Rewritten by": "word substitution, no model",
        "Filter": f"FairPair's start, source name and dissimilarity (of {what}, at most "
        f"{conditions.max_dissimilarity:g}); the drawn name is there, no word of the other "
        "group is left, and one of its own is there",
    }
    if model is not None:
        facts["Rewritten by"] = f"{model.name}, SHA-256 {model.fingerprint}, likeliest tokens"
        facts["Request"] = json.dumps(plan.request, ensure_ascii=False)
    if plan.paraphrases:
        facts["Paraphrases"] = (
            f"{plan.paraphrases} of each text, sampled: top_p {plan.top_p:g}, temperature "
            f"{plan.temperature:g}"
        )
        facts["Request of them"] = json.dumps(plan.paraphrase_request, ensure_ascii=False)
    counts = [f"| {said_of(r)} | {r.n} | {r.detail['kept']} | {reasons_of(r)} |" for r in rows]
    lines = [
        f"# Counterfactual pairs: {a} and {b}",
        "",
        "Each line of `pairs.jsonl` holds a text, its outputs, and the text as either group would "
        "have it; a group that a text shows alone has it as it was. `refused.jsonl` holds what was "
        "left out, and why.",
        "",
        *(f"- {key}: {value}" for key, value in facts.items()),
        "",
        "| of | number | kept | left out |",
        "|---|---|---|---|",
        *counts,
    ]
    return "\n".join([*lines, ""])
