"""Scores of single texts, kept in a run for whoever wants to look at them or pair two runs.

Comes in: the scores of a set under an edit. Goes out: JSON lines, one a sample, with its texts, the
log-probability of every output after each of them, and R of every output; and the scores again.
Refused: a line that holds something else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.errors import UserError
from countergen_edit.metrics.scores import SetScores
from countergen_edit.writing import whole

SCORED_BY = "r"
"""The metric in whose store the scores lie, one file for each edit."""
KEYS = (
    "edit",
    "split",
    "dataset",
    "groups",
    "template",
    "outputs",
    "texts",
    "names",
    "r",
    "z",
    "log_p",
)
"""What every line holds."""


def write(
    path: Path,
    edit: str,
    sets: Sequence[tuple[str, SetScores, Sequence[float], Sequence[float] | None]],
) -> None:
    """Write the scores of an edit, whole or not at all.

    Args:
        path: the file of the edit.
        edit: its id.
        sets: split, scores, R and z of every item of each set; no z where no test is.
    """
    with whole(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for split, scores, r, z in sets:
            for line in _lines(scores, r, z):
                about = {"edit": edit, "split": split, **line}
                file.write(json.dumps(about, ensure_ascii=False, allow_nan=False) + "\n")


def _lines(
    scores: SetScores, r: Sequence[float], z: Sequence[float] | None
) -> Iterator[dict[str, Any]]:
    data, first = scores.data, 0
    for sample in data.samples:
        items = range(first, first + len(sample.outputs))
        first += len(sample.outputs)
        sides = [sample.of(group) for group in data.groups]
        log_p = [
            [scores.log_p[i, side, : len(own)].tolist() for side, own in enumerate(sides)]
            for i in items
        ]
        yield {
            "dataset": data.name,
            "axis": data.axis,
            "groups": list(data.groups),
            "template": sample.template,
            "outputs": list(sample.outputs),
            "texts": [[v.text for v in own] for own in sides],
            "names": [[v.name for v in own] for own in sides],
            "r": [float(r[i]) for i in items],
            "z": None if z is None else [float(z[i]) for i in items],
            "log_p": log_p,
        }


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a file.

    Raises:
        UserError: a line is not of this form; the message names it.
    """
    lines = []
    for number, line in enumerate(path.read_text("utf-8").split("\n"), start=1):
        if not line:
            continue
        try:
            content = json.loads(line)
            lacking = [key for key in KEYS if key not in content]
        except (ValueError, TypeError) as error:
            raise UserError(f"{path}, line {number} holds no scored text: {error}") from error
        if lacking:
            raise UserError(f"{path}, line {number} holds no scored text: it lacks {lacking[0]}")
        lines.append(content)
    return lines


def scores_of(lines: Sequence[Mapping[str, Any]]) -> SetScores:
    """The scores that lines of one set came from."""
    groups = (lines[0]["groups"][0], lines[0]["groups"][1])
    samples = []
    for line in lines:
        variations = tuple(
            Variation(group, text, name)
            for group, texts, names in zip(groups, line["texts"], line["names"], strict=True)
            for text, name in zip(texts, names, strict=True)
        )
        samples.append(Sample(line["template"], tuple(line["outputs"]), variations))
    data = CounterfactualSet(lines[0]["dataset"], lines[0]["axis"], groups, tuple(samples))
    items = [sides for line in lines for sides in line["log_p"]]
    widest = max(len(side) for sides in items for side in sides)
    log_p = np.full((len(items), 2, widest), -np.inf)
    present = np.zeros(log_p.shape, dtype=bool)
    for i, sides in enumerate(items):
        for side, values in enumerate(sides):
            log_p[i, side, : len(values)] = values
            present[i, side, : len(values)] = True
    index = {template: i for i, template in enumerate(data.templates)}
    template = [index[s.template] for s in samples for _ in s.outputs]
    output = tuple(o for s in samples for o in s.outputs)
    return SetScores(data, log_p, present, np.array(template), output)
