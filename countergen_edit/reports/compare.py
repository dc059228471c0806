"""Several runs: their figures side by side, paired differences, and one page of all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import spreadsheet_cell, whole
from countergen_edit.decisions.significance import class_of
from countergen_edit.metrics.rows import GROUPS, OMNIBUS, UNEDITED, Row, dataset_label, set_label
from countergen_edit.reports.blocks import Cell, Figure, Number, Section, Table, Words
from countergen_edit.reports.findings import few
from countergen_edit.reports.panels import Panel, Series
from countergen_edit.reports.views import base
from countergen_edit.reports.views.r import EFFECT
from countergen_edit.runs.compare import DIFFERENCES, paired, paired_figures, paired_items
from countergen_edit.runs.run import Run

if TYPE_CHECKING:
    from pandas import DataFrame

MADE = ("model", "seed", "command", "fingerprint")
UNLIKE = (
    "These runs were made on different data (sets, names, or texts, which depend on the model "
    "unless texts= is given). Only columns on the same prompts compare them."
)
AXES = "Group effects of several axes, unedited"
OF_AXES = (
    "Intervals are 95 %, over names and templates; P is of the names of a run, Holm over its sets."
)
_COUNTS = {
    "samples_of_one": "Items of one side only",
    "repeated": "Items that occur more than once and count once, by their mean",
    "unscored": "Items without a score",
    "other_prompts": "Items with other prompts (other examples or template)",
}
_LOOK = {"grouped": True, "brief": True}


@dataclass(frozen=True)
class Comparison:
    """Runs side by side."""

    tables: Mapping[str, Table]
    """Those that are not empty: `side_by_side`, and differences from the first run.

    `axes` has the group effects of runs about several axes, `paired` those of R on shared prompts,
    `paired_figures` those of benchmarks on shared items, `paired_items` those of logs.
    """
    rows: DataFrame
    sections: tuple[Section, ...]
    """The parts of the page."""
    title: str

    def to_frame(self) -> DataFrame:
        """Every row as a line of a DataFrame."""
        return self.rows

    def report(self, folder: Path | str) -> Path:
        """Write the page, its tables (CSV, LaTeX), figures and all rows into a folder; its path.

        `UserError` if it cannot be written.
        """
        from countergen_edit.reports.render import export
        from countergen_edit.reports.render.html import REPORT, write_page

        folder = Path(folder)
        safe = self.rows.map(lambda cell: spreadsheet_cell(cell) if isinstance(cell, str) else cell)
        with whole(folder / "rows.csv") as temporary:
            safe.to_csv(temporary, index=False, lineterminator="\n", errors="replace")
        export(self.sections, folder / "tables", ("csv", "latex", "svg"))
        about = [f"{len(self.rows)} result rows, in rows.csv"]
        kind = "Comparison of language models"
        return write_page(self.sections, folder / REPORT, title=self.title, kind=kind, about=about)


def comparison(runs: Sequence[Run], seed: int = 0) -> Comparison:
    """Compare two or more runs; the later ones are paired with the first.

    `seed` is of the resamples of paired intervals. `UserError` if there are fewer than two runs.
    """
    if len({run.path.resolve() for run in runs}) < 2:
        raise UserError("compare needs two run folders: write countergen-edit compare RUN RUN")
    by_name = dict(zip(run_names(runs), runs, strict=True))
    logs = {name: run.log for name, run in by_name.items() if run.log is not None}
    paths = {name: run.path for name, run in by_name.items() if run.log is None}
    differences = paired(paths, seed)
    of_items, of_figures = paired_items(logs, seed), paired_figures(paths, seed)
    tables = [
        *side_by_side(by_name),
        *axes_table(by_name),
        *paired_table(differences, by_name),
        *_items_table("paired_figures", " of figures, on shared items", of_figures, by_name),
        *_items_table("paired_items", ", item by item", of_items, by_name),
    ]
    sentences = _differences_in_words(differences, by_name)
    words = [Words(tuple(sentences), brief=True)] if sentences else []
    first = base.as_section("overview", "Overview", words, tables, axes_figure(by_name))
    if all(run.results.is_unedited for run in runs):
        first = [section.without_edits() for section in first]
    made: list[base.Record] = [
        {"run": name, **{key: _facts(run)[key] for key in MADE}}
        | {"rows": str(len(run.results.rows)), "folder": str(run.path)}
        for name, run in by_name.items()
    ]
    note = "countergen-edit report FOLDER shows one run."
    last = base.as_section("run", "The runs", base.as_table("runs", "The runs", made, note))
    return Comparison(
        {table.name: table for table in tables},
        every_row(by_name, [*differences, *of_figures, *of_items]),
        (*first, *last),
        "; ".join(dict.fromkeys(run.title for run in runs)),
    )


def run_names(runs: Sequence[Run]) -> list[str]:
    """Each run's folder, with as many of its parents as tell the runs apart."""
    parts = [run.path.resolve().parts for run in runs]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            break
    return names


def side_by_side(runs: Mapping[str, Run]) -> list[Table]:
    """Every run under every edit, with a column for each quantity by which a run is compared.

    Of several quantities with one title a run shows the first.
    """
    compared = {
        name: base.in_order(q for view in run.views for q in view.side_by_side(run.results))
        for name, run in runs.items()
    }
    columns = dict.fromkeys(q.title for figures in compared.values() for q in figures)
    facts = {name: _facts(run) for name, run in runs.items()}
    unlike = [k for k in ("model", "seed", "prompts") if len({f[k] for f in facts.values()}) > 1]
    records: list[base.Record] = []
    for name, run in runs.items():
        by_title = {q.title: q for q in reversed([*compared[name], *run.quantities()])}
        about = {fact: facts[name][fact] for fact in unlike}
        for edit in (UNEDITED, *(edit.id for edit in run.results.shown)):
            known = {t: by_title[t] for t in columns if t in by_title and edit in by_title[t].rows}
            if any(q.rows[edit].value is not None for q in known.values()):
                cells: dict[str, Cell] = dict.fromkeys(columns, "")
                cells |= {title: quantity.number(edit) for title, quantity in known.items()}
                records.append({"run": name, "edit": run.results.label(edit), **about, **cells})
    hashes = {run.manifest.get("data_hash") for run in runs.values()} - {None, ""}
    note = UNLIKE if len(hashes) > 1 else ""
    return base.as_table("side_by_side", "Side by side", records, note, **_LOOK)


def _by_axis(runs: Mapping[str, Run]) -> dict[str, list[Row]]:
    """Group effects of every unedited model, by model or run; empty where they are of one axis."""
    effects: dict[str, list[Row]] = defaultdict(list)
    models = {name: run.manifest.get("model", name) for name, run in runs.items()}
    subjects = [
        (models[name], row.key, row.axis)
        for name, run in runs.items()
        for row in run.results.unedited(EFFECT)
    ]
    for name, run in runs.items():
        label = name if len({*subjects}) < len(subjects) else str(models[name])
        effects[label] += [*run.results.unedited(EFFECT), *run.results.unedited(OMNIBUS)]
    return dict(effects) if len({axis for *_, axis in subjects}) > 1 else {}


def _groups(row: Row) -> str:
    return base.groups_of(row) or f"all {row.facets[GROUPS]:g}"


def axes_table(runs: Mapping[str, Run]) -> list[Table]:
    """The group effects of runs about several axes, a line for each axis, pair and set."""
    records: dict[tuple[str, ...], base.Record] = {}
    by_model = _by_axis(runs)
    for model, rows in by_model.items():
        end = f", {model}" if len(by_model) > 1 else ""
        for row in sorted(rows, key=lambda row: row.metric == OMNIBUS):
            about = row.axis.replace("_", " "), _groups(row), dataset_label(row.dataset)
            cells: dict[str, Cell] = {f"group effect, nats{end}": Number.of(row)}
            cells |= {f"P (Holm){end}": base.p_holm(row), f"result{end}": class_of(row.detail)}
            head = dict(zip(("axis", "groups", "set"), about, strict=True))
            records[about] = {**records.get(about, head), **cells}
    return base.as_table("axes", AXES, records.values(), OF_AXES, **_LOOK)


def axes_figure(runs: Mapping[str, Run]) -> list[Figure]:
    """A forest plot: a panel for every two groups of an axis, with a line for each set."""
    by_pair: dict[str, list[Series]] = defaultdict(list)
    for model, rows in _by_axis(runs).items():
        effects = [row for row in rows if row.metric == EFFECT]
        pairs = base.grouped(effects, lambda row: f"{row.axis.replace('_', ' ')}: {_groups(row)}")
        for title, of_pair in pairs.items():
            sets = [dataset_label(row.dataset) for row in of_pair]
            by_pair[title].append(Series.of(model, sets, of_pair))
    panels = (
        Panel(title, "group effect, nats", "", tuple(series), True, joined=True)
        for title, series in by_pair.items()
    )
    return base.as_figure("axes", AXES, panels, OF_AXES)


def _facts(run: Run) -> dict[str, str]:
    facts = {key: run.manifest.get(key, "") for key in MADE}
    texts = {k: " ".join(map(str, v)) if isinstance(v, list) else str(v) for k, v in facts.items()}
    prompts = "plain texts"
    if template := run.manifest.get("template"):
        prompts = f"chat template {template['sha256'][:8]} {template['instruction']}".strip()
    return texts | {"prompts": prompts}


def _differences_in_words(rows: Sequence[Row], runs: Mapping[str, Run]) -> list[str]:
    """The sets on which the first figure of a run is lower or higher than the first run's."""

    def way(row: Row) -> str:
        if row.value == row.lo == row.hi == 0:
            return "equal"
        way = "lower" if (row.hi or 0) < 0 else "higher" if (row.lo or 0) > 0 else ""
        return way or "not significantly different"

    first = [row for row in rows if row.detail["of"] == rows[0].detail["of"]]
    sentences = []
    for pair, same in base.grouped(first, lambda row: _sides(row, runs, " against ")).items():
        ways = base.grouped(same, way).items()
        each = (f"{way} on {few(map(set_label, sets))}" for way, sets in ways)
        figure = rows[0].detail["of"].partition(",")[0]
        sentences.append(f"{pair}, {figure}: {'; '.join(each)}.")
    return sentences


def _sides(row: Row, runs: Mapping[str, Run], between: str = " − ") -> str:
    d, sides = row.detail, []
    for run, edit in ((d["run"], row.edit), (d["against_run"], d["against_edit"])):
        results, under = runs[run].results, " with" * (edit != UNEDITED)
        sides.append(f"{run}{under} {results.label(edit)}" if results.edits else run)
    return between.join(sides)


def _shared(row: Row) -> str:
    return f"{row.detail['samples']} of {row.detail['samples_of_either']}"


def paired_table(rows: Sequence[Row], runs: Mapping[str, Run]) -> list[Table]:
    """Paired differences, a line for each set and edit, a column for each figure."""
    records: list[base.Record] = []
    for figures in zip(rows[::2], rows[1::2], strict=True):  # both of a set
        about = {"runs": _sides(figures[0], runs), "set": set_label(figures[0])}
        numbers = (Number.of(figure, signed=True) for figure in figures)
        cells = dict(zip(DIFFERENCES.values(), numbers, strict=True))
        records.append({**about, **cells, "shared": _shared(figures[0])})
    first = rows[0].detail["against_run"] if rows else ""
    note = (
        f"Below 0, a run is less biased than {first}. Intervals are 95 %, over templates and names."
    )
    heading = f"Paired differences from {first}, on shared prompts"
    return base.as_table("paired", heading, records, note, **_LOOK)


def _items_table(
    name: str, heading: str, rows: Sequence[Row], runs: Mapping[str, Run]
) -> list[Table]:
    records: list[base.Record] = []
    for row in rows:
        d = row.detail
        look: dict[str, Any] = {"digits": 4, "percent": True} if d.get("percent") else {}
        records.append(
            {"runs": _sides(row, runs), "task": _about(row), "figure": d["of"]}
            | {when: Number(d[when], **look) for when in ("before", "after")}
            | {"difference": Number.of(row, signed=True, **look), "P (Holm)": base.p_holm(row, 4)}
            | {"detectable": Number(d["smallest"], **look), "items": _shared(row)}
        )
    title, note = f"Paired differences{heading}", " ".join(_notes(rows, runs))
    return base.as_table(name, title, records, note, **_LOOK)


def _about(row: Row) -> str:
    return str(row.detail.get("about", row.dataset))


def _notes(rows: Sequence[Row], runs: Mapping[str, Run]) -> Iterator[str]:
    """The methods of differences over items, and what they leave out."""
    methods = "; ".join(dict.fromkeys(row.detail["method"] for row in rows))
    yield f"Over the items of both; intervals are 95 %, {methods}. P is corrected over all lines"
    yield "(Holm). A difference of the size `detectable` is found four times in five."
    for key, text in _COUNTS.items():
        counts = {_about(row): row.detail.get(key) for row in rows}
        if each := [f"{about} {count}" for about, count in counts.items() if count]:
            yield f"{text}: {', '.join(each)}."
    logs = {name: run.log for name, run in runs.items() if run.log is not None}
    if unread := dict.fromkeys(name for log in logs.values() for name in log.unread):
        yield f"Not one number per item, and not compared: {'; '.join(unread)}."
    tasks = dict.fromkeys(task for log in logs.values() for task in log.versions)
    having = {task: [n for n, log in logs.items() if task in log.versions] for task in tasks}
    if single := [f"{t} ({', '.join(of)})" for t, of in having.items() if len(of) < len(logs)]:
        yield f"Not in every log: {', '.join(single)}."


def every_row(runs: Mapping[str, Run], differences: Sequence[Row]) -> DataFrame:
    """All rows of all runs, and the differences."""
    from pandas import DataFrame, concat

    frames = [run.to_frame().assign(run=name) for name, run in runs.items()]
    between = [
        row.to_dict() | {"run": row.detail["run"], "minus": row.detail["against_run"]}
        for row in differences
    ]
    return concat([*frames, DataFrame(between)], ignore_index=True)
