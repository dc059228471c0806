"""The model card of a checkpoint, in the Hugging Face hub's format.

In: the run that measured the edit, and the edit's record. Out: the text of README.md, metadata
first. Nothing is computed here, and what was not measured is said to be so.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countergen_edit.checkpoints import Form, Parity
from countergen_edit.edits import EditRecord
from countergen_edit.metrics.base import METRICS, Metric, Quantity
from countergen_edit.metrics.blocks import Number
from countergen_edit.metrics.rows import UNEDITED, Row

if TYPE_CHECKING:
    from countergen_edit.reports.run import Run

TEMPLATE = "model_card.md.jinja"
SITES = {
    "resid_post": "the residual stream after a block",
    "attn_out": "the output of an attention layer",
    "mlp_out": "the output of an MLP",
    "embed": "the token embeddings",
}
MARKDOWN = str.maketrans({c: f"\\{c}" for c in "\\|*_<>[]`"})
"""What Markdown takes for something else."""


@dataclass(frozen=True)
class Line:
    """A figure before and after the edit, as the card shows it."""

    label: str
    before: str
    after: str
    random: str
    n: int


def model_card(run: Run, record: EditRecord, form: Form, parity: Parity) -> str:
    """The text of a checkpoint's README.md.

    Args:
        run: what measured the edit.
        record: of the edit that was saved.
        form: how it was saved.
        parity: how the saved model compares with the edited one in memory.
    """
    from huggingface_hub import ModelCard
    from jinja2 import Environment, StrictUndefined

    parts = run.by_task()
    run = parts.get(record.task) or next(iter(parts.values()))
    manifest, config = run.manifest, run.config
    base = str(manifest.get("model") or "model")
    quantities = [q for q in run.quantities() if record.id in q.rows]
    fitted = [q for q in run.quantities("fit") if record.id in q.rows]
    first = _first(run)
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["markdown"] = markdown
    template = environment.from_string((files(__package__) / TEMPLATE).read_text("utf-8"))
    body = template.render(
        title=f"{Path(base).name}, edited",
        base=base if _on_hub(base) else Path(base).name,
        origin=manifest.get("model_origin"),
        groups=(first.group_a, first.group_b),
        axis=first.axis,
        record=record,
        parameters=parameters(record),
        places=_places(record),
        limits=[f"{p.limit:.4g}" for p in record.places if p.limit is not None],
        form=form,
        fitted=sorted({r.dataset for r in run.results.rows if r.split == "fit" and r.dataset}),
        kept=_names(config["data"].get("keep") or ()) if config.get("data") else None,
        positions=(config.get("edit") or config).get("positions", "–"),
        sentences=_sentences(run, record),
        tables=[
            ("Bias, before and after", _lines(run, record, quantities, "bias")),
            ("On the data the eraser was fitted on", _lines(run, record, fitted, "bias")),
            ("What it cost", _lines(run, record, quantities, "cost")),
            ("What else was measured", _lines(run, record, quantities, "other")),
        ],
        unmeasured=[_described(name) for name in METRICS if not _has_rows(run, name, record)],
        parity=parity,
        versions=manifest.get("versions", {}),
        python=manifest.get("python", "–"),
        seed=manifest.get("seed", "–"),
        hashes={
            name: manifest[key]
            for name, key in (
                ("run", "fingerprint"),
                ("model", "model_hash"),
                ("data", "data_hash"),
                ("code", "source_hash"),
            )
            if key in manifest
        },
        commit=manifest.get("git_commit"),
        command=shlex.join(map(str, manifest.get("command", []))),
    )
    metadata = _metadata(quantities, record, base, first.axis)
    return str(ModelCard(f"---\n{metadata.to_yaml()}\n---\n{body}"))


def markdown(text: str) -> str:
    """Text that Markdown shows as it stands.

    >>> markdown("mean |R| of a_b")
    'mean \\\\|R\\\\| of a\\\\_b'
    """
    return " ".join(str(text).split()).translate(MARKDOWN)


def _metadata(quantities: Sequence[Quantity], record: EditRecord, base: str, axis: str) -> Any:
    from huggingface_hub import EvalResult, ModelCardData

    evaluations = []
    for quantity in quantities:
        before, after = quantity.rows.get(UNEDITED), quantity.rows[record.id]
        if quantity.kind == "other" or after.value is None:
            continue
        evaluations.append(
            EvalResult(
                task_type="text-generation",
                dataset_type=after.dataset or after.metric,
                dataset_name=after.dataset.replace("_", " ") or after.metric,
                dataset_split=after.split,
                metric_type=after.metric,
                metric_name=quantity.title,
                metric_value=after.value,
                metric_args={
                    "unedited": None if before is None else before.value,
                    "low": after.lo,
                    "high": after.hi,
                },
            )
        )
    return ModelCardData(
        library_name="transformers",
        pipeline_tag="text-generation",
        base_model=base if _on_hub(base) else None,
        tags=["countergen-edit", "bias", "concept-erasure", *([axis] if axis else [])],
        model_name=f"{Path(base).name}, edited",
        eval_results=evaluations or None,
    )


def _on_hub(base: str) -> bool:
    """Whether the name may be linked: not a directory, whose place is nobody's business either."""
    return base.count("/") == 1 and not base.startswith((".", "/", "~")) and not Path(base).exists()


def _first(run: Run) -> Row:
    """A row that says who is compared."""
    rows = run.results.rows
    return next((r for r in rows if r.group_a and r.group_b), rows[0])


def _lines(run: Run, record: EditRecord, quantities: Sequence[Quantity], kind: str) -> list[Line]:
    control = run.results.baseline_of(record)
    lines = []
    for quantity in quantities:
        if quantity.kind != kind:
            continue
        edits = (UNEDITED, record.id, "" if control is None else control.id)
        before, after, random = (_figure(quantity, quantity.rows.get(edit)) for edit in edits)
        n = quantity.rows[record.id].n
        lines.append(Line(quantity.title, before, after, random, n))
    return lines


def _figure(quantity: Quantity, row: Row | None) -> str:
    cell = Number.of(row, quantity.digits, percent=quantity.percent, signed=quantity.signed)
    return f"{cell.text} ({cell.interval})" if cell.interval else cell.text


def _sentences(run: Run, record: EditRecord) -> list[str]:
    """What the bias metrics say of the edit, and how sure they are."""
    control = run.results.baseline_of(record)
    ids = [UNEDITED, record.id, *([control.id] if control else [])]
    results = run.results.only(edits=ids)
    sentences: list[str] = []
    for metric in run.metrics:
        if metric.kind == "bias":
            sentences += [*metric.sentences(results), metric.outcome(results, record)]
    for metric in run.metrics:
        sentences += metric.caveats(results)
    return [sentence for sentence in dict.fromkeys(sentences) if sentence]


def _has_rows(run: Run, name: str, record: EditRecord) -> bool:
    """Whether a metric has figures of the edit, or shows what was recorded when it was fitted."""
    metric, results = METRICS.get(name), run.results
    quantities = [q for s in ("test", "fit") for q in metric.quantities(results, s)]
    figures = any(record.id in q.rows for q in quantities)
    shown = metric in run.metrics and not quantities  # another run's own file may need its rows
    return figures or (shown and bool(metric.sections(results)))


def _described(name: str) -> str:
    """What a metric would have measured, by the first sentence of its own words."""
    metric: type[Metric] = METRICS.get(name)
    return f"`{name}`: {(inspect.getdoc(metric) or '').splitlines()[0]}"


def parameters(record: EditRecord) -> dict[str, Any]:
    """The parameters of an edit's eraser, or of its parts' erasers, that are not defaults."""
    if record.params or not record.parts:
        return dict(record.params)
    return {part.label: parameters(part) for part in record.parts if parameters(part)}


def _places(record: EditRecord) -> list[str]:
    return [
        SITES.get(p.site, p.site) + ("" if p.layer is None else f", layer {p.layer}")
        for p in record.places
    ]


def _names(entries: Sequence[Any]) -> list[str]:
    return [
        e if isinstance(e, str) else " ".join(str(v) for v in e.values()).replace("_", " ")
        for e in entries
    ]
