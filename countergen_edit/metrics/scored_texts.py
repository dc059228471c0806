"""Scores of single texts, kept in a run as JSON lines, one a sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import json_lines
from countergen_edit.core.typed import built
from countergen_edit.core.writing import write_json_lines
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.metrics.r.formula import r_values
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.scores import SetScores

SCORED_BY = "r"
"""The metric in whose store the scores lie, one file for each edit."""


@dataclass(frozen=True)
class ScoredText:
    """The keys of a line."""

    edit: str
    dataset: str
    axis: str
    groups: tuple[str, str]
    template: str
    outputs: list[str]
    texts: tuple[list[str], list[str]]
    names: tuple[list[str | None], list[str | None]]
    r: list[float]
    z: list[float] | None
    """None where no test is."""
    log_p: list[tuple[list[float], list[float]]]
    """Output by output, the log-probability after each text of either side."""


def write_scored_texts(path: Path, edit: str, effects: Sequence[GroupEffect]) -> None:
    """Write the scores of every set under an edit, whole or not at all."""
    write_json_lines(path, (line for effect in effects for line in _lines(edit, effect)))


def _lines(edit: str, effect: GroupEffect) -> Iterator[dict[str, Any]]:
    scores, data, z = effect.scores, effect.scores.data, effect.z
    r = r_values(scores)
    by_sample = np.split(np.arange(len(scores.output)), scores.first[1:])
    for sample, items in zip(data.samples, by_sample, strict=True):
        sides = [sample.of(group) for group in data.groups]
        yield {
            "edit": edit,
            "dataset": data.name,
            "axis": data.axis,
            "groups": list(data.groups),
            "template": sample.template,
            "outputs": list(sample.outputs),
            "texts": [[v.text for v in side] for side in sides],
            "names": [[v.name for v in side] for side in sides],
            "r": r[items].tolist(),
            "z": None if z is None else z[items].tolist(),
            "log_p": [
                [scores.log_p[i, s, : len(side)].tolist() for s, side in enumerate(sides)]
                for i in items
            ],
        }


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a file; `UserError` names a line of another form."""
    lines = []
    for where, content in json_lines(path):
        built(ScoredText, content, where)
        sizes = [len(side) for side in content["texts"]]
        by_item = [content[key] for key in ("outputs", "r", "log_p", "z")]
        items = {len(values) for values in by_item if values is not None}
        by_text = (content["names"], *content["log_p"])
        fit = all([len(side) for side in sides] == sizes for sides in by_text)
        if len(items) != 1 or 0 in (*sizes, *items) or not fit:
            raise UserError(f"{where}scores and texts do not go together: run the audit anew")
        lines.append(content)
    return lines


def scores_of(lines: Sequence[Mapping[str, Any]]) -> SetScores:
    """The scores that lines of one set came from."""
    groups: tuple[str, str] = tuple(lines[0]["groups"])
    samples = []
    for line in lines:
        variations = tuple(
            Variation(group, text, name)
            for group, texts, names in zip(groups, line["texts"], line["names"], strict=True)
            for text, name in zip(texts, names, strict=True)
        )
        samples.append(Sample(line["template"], tuple(line["outputs"]), variations))
    data = CounterfactualSet(lines[0]["dataset"], lines[0]["axis"], groups, tuple(samples))
    log_p = [x for line in lines for sides in line["log_p"] for side in sides for x in side]
    return SetScores.of(data, np.array(log_p, dtype=np.float64))
