"""Runs side by side: what each found under each edit, and paired differences.

Comes in: runs, and the rows of their differences. Goes out: tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from countergen_edit.metrics.results import NO_EDIT
from countergen_edit.metrics.rows import UNEDITED, Row, set_label
from countergen_edit.reports.blocks import Cell, Number, Table
from countergen_edit.reports.findings import few
from countergen_edit.reports.overview import number
from countergen_edit.reports.provenance import groups, subject
from countergen_edit.reports.views.base import Quantity

if TYPE_CHECKING:
    from countergen_edit.reports.run import Run
    from countergen_edit.runs.logs import Log

ABOUT = ("model", "seed")
"""Facts of the manifest that tell runs apart."""
ALL_RUNS = "all runs"
"""What a row is of that is of several runs together."""
OF_ITEMS = (
    "before",
    "after",
    "difference",
    "P (Holm)",
    "detectable",
    "items",
)
UNLIKE = (
    "These runs were made on different data (sets, names, or texts, which depend on the model "
    "unless texts= is given): a column tells runs apart only where it is of the same prompts, as "
    "paired differences are."
)
"""What a table says whose runs did not measure the same."""
NOT_SO = {
    "samples_of_one": "Items that only one log has",
    "repeated": "Items that stand more than once and count once, by their mean",
    "unscored": "Items without a score",
    "other_prompts": "Items that the models read in other words (other examples or template)",
}
"""Counts in the detail of an item by item difference, and how they are said."""
CORRECTED = (
    "P is corrected over all lines (Holm). A difference as large as detectable would be found four "
    "times in five."
)
PAIR = ("run", "against_run", "edit", "against_edit")
"""What the detail of a difference tells of the two sides."""


def label(run: Run, edit: str) -> str:
    """An edit's name; no edit has the same in runs with edits and without."""
    return NO_EDIT if edit == UNEDITED else run.results.label(edit)


def run_names(runs: Sequence[Run]) -> list[str]:
    """Each run's folder, with as much of what stands above it as tells them apart."""
    parts = [run.path.resolve().parts for run in runs]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            break
    return names


def side_by_side(runs: Sequence[Run], names: Sequence[str]) -> Table:
    """Every run under every edit: a column for each quantity by which any run is compared.

    A run shows its own figure of that name, the one about the data of the first that has the name,
    where it has that. An edit of which it has none is left out.
    """
    columns: dict[str, Quantity] = {}
    for run in runs:
        for quantity in run.compared():
            columns.setdefault(quantity.title, quantity)
    told = [key for key in ABOUT if len({str(run.manifest.get(key)) for run in runs}) > 1]
    lines: list[tuple[Cell, ...]] = []
    for run, name in zip(runs, names, strict=True):
        quantities = [*run.compared(), *run.quantities()]
        own = [_alike(quantities, column) for column in columns.values()]
        for edit in (UNEDITED, *(record.id for record in run.results.shown)):
            cells = [number(q, q.rows[edit]) if q and edit in q.rows else "" for q in own]
            depended = (str(run.manifest.get(key, "")) for key in told)
            if any(isinstance(cell, Number) and cell.value is not None for cell in cells):
                lines.append((name, label(run, edit), *depended, *cells))
    titles, note = ("run", "edit", *told, *columns), UNLIKE if _unlike(runs) else ""
    lined = tuple(lines)
    return Table("side_by_side", "Side by side", titles, lined, note, grouped=True, brief=True)


def _unlike(runs: Sequence[Run]) -> bool:
    """Whether runs were made on different data; what does not say so is taken as alike."""
    return len({run.manifest["data_hash"] for run in runs if run.manifest.get("data_hash")}) > 1


def _alike(quantities: Sequence[Quantity], like: Quantity) -> Quantity | None:
    """Of the quantities of that name the one about the same data, or else the main one."""
    named = [quantity for quantity in quantities if quantity.title == like.title]
    named.sort(key=lambda quantity: (_subject(quantity) != _subject(like), not quantity.main))
    return next(iter(named), None)


def _subject(quantity: Quantity) -> str:
    return next((subject(row) for row in quantity.rows.values()), "")


def unlike(runs: Sequence[Run], names: Sequence[str]) -> list[str]:
    """What is no like for like among runs: how texts were asked, what one alone measured."""
    sentences = []
    how = [_conversation(run) for run in runs]
    if len({*how}) > 1:
        each = "; ".join(f"{name}: {asked}" for name, asked in zip(names, how, strict=True))
        sentences.append(
            f"Asked unlike, so that a difference may be of the asking and not of the edit: {each}."
        )
    for name, run in zip(names, runs, strict=True):
        others = {
            quantity.title
            for other in runs
            if other is not run
            for quantity in (*other.compared(), *other.quantities())
        }
        titles = dict.fromkeys(quantity.title for quantity in run.compared())
        if alone := [title for title in titles if title not in others]:
            sentences.append(f"Measured in {name} alone: {few(alone, '; ')}.")
    return sentences


def _conversation(run: Run) -> str:
    """How the texts of a run were put to its model."""
    asked = run.manifest.get("template")
    if not asked:
        return "plain texts"
    said = f", told {asked['instruction']!r}" if asked["instruction"] else ""
    return f"in the chat template {asked['sha256'][:8]}{said}"


def in_words(rows: Sequence[Row], runs: Mapping[str, Run]) -> list[str]:
    """On which sets a run is less biased than the one it is held against, and on which more.

    Args:
        rows: as those of `paired_table`; the first figure that they tell of is the one that counts.
        runs: by the name that the rows call them by.
    """
    counts = rows[0].detail["of"] if rows else ""
    tested = [row for row in rows if row.split == "test" and row.detail["of"] == counts]
    by_pair: dict[tuple[str, ...], list[Row]] = {}
    for row in tested:
        about = (*(str(row.detail[key]) for key in PAIR), row.edit)
        by_pair.setdefault(about, []).append(row)
    sentences = []
    for of_pair in by_pair.values():
        d = of_pair[0].detail
        of = d["of"].partition(",")[0]
        after = _under(d["run"], of_pair[0].edit, runs)
        before = _under(d["against_run"], d["against_edit"], runs)
        said = {
            "lower on": [row for row in of_pair if row.hi is not None and row.hi < 0],
            "higher on": [row for row in of_pair if row.lo is not None and row.lo > 0],
        }
        told = [row for found in said.values() for row in found]
        said["not significantly different on"] = [row for row in of_pair if row not in told]
        parts = [f"{word} {few([*map(set_label, sets)])}" for word, sets in said.items() if sets]
        sentences.append(f"{after} against {before}, by {of}: {'; '.join(parts)}.")
    return sentences


def _under(run: str, edit: str, runs: Mapping[str, Run]) -> str:
    return run if edit == UNEDITED else f"{run} with {label(runs[run], edit)}"


def paired_table(rows: Sequence[Row], runs: Mapping[str, Run]) -> Table:
    """Paired differences, set by set.

    Args:
        rows: their detail tells what differs (`of`), `run`, `against_run`, `against_edit`,
            `samples` and `samples_of_either`.
        runs: by the name that the rows call them by.
    """
    figures = list(dict.fromkeys(row.detail["of"] for row in rows))
    by_set: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in rows:
        about = (*(str(row.detail[key]) for key in PAIR), row.edit, row.dataset, row.split)
        by_set.setdefault(about, {})[row.detail["of"]] = row
    lines: list[tuple[Cell, ...]] = []
    for of_set in by_set.values():
        row = next(iter(of_set.values()))
        d = row.detail
        edit = label(runs[d["run"]], row.edit)
        against = label(runs[d["against_run"]], d["against_edit"])
        lines.append(
            (
                f"{d['run']} − {d['against_run']}",
                edit if edit == against else f"{edit} − {against}",
                set_label(row),
                *(Number.of(of_set.get(figure), signed=True) for figure in figures),
                f"{d['samples']} of {d['samples_of_either']}",
            )
        )
    first = rows[0].detail["against_run"] if rows else ""
    several = len({row.detail["run"] for row in rows}) > 1
    return Table(
        "paired",
        f"Paired differences from {first}, on the prompts that runs share",
        ("run", "edit", "set", *figures, "shared"),
        tuple(lines),
        f"Below 0, a run is less biased than {first}. Intervals are 95 %, drawn over templates and "
        "names together."
        + (
            f" Every run is held against the first, {first}: to hold it against another, name "
            "that one first."
            if several
            else ""
        ),
        grouped=True,
        brief=True,
    )


def items_table(rows: Sequence[Row], logs: Mapping[str, Log]) -> Table:
    """Paired differences of logs, task by task.

    Args:
        rows: their detail tells what differs (`of`), both means (`before`, `after`), how sure that
            is (`p_adjusted`, `method`, `clusters`, `smallest`), and counts what was paired
            (`samples`, `samples_of_either`) and the items of `NOT_SO`.
        logs: by the name that the rows call them by.
    """
    lines: list[tuple[Cell, ...]] = [
        (_held(row), row.dataset, str(row.detail["of"]), *_of_items(row)) for row in rows
    ]
    note = " ".join(_said_of_items(rows, logs))
    columns = ("logs", "task", "metric", *OF_ITEMS)
    title = "Paired differences, item by item"
    return Table("paired_items", title, columns, tuple(lines), note, grouped=True, brief=True)


def figures_table(rows: Sequence[Row], runs: Mapping[str, Run]) -> Table:
    """Paired differences of figures that runs have of the same items.

    Args:
        rows: as those of `items_table`; their detail also tells what was asked (`about`).
        runs: by the name that the rows call them by.
    """
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        d = row.detail
        edit, against = label(runs[d["run"]], row.edit), d["against_edit"]
        against = NO_EDIT if against == UNEDITED else against
        named = edit if edit == against else f"{edit} − {against}"
        lines.append((_held(row), named, d["about"], str(d["of"]), *_of_items(row)))
    lonely = {row.detail["about"]: row.detail["samples_of_one"] for row in rows}
    alone = [f"{about} {count}" for about, count in lonely.items() if count]
    methods = "; ".join(dict.fromkeys(row.detail["method"] for row in rows))
    note = (
        f"Figures of the items that both runs have; intervals are 95 %, {methods}. {CORRECTED}"
        + (f" Items that only one run has: {', '.join(alone)}." if alone else "")
    )
    columns = ("runs", "edit", "asked", "figure", *OF_ITEMS)
    title = "Paired differences of figures, on the items that runs share"
    return Table("paired_figures", title, columns, tuple(lines), note, grouped=True, brief=True)


def _held(row: Row) -> str:
    return f"{row.detail['run']} − {row.detail['against_run']}"


def _of_items(row: Row) -> tuple[Cell, ...]:
    """Both figures, their difference and how sure it is, and how many items that is of."""
    d = row.detail
    look: dict[str, Any] = {"digits": 4, "percent": True} if d.get("percent") else {}
    return (
        Number(d["before"], **look),
        Number(d["after"], **look),
        Number.of(row, signed=True, **look),
        Number(d.get("p_adjusted"), digits=4, bounded=True),
        Number(d["smallest"], **look),
        f"{d['samples']} of {d['samples_of_either']}",
    )


def _said_of_items(rows: Sequence[Row], logs: Mapping[str, Log]) -> Iterator[str]:
    """How differences were found, and what of the logs is not in them."""
    methods = "; ".join(dict.fromkeys(row.detail["method"] for row in rows))
    yield f"Means over the items that both logs have; intervals are 95 %: {methods}."
    clusters = [row.detail["clusters"] for row in rows if row.detail["clusters"]]
    if clusters:
        few = f"{min(clusters)} to {max(clusters)}"
        yield f"Of clusters there are {few if len(set(clusters)) > 1 else clusters[0]}."
    yield CORRECTED
    for key, said in NOT_SO.items():
        counts = {row.dataset: row.detail[key] for row in rows if row.detail[key]}
        if counts:
            yield f"{said}: {', '.join(f'{task} {count}' for task, count in counts.items())}."
    unread = dict.fromkeys(name for log in logs.values() for name in log.unread)
    if unread:
        yield f"Not one number an item, and not compared: {'; '.join(unread)}."
    having: dict[str, list[str]] = {}
    for name, log in logs.items():
        for task in log.versions:
            having.setdefault(task, []).append(name)
    lonely = [f"{task} ({', '.join(of)})" for task, of in having.items() if len(of) < len(logs)]
    if lonely:
        yield f"Not in every log: {', '.join(lonely)}."


def every_row(
    runs: Sequence[Run],
    names: Sequence[str],
    differences: Sequence[Row],
    pooled: Sequence[Row] = (),
) -> Table:
    """All rows of all runs with their differences and what is of all of them, for a file."""
    by_name = dict(zip(names, runs, strict=True))
    rows = [(name, "", row) for name, run in by_name.items() for row in run.results.rows]
    rows += [(ALL_RUNS, "", row) for row in pooled]
    for row in differences:
        d = row.detail
        against = label(by_name[d["against_run"]], d["against_edit"])
        rows.append((d["run"], f"{d['against_run']}, {against}", row))
    lines: list[tuple[Cell, ...]] = [
        (
            name,
            against,
            row.metric,
            row.task,
            subject(row),
            row.axis,
            groups(row),
            label(by_name.get(name, runs[0]), row.edit),
            row.split,
            Number.of(row),
            str(row.n),
        )
        for name, against, row in rows
    ]
    columns = ("run", "minus", "metric", "task", "data", "axis", "groups", "edit", "split")
    return Table("compare", "Runs side by side", (*columns, "value", "n"), tuple(lines))
