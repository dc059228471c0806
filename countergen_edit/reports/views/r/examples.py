"""Single prompts and outputs of R."""

from __future__ import annotations

from typing import Any

from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, dataset_label
from countergen_edit.metrics.scored_texts import SCORED_BY, read
from countergen_edit.reports.blocks import Number, Section
from countergen_edit.reports.views.base import Record, as_section, as_table

MOST = 1200
"""Lines of the table of texts."""
Text = tuple[str, ...]
"""A set, a template, an output and both groups."""


def examples(results: Results) -> list[Section]:
    """R of every output after every prompt, without and with each shown edit."""
    edits = [UNEDITED, *(edit.id for edit in results.shown)]
    by_edit: dict[str, dict[Text, float]] = {}
    z: dict[Text, float] = {}
    about: dict[Text, dict[str, Any]] = {}
    for edit, path in results.stored(SCORED_BY):
        for line in read(path) if edit in edits else ():
            for i, output in enumerate(line["outputs"]):
                key = line["dataset"], line["template"], output, *line["groups"]
                by_edit.setdefault(edit, {})[key] = line["r"][i]
                about.setdefault(key, line)
                if edit == UNEDITED and line["z"] is not None:
                    z[key] = line["z"][i]
    if not about:
        return []
    pairs = {tuple(line["groups"]) for line in about.values()}
    groups = pairs.pop() if len(pairs) == 1 else ("the first of two groups", "the second")
    records: list[Record] = [
        {
            "set": dataset_label(line["dataset"]),
            **{group: texts[0] for group, texts in zip(groups, line["texts"], strict=True)},
            "output": key[2].strip(),
            "z": Number(z.get(key), digits=1, signed=True),
            **{
                f"R, {results.label(edit)}": Number(by_edit[edit].get(key), signed=True)
                for edit in edits
                if edit in by_edit
            },
        }
        for key, line in list(about.items())[:MOST]
    ]
    note = (
        f"R is above 0 where the output is likelier after the prompt about {groups[0]}. It is over "
        "all names of a prompt, of which the first is shown. z is the difference of the groups' "
        f"mean log-probabilities, {results.label(UNEDITED)}, in standard errors over names."
    )
    if len(about) > MOST:
        note += f" The first of {len(about)}; the run's store has all."
    texts = as_table("scored_texts", "Prompts and outputs", records, note, searchable=True)
    return as_section("examples", "Examples", texts)
