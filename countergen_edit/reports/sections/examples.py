"""Single texts: prompts with their outputs, and what the model wrote itself.

Comes in: the JSON lines that metrics left in a run's store. Nothing in them is trusted to be more
than text.
"""

from __future__ import annotations

from typing import Any

from countergen_edit.reports.blocks import Block, Cell, Number, Quote, Quotes, Section, Table
from countergen_edit.reports.figures.panels import dataset_label
from countergen_edit.reports.run import Lines, Run, json_lines
from countergen_edit.reports.sections.labels import UNEDITED, edit_label, shown

MOST = 1200
"""Lines of one table; the store holds them all."""
PER_PROMPT = 3
"""Continuations of one prompt, side and edit that are shown."""


def examples(run: Run) -> Section | None:
    """Texts that the figures are made of; nothing where the run kept none."""
    tables: list[Table | None] = [_scored(run), _continuations(run), _contrasted(run)]
    blocks: tuple[Block, ...] = tuple(table for table in tables if table is not None)
    return Section("examples", "Examples", blocks) if blocks else None


def _scored(run: Run) -> Table | None:
    """R of every output after every wording, without and with each edit."""
    edits = [UNEDITED, *(row.edit for row in shown(run.results))]
    by_edit: dict[str, dict[tuple[str, str, str], float]] = {}
    about: dict[tuple[str, str, str], dict[str, Any]] = {}
    for path in run.store("r"):
        for line in json_lines(path):
            if line.get("edit") not in edits:
                break
            found = by_edit.setdefault(line["edit"], {})
            for output, r in zip(line["outputs"], line["r"], strict=True):
                key = line["dataset"], line["template"], output
                found[key] = r
                about.setdefault(key, line)
    kept = [edit for edit in edits if edit in by_edit]
    if not kept:
        return None
    groups = next(iter(about.values()))["groups"]
    lines: list[tuple[Cell, ...]] = []
    for key, line in list(about.items())[:MOST]:
        dataset, _, output = key
        label = dataset_label(dataset) + (" (fitted)" if line["split"] == "fit" else "")
        cells = [Number(by_edit[edit].get(key), signed=True) for edit in kept]
        lines.append((label, *(side[0] for side in line["texts"]), output.strip(), *cells))
    return Table(
        "scored_texts",
        "Prompts and outputs",
        ("set", *groups, "output", *(f"R, {edit_label(edit)}" for edit in kept)),
        tuple(lines),
        _cut(
            len(about),
            f"R is above 0 where the output is likelier after the prompt about {groups[0]}. Of a "
            "prompt's names the first is shown; R averages over all of them.",
        ),
        searchable=True,
    )


def _continuations(run: Run) -> Table | None:
    """FairPair's continuations of x and of p(x)."""
    lines: list[tuple[Cell, ...]] = []
    found = 0
    for path in run.store("fairpair"):
        if path.name.endswith(".perturbed.jsonl"):
            continue
        about, *rest = json_lines(path) or [{}]
        if "prompt" not in about:
            continue
        perturbed: Lines = []
        if (beside := path.with_name(f"{path.stem}.perturbed.jsonl")).is_file():
            perturbed = json_lines(beside)
        found += len(rest)
        for i, text in enumerate(rest[:PER_PROMPT]):
            own = Quotes((Quote(str(about["prompt"])), Quote(str(text.get("g_x", "")))))
            other = Quotes(
                (Quote(str(about["perturbed_prompt"])), Quote(str(text.get("g_px", ""))))
            )
            changed = str(perturbed[i].get("p_x", "")) if i < len(perturbed) else ""
            lines.append((edit_label(path.parent.name), own, changed, other))
    if not lines:
        return None
    return Table(
        "continuations",
        "Continuations that the model sampled",
        ("edit", "prompt x, its continuation", "both, perturbed", "prompt p(x), its continuation"),
        tuple(lines[:MOST]),
        _cut(found, f"Of every prompt the first {PER_PROMPT}."),
        searchable=True,
    )


def _contrasted(run: Run) -> Table | None:
    """CID's continuations, one by one."""
    lines: list[tuple[Cell, ...]] = []
    for path in run.store("cid"):
        for item in json_lines(path):
            if "template" not in item or "text" not in item:
                break
            lines.append(
                (
                    edit_label(path.stem),
                    str(item["template"]),
                    str(item.get("own", "")),
                    str(item.get("other", "")),
                    Number(item.get("strength"), digits=0),
                    str(item["text"]),
                    Number(item.get("divergence"), digits=4),
                )
            )
    if not lines:
        return None
    titles = ("edit", "template", "about", "against", "λ", "continuation", "divergence")
    note = _cut(len(lines), "Divergence is Jensen–Shannon, in nats a token.")
    return Table(
        "contrasted",
        "Contrastive continuations",
        titles,
        tuple(lines[:MOST]),
        note,
        searchable=True,
    )


def _cut(count: int, note: str) -> str:
    return note if count <= MOST else f"{note} The first of {count}; the run's store holds all."
