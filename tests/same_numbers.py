"""Are the numbers of an old run those of a new one? Rows of schema 1 held against rows of schema 2.

    python tests/same_numbers.py OLD_RUN NEW_RUN

Every row of the old run is looked up in the new one by what it is about: metric, set, groups,
split, edit (as places and erasers) and facets. Value, interval, n and seed must be equal to the
last bit, and so must every detail that both have, but for the last digits of p-values, which
statsmodels adjusts now. Rows that only the new run has are counted.
Fields that changed shape: `edit` (a label before, an id now), `layer` (now `layers`), Φ, λ and
templates (within `dataset` before, in `facets` now), `unit`.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from countergen_edit.edits import EditRecord
from countergen_edit.experiments.run_folder import read_records

SEARCH = ("cost",)
"""Metrics whose detail changed shape: the harms have the names of their metrics now."""
EXACT = ("value", "lo", "hi", "n", "seed")
MOVED = {"lambda", "template", "wording", "model"}
"""Details that are facets now, or say where a model lies."""


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def old_edit(label: str) -> object:
    """What an old label says: erasers at places, and the rank in all."""
    if label == "none":
        return label
    places, rank = set(), 0
    for part in label.partition("/")[0].split(" + "):
        name, _, place = part.partition("@")
        eraser, _, count = name.rpartition("-")
        rank += int(count)
        site, _, layers = place.partition(".")
        places |= {(eraser, site, layer) for layer in layers.split("+")}
    return frozenset(places), rank


def new_edit(edit: str, records: dict[str, EditRecord]) -> object:
    if edit == "none":
        return edit
    if edit not in records:  # its fit failed
        return edit
    parts = records[edit].parts or (records[edit],)
    places = {
        (part.eraser, place.site, "" if place.layer is None else str(place.layer))
        for part in parts
        for place in part.places
    }
    return frozenset(places), records[edit].rank


def old_dataset(row: dict[str, Any]) -> str:
    """A new row's set as an old row called it."""
    facets = row["facets"]
    if "phi" in facets:
        return f"{row['dataset']}/{facets['phi']}"
    if "lambda" in facets and row["dataset"] == "cid":
        return f"{facets.get('template', 'cid')}, λ={facets['lambda']:g}"
    return str(row["dataset"])


def key(row: dict[str, Any], edit: object, dataset: str, wording: object) -> tuple[object, ...]:
    return (row["metric"], dataset, row["group_a"], row["group_b"], row["split"], edit, wording)


def different(old: Any, new: Any, where: str) -> list[str]:
    """Where two details differ, of what both have."""
    if isinstance(old, dict) and isinstance(new, dict):
        shared = [k for k in old if k in new and k not in MOVED]
        return [d for k in shared for d in different(old[k], new[k], f"{where}.{k}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [d for i, (a, b) in pairs for d in different(a, b, f"{where}[{i}]")]
    if where.endswith(".p") and math.isclose(old, new, rel_tol=1e-12):
        return []
    return [] if old == new else [f"{where}: {str(old)[:80]} is now {str(new)[:80]}"]


def compare(old_run: Path, new_run: Path) -> tuple[Counter[str], list[str]]:
    """Counts by metric of rows that are equal, and a line for each that is not."""
    records = read_records(new_run)
    new: dict[tuple[object, ...], dict[str, Any]] = {}
    for row in lines(new_run / "results.jsonl"):
        edit = new_edit(row["edit"], records)
        wording = row["facets"].get("wording", row["detail"].get("wording"))
        task = row["task"]
        new[(task, *key(row, edit, old_dataset(row), wording))] = row
    tasks = list(dict.fromkeys(str(k[0]) for k in new))
    equal: Counter[str] = Counter()
    faults = []
    for row in lines(old_run / "results.jsonl"):
        task = row["unit"].partition("/")[0] if len(tasks) > 1 else tasks[0]
        edit = old_edit(row["edit"])
        about = (task, *key(row, edit, row["dataset"], row["detail"].get("wording")))
        found = new.pop(about, None)
        if found is None:
            if row["metric"] != "error":
                faults.append(f"missing: {about}")
            continue
        wrong = [
            f"{field} {row[field]} is now {found[field]}"
            for field in EXACT
            if row[field] != found[field]
        ]
        if row["metric"] not in SEARCH:
            wrong += different(row["detail"], found["detail"], "detail")
        else:
            kept = ["removed", "removed_test", "cost_test", "front", "chosen"]
            if found["detail"]["removed_test"] is None:  # the search has seen no test data
                kept = [k for k in kept if not k.endswith("_test")]
            wrong += [
                f"detail.{k} {row['detail'][k]} is now {found['detail'][k]}"
                for k in kept
                if row["detail"][k] != found["detail"][k]
            ]
        if wrong:
            faults.append(f"{about}: {'; '.join(wrong)}")
        else:
            equal[row["metric"]] += 1
    equal["(only in the new run)"] = len(new)
    return equal, faults


if __name__ == "__main__":
    counts, found = compare(Path(sys.argv[1]), Path(sys.argv[2]))
    for metric, count in counts.items():
        print(f"{count:6} {metric}")
    for line in found[:40]:
        print(line)
    print(f"{len(found)} rows differ")
    sys.exit(bool(found))
