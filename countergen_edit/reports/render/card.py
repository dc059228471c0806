"""The model card of a checkpoint, in the Hugging Face hub's format.

In: the rows of the run that measured the edit, and the record of its making. Out: the text of
README.md, metadata first. Nothing is computed here, and what was not measured is said to be so.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from countergen_edit.checkpoints import Form, Parity
from countergen_edit.edits import Edit
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.results import Results
from countergen_edit.reports.table import number, percent

TEMPLATE = "model_card.md.jinja"
COSTS = {
    "agreement": "Agreement, P(right form)",
    "perplexity": "Perplexity of neutral text",
    "kl": "KL from the original, nats per token",
}
"""What an edit costs, by metric."""
OPTIONAL = {
    "reduction_holding": "whether the conclusion holds on other wordings (`metric=[r,templates]`)",
    "fairpair": "whole generated texts (`metric=[r,fairpair]`)",
    "cid": "contrastive decoding (`metric=[r,cid]`)",
}
"""Beginnings of metrics that a run may have, and what is unknown without them."""
SITES = {
    "resid_post": "the residual stream after a block",
    "attn_out": "the output of an attention layer",
    "mlp_out": "the output of an MLP",
    "embed": "the token embeddings",
}


@dataclass(frozen=True)
class Line:
    """A figure before and after the edit, as the card shows it."""

    label: str
    before: str
    after: str
    random: str
    n: int


def model_card(
    results: Results, edit: Edit, record: Mapping[str, Any], form: Form, parity: Parity
) -> str:
    """The text of a checkpoint's README.md.

    Args:
        results: rows of the run that measured the edit.
        edit: what was saved.
        record: the run's manifest with `edit`, `eraser` and `config`.
        form: how the edit was saved.
        parity: how the saved model compares with the edited one in memory.
    """
    from huggingface_hub import ModelCard
    from jinja2 import Environment, StrictUndefined

    name = record["edit"]
    base = str(record["model"])
    bias = [r for r in results.of("mean_abs_r") if r.edit == "none"]
    rank = edit.rank
    random = next((r.edit for r in results.edits if r.is_baseline), None)
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((files(__package__) / TEMPLATE).read_text("utf-8"))
    first = bias[0]
    body = template.render(
        title=f"{Path(base).name}, edited",
        base=base if _on_hub(base) else Path(base).name,
        groups=(first.group_a, first.group_b),
        axis=first.axis,
        eraser=record["eraser"],
        parameters=record["parameters"],
        rank=rank,
        places=_places(edit),
        form=form,
        fitted=sorted({r.dataset for r in results.of("mean_abs_r", "fit")}),
        kept=_names(record["config"]["data"]["keep"]),
        positions=record["positions"],
        headline=_headline(results, first, name),
        bias=[_line(results, r, name, random, _label(r)) for r in bias],
        fit_bias=[
            _line(results, r, name, random, _label(r))
            for r in results.of("mean_abs_r", "fit")
            if r.edit == "none"
        ],
        costs=[
            _line(results, r, name, random, _cost_label(r))
            for metric in COSTS
            for r in results.of(metric)
            if r.edit == "none"
        ],
        wordings=[
            f"{_label(r)}: {number(r.value, 0)} of {r.n} wordings"
            for r in results.of("reduction_holding")
            if r.edit == name
        ],
        prompts=[(_label(r), r.detail.get("templates"), r.n) for r in bias],
        unmeasured=[
            text
            for metric, text in OPTIONAL.items()
            if not any(r.metric.startswith(metric) and r.edit == name for r in results.rows)
        ],
        parity=parity,
        versions=record["versions"],
        python=record["python"],
        seed=record["seed"],
        hashes={
            "run": record["fingerprint"],
            "model": record["model_hash"],
            "data": record["data_hash"],
            "code": record["source_hash"],
        },
        commit=record["git_commit"],
        command=shlex.join(record["command"]),
    )
    card = ModelCard(f"---\n{_metadata(results, bias, name, base, first).to_yaml()}\n---\n{body}")
    return str(card)


def _metadata(results: Results, bias: Sequence[Row], name: str, base: str, first: Row) -> Any:
    from huggingface_hub import EvalResult, ModelCardData

    shown = [(r, "mean_abs_r", "mean \\|R\\|") for r in bias]
    shown += [
        (r, metric, label)
        for metric, label in COSTS.items()
        for r in results.of(metric)
        if r.edit == "none" and (metric != "agreement" or r.group_b)
    ]
    evaluations = []
    for row, metric, label in shown:
        after = _under(results, row, name)
        if after is None or after.value is None:
            continue
        evaluations.append(
            EvalResult(
                task_type="text-generation",
                dataset_type=row.dataset,
                dataset_name=_label(row),
                dataset_split=row.split,
                metric_type=metric,
                metric_name=label.replace("\\", ""),
                metric_value=after.value,
                metric_args={"unedited": row.value, "low": after.lo, "high": after.hi},
            )
        )
    return ModelCardData(
        library_name="transformers",
        pipeline_tag="text-generation",
        base_model=base if _on_hub(base) else None,
        tags=["countergen-edit", "bias", "concept-erasure", first.axis],
        model_name=f"{Path(base).name}, edited",
        eval_results=evaluations,
    )


def _on_hub(base: str) -> bool:
    """Whether the name may be linked: not a directory, whose place is nobody's business either."""
    return base.count("/") == 1 and not base.startswith((".", "/", "~")) and not Path(base).exists()


def _under(results: Results, row: Row, edit: str | None) -> Row | None:
    if edit is None:
        return None
    return results.find(
        row.metric,
        dataset=row.dataset,
        group_a=row.group_a,
        group_b=row.group_b,
        edit=edit,
        split=row.split,
    )


def _line(results: Results, row: Row, edit: str, random: str | None, label: str) -> Line:
    after, other = _under(results, row, edit), _under(results, row, random)
    return Line(label, _figure(row), _figure(after), _figure(other), row.n)


def _figure(row: Row | None) -> str:
    if row is None:
        return "–"
    value, lo, hi = (number(v, 4 if row.metric == "kl" else 3) for v in (row.value, row.lo, row.hi))
    return value if row.lo is None or row.hi is None else f"{value} ({lo} to {hi})"


def _headline(results: Results, row: Row, edit: str) -> str:
    after = _under(results, row, edit)
    groups = f"{row.group_a} and {row.group_b}"
    if after is None:
        return ""
    return (
        f"On {_label(row)}, swapping {groups} changed the probability of a continuation by "
        f"{percent(row.value)} on average before the edit, and by {percent(after.value)} after it "
        f"(mean \\|R\\| {_figure(row)} → {_figure(after)})."
    )


def _label(row: Row) -> str:
    return row.dataset.removesuffix(f"_{row.split}").replace("_", " ")


def _cost_label(row: Row) -> str:
    who = "" if row.metric != "agreement" else f", {row.group_a}" if not row.group_b else ", both"
    return COSTS[row.metric] + who


def _places(edit: Edit) -> list[str]:
    return [
        SITES[p.site] + ("" if p.layer is None else f", layer {p.layer}") for p in edit.placements
    ]


def _names(entries: Sequence[Any]) -> list[str]:
    return [
        e if isinstance(e, str) else " ".join(str(v) for v in e.values()).replace("_", " ")
        for e in entries
    ]
