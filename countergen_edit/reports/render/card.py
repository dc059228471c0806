"""The model card of a checkpoint, in the format of the Hugging Face hub."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countergen_edit.edits import WEIGHTS, EditRecord
from countergen_edit.edits.checkpoints import Form, Parity, edits_in_record
from countergen_edit.metrics.base import METRICS
from countergen_edit.metrics.rows import UNEDITED
from countergen_edit.models.capture import EVERYWHERE
from countergen_edit.reports.findings import advice, cautions
from countergen_edit.runs.ran import in_words

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

    from countergen_edit.reports.run import Run

SITES = {
    WEIGHTS: "the weights of attention and MLP",
    EVERYWHERE: "every point of the residual stream, as fitted after a block",
    "resid_post": "the residual stream after a block",
    "attn_out": "the output of an attention layer",
    "mlp_out": "the output of an MLP",
    "embed": "the token embeddings",
}
CHANGES = {
    False: "a linear erasure in its activations",
    True: "a trained low-rank update of its weights",
}
"""What an edit does, by whether it is of weights."""
HASHES = {"run": "fingerprint", "model": "model_hash", "data": "data_hash", "code": "source_hash"}
"""Lines of the table of hashes, and keys of the manifest."""
MARKDOWN = str.maketrans({c: f"\\{c}" for c in "\\|*_<>[]`"})


def model_card(
    run: Run,
    record: EditRecord,
    form: Form,
    parity: Parity,
    earlier: Sequence[Mapping[str, Any]] = (),
) -> str:
    """The text of a checkpoint's README.md; `earlier` edits are in the model's weights."""
    from huggingface_hub import ModelCard, ModelCardData
    from jinja2 import Environment, StrictUndefined

    from countergen_edit.reports.sections import in_template  # late: it imports runs

    by_task, by_axis = run.by_task(), _by_task(record)
    parts = {task: by_task[task] for task in by_axis if task in by_task}
    parts = parts or dict([next(iter(by_task.items()))])
    manifest = run.manifest
    base = str(manifest.get("model") or "model")
    concepts = [_concept(part, by_axis.get(task, [record])) for task, part in parts.items()]
    if len(by_axis) > 1:
        earlier = [*earlier, *(e for e in edits_in_record(record) if e["axis"] not in parts)]
    measured = {*manifest.get("metrics", {}).values()}
    kinds = {place.site == WEIGHTS for place in record.places}
    hashes = {name: manifest[key] for name, key in HASHES.items() if key in manifest}
    if template := manifest.get("template"):
        hashes["chat template"] = template["sha256"]
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["markdown"] = markdown
    text = (files(__package__) / "model_card.md.jinja").read_text("utf-8")
    body = environment.from_string(text).render(
        title=f"{Path(base).name}, edited",
        base=base if _on_hub(base) else Path(base).name,
        manifest=manifest,
        conversation=in_template(manifest),
        concepts=concepts,
        changes=[CHANGES[weights] for weights in (False, True) if weights in kinds],
        earlier=earlier,
        form=form,
        positions=(run.config.get("edit") or run.config).get("positions", "–"),
        sentences=[*cautions(run), *(s for p in parts.values() for s in _sentences(p, record))],
        tables=[
            (f"{heading}: {axis}" if len(parts) > 1 else heading, lines)
            for axis, part in parts.items()
            for heading, lines in _tables(part, record)
        ],
        unmeasured=[
            f"{metric.title or name}: {(inspect.getdoc(metric) or '').splitlines()[0]}"
            for name in METRICS
            if (metric := METRICS.get(name)).is_selectable and name not in measured
        ],
        parity=parity,
        ran=in_words(manifest),
        hashes=hashes,
        command=shlex.join(map(str, manifest.get("command", []))),
    )
    axes = [str(each["axis"]) for each in (*earlier, *concepts) if each["axis"]]
    results = [result for part in parts.values() for result in eval_results(part, record)]
    metadata = ModelCardData(
        model_name=Path(base).name,
        eval_results=results or None,
        library_name="transformers",
        pipeline_tag="text-generation",
        base_model=base if _on_hub(base) else None,
        tags=["countergen-edit", "bias", "concept-erasure", *dict.fromkeys(axes)],
    )
    return str(ModelCard(f"---\n{metadata.to_yaml()}\n---\n{body}"))


def eval_results(run: Run, record: EditRecord | None) -> list[EvalResult]:
    """Bias and costs on test data under an edit, or of the unedited model.

    In the form of the model index of the Hugging Face hub, where a set is a configuration of a
    dataset.
    """
    from huggingface_hub import EvalResult

    edit, found = UNEDITED if record is None else record.id, []
    for quantity in run.quantities("test"):
        row, before = quantity.rows.get(edit), quantity.rows.get(UNEDITED)
        if quantity.kind == "other" or row is None or row.value is None:
            continue
        more: dict[str, Any] = {} if row.lo is None else {"interval_95": [row.lo, row.hi]}
        if record is not None and before is not None:
            more["unedited"] = before.value
        found.append(
            EvalResult(
                task_type="text-generation",
                dataset_type="countergen-edit",
                dataset_name=row.dataset or row.axis,
                dataset_config=row.dataset or row.axis,
                dataset_split="test",
                metric_type=row.metric,
                metric_name=quantity.title,
                metric_value=row.value,
                metric_args=more,
            )
        )
    return found


def markdown(text: str) -> str:
    """Text with Markdown's characters escaped.

    >>> markdown("mean |R| of a_b")
    'mean \\\\|R\\\\| of a\\\\_b'
    """
    return " ".join(str(text).split()).translate(MARKDOWN)


def _by_task(record: EditRecord) -> dict[str, list[EditRecord]]:
    """The parts of an edit by their task, in order; the edit itself where all have one task."""
    parts = record.parts or (record,)
    tasks = dict.fromkeys(part.task for part in parts)
    if len(tasks) == 1:
        return {record.task: [record]}
    return {task: [part for part in parts if part.task == task] for task in tasks}


def _concept(run: Run, edits: Sequence[EditRecord]) -> dict[str, Any]:
    """The erased axis of a run of one task, as the template shows it."""
    rows = run.results.rows
    first = next((row for row in rows if row.group_a and row.group_b), rows[0])
    places = [place for edit in edits for place in edit.places]
    fitted, kept = (run.manifest.get(key, {}).get(first.task) for key in ("fitted", "kept"))
    return {
        "axis": first.axis,
        "groups": (first.group_a, first.group_b),
        "of_how_many": run.manifest.get("compared", {}).get(first.task, "").partition(";")[0],
        "erasers": [_eraser(edit) for edit in edits],
        "places": [
            SITES.get(p.site, p.site) + ("" if p.layer is None else f", layer {p.layer}")
            for p in places
        ],
        "maps": any(place.site != WEIGHTS for place in places),
        "limits": [f"{place.limit:.4g}" for place in places if place.limit is not None],
        "fitted": sorted(fitted or ()),
        "kept": None if kept is None else sorted(kept),
    }


def _eraser(edit: EditRecord) -> str:
    given = ", ".join(f"{key}={value}" for key, value in parameters(edit).items())
    name = f"{edit.eraser} ({given})" if given else edit.eraser
    if edit.sites == (WEIGHTS,):
        return f"{name}, rank {edit.rank}"
    return f"{name}, {edit.rank} dimension{'s' if edit.rank != 1 else ''}"


def parameters(record: EditRecord) -> dict[str, Any]:
    """The parameters of an edit's eraser, or of its parts' erasers, that are not defaults."""
    if record.params or not record.parts:
        return dict(record.params)
    return {part.label: parameters(part) for part in record.parts if parameters(part)}


def _tables(run: Run, record: EditRecord) -> list[tuple[str, list[dict[str, Any]]]]:
    """Tables of the quantities before and after the edit and under its control."""
    control = run.results.baseline_of(record)
    edits = {"before": UNEDITED, "after": record.id, "random": control.id if control else ""}

    def lines(split: str, kind: str) -> list[dict[str, Any]]:
        return [
            {"label": q.title, "n": q.rows[record.id].n}
            | {name: q.number(edit).in_text for name, edit in edits.items()}
            for q in run.quantities(split)
            if q.kind == kind and record.id in q.rows
        ]

    return [
        ("Bias, before and after", lines("test", "bias")),
        ("Costs", lines("test", "cost")),
        ("Other measures", lines("test", "other")),
    ]


def _on_hub(base: str) -> bool:
    """Whether the name is of the hub's form and no directory."""
    return base.count("/") == 1 and not base.startswith((".", "/", "~")) and not Path(base).exists()


def _sentences(run: Run, record: EditRecord) -> list[str]:
    """The advice on the edit, and the sentences of the bias metrics about it."""
    control = run.results.baseline_of(record)
    results = run.results.only(edits=[UNEDITED, record.id, *([control.id] if control else [])])
    biases = [view for view in run.views if view.kind == "bias"]
    sentences = [
        *advice(results),
        *(s for view in biases for s in (*view.sentences(results), view.outcome(results, record))),
        *(s for view in run.views for s in view.caveats(results)),
    ]
    return [sentence for sentence in dict.fromkeys(sentences) if sentence]
