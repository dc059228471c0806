"""The model card of a checkpoint, as on the Hugging Face hub, and evidence for sign-off."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countergen_edit.core.locating import without_places
from countergen_edit.core.writing import whole
from countergen_edit.decisions.judgement import selected
from countergen_edit.edits import WEIGHTS, EditRecord
from countergen_edit.edits.checkpoints import Form, Parity, edits_in_record
from countergen_edit.metrics.base import METRICS
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.findings import advice, cautions, of_edit
from countergen_edit.reports.views.base import grouped
from countergen_edit.runs.ran import conversation_in_words, in_words
from countergen_edit.runs.run import Run

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

HASHES = {"run": "fingerprint", "model": "model_hash", "data": "data_hash", "code": "source_hash"}
_TABLES = {"Bias, before and after": "bias", "Costs": "cost", "Other measures": "other"}
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

    by_task, by_axis = run.by_task(), grouped(record.parts or (record,), lambda part: part.task)
    if len(by_axis) == 1:
        by_axis = {record.task: [record]}
    parts = {task: by_task[task] for task in by_axis if task in by_task}
    parts = parts or dict([next(iter(by_task.items()))])
    manifest, several = without_places(run.manifest), len(parts) > 1
    base = str(manifest.get("model") or "model")  # a name on the hub, or of a directory
    on_hub, name = base.count("/") == 1, base.rpartition("/")[2]
    concepts = [_concept(part, by_axis.get(task, [record])) for task, part in parts.items()]
    if len(by_axis) > 1:
        earlier = [*earlier, *(e for e in edits_in_record(record) if e["axis"] not in parts)]
    measured = {*manifest.get("metrics", {}).values()}
    body = _filled(
        "model_card.md.jinja",
        run,
        title=f"{name}, edited",
        base=base,
        concepts=concepts,
        has_maps=any(place.site != WEIGHTS for place in record.places),
        has_update=any(place.site == WEIGHTS for place in record.places),
        parameters=_parameters,
        earlier=earlier,
        form=form,
        positions=(run.config.get("edit") or run.config).get("positions", "–"),
        sentences=[*cautions(run), *(s for p in parts.values() for s in _sentences(p, record))],
        tables=[
            (f"{heading}: {axis}" if several else heading, _figure_lines(part, record, kind))
            for axis, part in parts.items()
            for heading, kind in _TABLES.items()
        ],
        unmeasured=[
            f"{metric.title or name}: {(inspect.getdoc(metric) or '').splitlines()[0]}"
            for name in METRICS
            if (metric := METRICS.get(name)).is_selectable and name not in measured
        ],
        parity=parity,
    )
    axes = [str(each["axis"]) for each in (*earlier, *concepts) if each["axis"]]
    results = [result for part in parts.values() for result in eval_results(part, record)]
    metadata = ModelCardData(
        model_name=name,
        eval_results=results or None,
        library_name="peft" if form == "adapter" else "transformers",
        pipeline_tag="text-generation",
        base_model=base if on_hub else None,
        tags=["countergen-edit", "bias", "concept-erasure", *dict.fromkeys(axes)],
    )
    return str(ModelCard(f"---\n{metadata.to_yaml()}\n---\n{without_places(body)}"))


def write_evidence(run: Run, folder: Path) -> Path:
    """Write the examination, the mitigation and their limits in Markdown; the path.

    `evidence.md` follows points of Regulation (EU) 2024/1689 (AI Act): Annex IV 2(g), Article
    10(2)(f) to (h).
    """
    parts = [_part(part) for part in run.by_task().values()]
    about = {"title": run.title, "parts": parts, "cautions": cautions(run)}
    with whole(folder / "evidence.md") as temporary:
        temporary.write_text(_filled("evidence.md.jinja", run, **about), "utf-8")
    return folder / "evidence.md"


def _filled(template: str, run: Run, **values: Any) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader(__package__ or "", "")
    how: dict[str, Any] = {"undefined": StrictUndefined, "loader": loader}
    environment = Environment(trim_blocks=True, lstrip_blocks=True, **how)
    environment.filters["markdown"] = markdown
    manifest = run.manifest
    hashes = {name: manifest[key] for name, key in HASHES.items() if key in manifest}
    if conversation := manifest.get("template"):
        hashes["chat template"] = conversation["sha256"]
    return environment.get_template(template).render(
        values,
        manifest=manifest,
        conversation=conversation_in_words(manifest),
        ran=in_words(manifest),
        hashes=hashes,
        command=shlex.join(map(str, manifest.get("command", []))),
    )


def eval_results(run: Run, record: EditRecord | None) -> list[EvalResult]:
    """Bias and costs on test data under an edit, or of the unedited model.

    In the form of the model index of the Hugging Face hub, where a set is a configuration of a
    dataset.
    """
    from huggingface_hub import EvalResult

    edit, listed = UNEDITED if record is None else record.id, []
    for quantity in run.quantities("test"):
        row, before = quantity.rows.get(edit), quantity.rows.get(UNEDITED)
        if quantity.kind == "other" or row is None or row.value is None:
            continue
        more: dict[str, Any] = {} if row.lo is None else {"interval_95": [row.lo, row.hi]}
        if record is not None and before is not None:
            more["unedited"] = before.value
        of: dict[str, Any] = {"dataset_name": row.dataset or row.axis}
        of["dataset_config"] = of["dataset_name"]
        of |= {"task_type": "text-generation", "dataset_type": "countergen-edit"}
        of |= {"dataset_split": "test", "metric_type": row.metric, "metric_name": quantity.title}
        listed.append(EvalResult(metric_value=row.value, metric_args=more, **of))
    return listed


def markdown(text: str) -> str:
    """Text with Markdown's characters escaped."""
    return " ".join(str(text).split()).translate(MARKDOWN)


def _parameters(record: EditRecord) -> dict[str, Any]:
    """Those of an edit's eraser, or of its parts' erasers, that are not defaults."""
    if record.params or not record.parts:
        return dict(record.params)
    return {part.label: _parameters(part) for part in record.parts if _parameters(part)}


def _first_row(run: Run) -> Row:
    """The first row about two groups, or about anything."""
    rows = run.results.rows
    return next((row for row in rows if row.group_a and row.group_b), rows[0])


def _concept(run: Run, edits: Sequence[EditRecord]) -> dict[str, Any]:
    first = _first_row(run)
    fitted, kept = (run.manifest.get(key, {}).get(first.task) for key in ("fitted", "kept"))
    return {
        "axis": first.axis,
        "groups": (first.group_a, first.group_b),
        "of_how_many": run.manifest.get("compared", {}).get(first.task, "").partition(";")[0],
        "edits": edits,
        "places": [place for edit in edits for place in edit.places],
        "fitted": sorted(fitted or ()),
        "kept": None if kept is None else sorted(kept),
    }


def _figure_lines(run: Run, record: EditRecord | None, *kinds: str) -> list[dict[str, Any]]:
    """The quantities of some kinds before and after an edit and under its control, with budgets.

    Without an edit they are those of the unedited model.
    """
    control = None if record is None else run.results.baseline_of(record)
    after, random = (edit.id if edit else "" for edit in (record, control))
    edits = {"before": UNEDITED, "after": after, "random": random}
    costs = {cost.counts: name for name in run.budgets if (cost := run.cost(name))}
    lines = []
    for q in run.quantities():
        row = q.rows.get(after or UNEDITED)
        if q.kind in kinds and row is not None:
            budget = run.budgets.get(costs.get(row.metric, ""))
            share = "" if budget is None else f"{100 * budget:g} %"
            limit = share if q.how.percent or budget is None else f"{budget:g}"
            figures = {name: q.number(edit).in_text for name, edit in edits.items()}
            lines.append({"label": q.title, "n": row.n, "budget": limit, **figures})
    return lines


def _sentences(run: Run, record: EditRecord) -> list[str]:
    """The advice on the edit, and the sentences of the bias metrics about it."""
    results = of_edit(run.results, record)
    sentences = advice(results)
    for view in run.views:
        if view.kind == "bias":
            sentences += [*view.sentences(results), view.outcome(results, record)]
    sentences += [s for view in run.views for s in view.caveats(results)]
    return [sentence for sentence in dict.fromkeys(sentences) if sentence]


def _part(run: Run) -> dict[str, Any]:
    record, results = selected(run.results), run.results
    first = _first_row(run)
    groups = " and ".join(filter(None, (first.group_a, first.group_b)))
    about = results.only(edits=[UNEDITED, *([record.id] if record else [])])
    biases = [view for view in run.views if view.kind == "bias"]
    others = [view for view in run.views if view.kind != "bias"]
    names = run.manifest.get("names", {}).get(results.task or first.axis, {})
    outcomes = [view.outcome(about, record) for view in biases] if record else []
    return {
        "groups": f"{groups} ({first.axis})" if first.axis else groups,
        "edit": record,
        "examined": [line for view in biases for line in view.headline(about)],
        "mitigated": [*advice(results), *filter(None, outcomes)],
        "remaining": [s for v in others for s in v.remaining(about, record)] if record else [],
        "names": {split: {g: len(n) for g, n in by.items()} for split, by in names.items()},
        "figures": _figure_lines(run, record, "bias", "cost"),
        "caveats": dict.fromkeys(s for view in run.views for s in view.caveats(results)),
    }
