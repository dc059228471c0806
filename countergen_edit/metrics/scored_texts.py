"""Scores of single texts, kept in a run as JSON lines, one a sample."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, get_type_hints

import numpy as np

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import json_lines
from countergen_edit.core.typed import require
from countergen_edit.core.writing import whole
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.metrics.scores import SetScores

SCORED_BY = "r"
"""The metric in whose store the scores lie, one file for each edit."""


class ScoredText(TypedDict):
    """The keys of a line."""

    edit: str
    split: str
    dataset: str
    axis: str
    groups: tuple[str, str]
    template: str
    outputs: list[str]
    texts: tuple[list[str], list[str]]
    names: tuple[list[str | None], list[str | None]]
    r: list[float]
    z: list[float] | None
    log_p: list[tuple[list[float], list[float]]]
    """Output by output, the log-probability after each text of either side."""


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
    for where, content in json_lines(path):
        for key, hint in get_type_hints(ScoredText).items():
            if key not in content:
                raise UserError(f"{where}no scored text: it lacks {key}")
            require(hint, content[key], f"{where}{key}")
        sizes = [len(side) for side in content["texts"]]
        items = [
            len(content[key]) for key in ("outputs", "r", "z", "log_p") if content[key] is not None
        ]
        beside = (content["names"], *content["log_p"])
        of_items = [[len(side) for side in sides] for sides in beside]
        if len(set(items)) != 1 or 0 in (*sizes, *items) or any(own != sizes for own in of_items):
            raise UserError(f"{where}scores and texts do not go together: run the audit anew")
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
