"""The model card of a checkpoint, in the Hugging Face hub's format.

In: the run that measured the edit, and the edit's record. Out: the text of README.md, metadata
first. Nothing is computed here, and what was not measured is said to be so.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countergen_edit.edits import EditRecord
from countergen_edit.edits.checkpoints import Form, Parity, edits_in_record
from countergen_edit.metrics.base import METRICS, Metric
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Number
from countergen_edit.reports.findings import advice, of_quick_try, warnings
from countergen_edit.reports.provenance import in_template
from countergen_edit.reports.views.base import Quantity, view_of
from countergen_edit.runs.ran import in_words

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


@dataclass(frozen=True)
class Concept:
    """What is erased of one axis, as the card shows it."""

    axis: str
    groups: tuple[str, str]
    of_how_many: str
    """How many of the axis's groups are compared, if not all."""
    erasers: list[str]
    """An entry for each edit: the eraser, its parameters, its rank."""
    places: list[str]
    limits: list[str]
    fitted: list[str]
    kept: list[str] | None


def model_card(
    run: Run,
    record: EditRecord,
    form: Form,
    parity: Parity,
    earlier: Sequence[Mapping[str, Any]] = (),
) -> str:
    """The text of a checkpoint's README.md.

    Args:
        run: what measured the edit.
        record: of the edit that was saved.
        form: how it was saved.
        parity: how the saved model compares with the edited one in memory.
        earlier: edits that the model's weights had taken in before.
    """
    from huggingface_hub import ModelCard
    from jinja2 import Environment, StrictUndefined

    by_task = run.by_task()
    of_axis = of_axes(record)
    parts = {task: by_task[task] for task in of_axis if task in by_task}
    if not parts:
        parts = dict([next(iter(by_task.items()))])
    manifest, config = run.manifest, run.config
    base = str(manifest.get("model") or "model")
    concepts = [_concept(part, of_axis.get(task, [record])) for task, part in parts.items()]
    quantities = [q for part in parts.values() for q in part.quantities() if record.id in q.rows]
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["markdown"] = markdown
    template = environment.from_string((files(__package__) / TEMPLATE).read_text("utf-8"))
    body = template.render(
        title=f"{Path(base).name}, edited",
        base=base if _on_hub(base) else Path(base).name,
        origin=manifest.get("model_origin"),
        conversation=in_template(manifest),
        concepts=concepts,
        earlier=[
            *earlier,
            *(e for e in edits_in_record(record) if parts.keys().isdisjoint([e["axis"]])),
        ]
        if len(of_axis) > 1
        else earlier,
        form=form,
        positions=(config.get("edit") or config).get("positions", "–"),
        sentences=of_quick_try(run)
        + [s for part in parts.values() for s in _sentences(part, record)]
        + warnings(run),
        tables=[
            (f"{heading}: {axis}" if len(parts) > 1 else heading, lines)
            for axis, part in parts.items()
            for heading, lines in _tables(part, record)
        ],
        unmeasured=[
            _described(name)
            for name in METRICS
            if METRICS.get(name).is_selectable
            and not any(_has_rows(part, name, record) for part in parts.values())
        ],
        parity=parity,
        versions=manifest.get("versions", {}),
        python=manifest.get("python", "–"),
        seed=manifest.get("seed", "–"),
        ran=in_words(manifest),
        hashes={
            name: manifest[key]
            for name, key in (
                ("run", "fingerprint"),
                ("model", "model_hash"),
                ("data", "data_hash"),
                ("code", "source_hash"),
            )
            if key in manifest
        }
        | ({"chat template": told_in["sha256"]} if (told_in := manifest.get("template")) else {}),
        commit=manifest.get("git_commit"),
        command=shlex.join(map(str, manifest.get("command", []))),
    )
    axes = [*(str(edit["axis"]) for edit in earlier), *(concept.axis for concept in concepts)]
    metadata = _metadata(quantities, record, base, list(dict.fromkeys(filter(None, axes))))
    return str(ModelCard(f"---\n{metadata.to_yaml()}\n---\n{body}"))


def markdown(text: str) -> str:
    """Text that Markdown shows as it stands.

    >>> markdown("mean |R| of a_b")
    'mean \\\\|R\\\\| of a\\\\_b'
    """
    return " ".join(str(text).split()).translate(MARKDOWN)


def of_axes(record: EditRecord) -> dict[str, list[EditRecord]]:
    """The edits of each task, in their order."""
    of_axis: dict[str, list[EditRecord]] = {}
    for part in record.parts or (record,):
        of_axis.setdefault(part.task, []).append(part)
    return {record.task: [record]} if len(of_axis) == 1 else of_axis


def _concept(run: Run, edits: Sequence[EditRecord]) -> Concept:
    """What is erased of the axis of a run of one task."""
    first, own = _first(run), [row for row in run.results.rows if row.split == "fit"]
    kept = run.manifest.get("kept")
    return Concept(
        first.axis,
        (first.group_a, first.group_b),
        run.manifest.get("compared", {}).get(first.task, "").partition(";")[0],
        [_called(edit) for edit in edits],
        [place for edit in edits for place in _places(edit)],
        [f"{p.limit:.4g}" for edit in edits for p in edit.places if p.limit is not None],
        sorted({row.dataset for row in own if row.dataset}),
        None if kept is None else sorted({*kept.get(first.task, ())}),
    )


def _called(edit: EditRecord) -> str:
    """An eraser with its parameters and its rank."""
    given = ", ".join(f"{key}={value}" for key, value in parameters(edit).items())
    about = f"{edit.eraser} ({given})" if given else edit.eraser
    return f"{about}, {edit.rank} dimension{'s' if edit.rank != 1 else ''}"


def _tables(run: Run, record: EditRecord) -> list[tuple[str, list[Line]]]:
    tested, fitted = (
        [q for q in run.quantities(split) if record.id in q.rows] for split in ("test", "fit")
    )
    return [
        ("Bias, before and after", _lines(run, record, tested, "bias")),
        ("On the data the eraser was fitted on", _lines(run, record, fitted, "bias")),
        ("What it cost", _lines(run, record, tested, "cost")),
        ("What else was measured", _lines(run, record, tested, "other")),
    ]


def _metadata(
    quantities: Sequence[Quantity], record: EditRecord, base: str, axes: Sequence[str]
) -> Any:
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
        tags=["countergen-edit", "bias", "concept-erasure", *axes],
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
    sentences = advice(results)
    for view in run.views:
        if view.kind == "bias":
            sentences += [*view.sentences(results), view.outcome(results, record)]
    for view in run.views:
        sentences += view.caveats(results)
    return [sentence for sentence in dict.fromkeys(sentences) if sentence]


def _has_rows(run: Run, name: str, record: EditRecord) -> bool:
    """Whether a metric has figures of the edit, or of its fit."""
    view, results = view_of(METRICS.get(name), name), run.results
    quantities = [q for s in ("test", "fit") for q in view.quantities(results, s)]
    figures = any(record.id in q.rows for q in quantities)
    return figures or (not quantities and bool(view.sections(results)))


def _described(name: str) -> str:
    """The title of a metric, and the first line of its docstring."""
    metric: type[Metric] = METRICS.get(name)
    return f"{metric.title or name}: {(inspect.getdoc(metric) or '').splitlines()[0]}"


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
