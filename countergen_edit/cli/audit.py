"""`countergen-edit audit` and `countergen-edit sweep`."""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from countergen_edit import api
from countergen_edit.cli.printing import say, show_run
from countergen_edit.cli.reading import show_comparison
from countergen_edit.cli.study import Content, Study, command_line, fitting_metrics, listed
from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import only_writer
from countergen_edit.data.task import HALF_WIDTH, SetDesign
from countergen_edit.edits.checkpoints import Checkpoint, is_checkpoint, open_checkpoint
from countergen_edit.metrics.base import METRICS, Cost, Metric
from countergen_edit.models import LanguageModel, Scratch
from countergen_edit.reports.findings import after_audit, after_search
from countergen_edit.reports.render import export
from countergen_edit.reports.sections import sections
from countergen_edit.runs.files import FAILED, ORIGINAL
from countergen_edit.runs.plan import lacking
from countergen_edit.runs.run import Run


def run_audit(config: Content, words: Sequence[str]) -> None:
    """Run or resume an audit; a checkpoint is then compared with its unedited model."""
    study = Study(config, words)
    checkpoint = _checkpoint_of(config)
    run = audited(study, study.load())
    assert run.model is not None
    show_run(run, *([] if checkpoint or run.model.no_activations else after_audit(run)))
    if checkpoint is not None:
        path = run.path
        del run
        gc.collect()
        _compare_with_original(config, words, checkpoint, path)


def audited(study: Study, model: LanguageModel, design: Sequence[SetDesign] = ()) -> Run:
    """The audit of a model, on test sets of a design."""
    erasers, metrics, baselines = study.erasers, study.metrics, study.baselines
    task = study.task_in_vocabulary(model, design)
    if task.out_of_vocabulary:
        vocabulary = METRICS.named("in_vocabulary")
        metrics = {**metrics, **vocabulary} if task.test else vocabulary
    if task.is_out_of_vocabulary:
        erasers, baselines = {}, {}
    metrics = fitting_metrics(metrics, task, study.words)
    if not erasers:
        metrics = _without_costs(metrics, model)
    return api.audit(
        model,
        task,
        erasers,
        metrics,
        study.run_dir,
        site=study.place.site,
        layers=study.place.layers,
        baselines=baselines,
        command=command_line("audit", study.words),
        **study.how,
    )


def _without_costs(metrics: Mapping[str, Metric], model: LanguageModel) -> dict[str, Metric]:
    """The metrics, without default costs that cannot be measured on the model."""
    left_out = [n for n, m in metrics.items() if isinstance(m, Cost) and lacking(model, m)]
    if left_out:
        why = model.no_likelihoods or model.no_activations
        say([f"Not measured on {model.name}, {why}: {', '.join(left_out)}."])
    return {name: metric for name, metric in metrics.items() if name not in left_out}


def _checkpoint_of(config: Content) -> Checkpoint | None:
    """The audited checkpoint, if it is to be compared with its unedited model."""
    original, name = config["original"], config["model"]["name"]
    if is_checkpoint(name):
        return None if original is None else open_checkpoint(name)
    if original in (None, api.ON_RECORD):
        return None
    raise UserError(
        f"original={original}: {name} is not a checkpoint of this package, which alone has "
        "an original: hold two runs against each other by countergen-edit compare RUN RUN"
    )


def _compare_with_original(
    config: Content, words: Sequence[str], checkpoint: Checkpoint, path: Path
) -> None:
    """Audit the unedited model of a checkpoint in `RUN_DIR/original`, and print the changes."""
    where = {k: v for k, v in config["model"].items() if k not in ("name", "revision")}
    try:
        model = api.load_original(checkpoint, config["original"], **where)
    except UserError as error:
        if config["original"] != api.ON_RECORD:
            raise
        say(["", f"Could not compare with the original model: {error}"])
        return
    before = {"eraser": {}, "baseline": {}, "run_dir": path / ORIGINAL}
    study = Study({**config, **before}, words)
    rows = api.load_run(path).results.rows
    designs = {r.dataset: SetDesign(**r.detail) for r in rows if r.metric == HALF_WIDTH}
    original = audited(study, model, [*designs.values()])
    say(["", f"Compared with the source model {model.name}:", ""])
    show_comparison(api.compare(original, path, seed=study.seed))
    say([f"Report, with what it changed: {api.load_run(path).report()}"])


def run_sweep(config: Content, words: Sequence[str]) -> None:
    """Run or resume a sweep; it ends with code 1 if an eraser failed on a candidate."""
    study = Study(config, words)
    model = study.load()
    swept = api.search(
        model,
        study.task(model),
        study.erasers,
        study.metrics,
        study.run_dir,
        sites=listed(config["sites"]) or (study.place.site,),
        layers=study.searched_layers(model),
        ranks=listed(config["ranks"]),
        combine=config["combine"],
        tested="every",
        scratch=Scratch(int(config["memory_gib"] * 2**30)),
        command=command_line("sweep", words),
        **study.how,
    )
    with only_writer(swept.path):
        searched = [part for part in sections(swept) if part.name in ("search", "layers")]
        files = export(searched, swept.path / "figures", ["svg", "png"])
    show_run(swept, f"Figures: {', '.join(path.name for path in files)}", *after_search(swept))
    if failed := sum(row.metric == FAILED for row in swept.results.rows):
        print(f"countergen-edit: {failed} cell(s) failed, see above", file=sys.stderr)
        raise SystemExit(1)
