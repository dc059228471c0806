"""Commands that read runs: `report`, `compare`, `gate` and `rate`; and `testbed`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from countergen_edit import api
from countergen_edit.cli.printing import console, say, show_run
from countergen_edit.cli.study import Content, listed
from countergen_edit.core.errors import UserError, command, require_known
from countergen_edit.reports.compare import Comparison
from countergen_edit.reports.render import FIGURES, TABLES, export
from countergen_edit.reports.render.card import write_evidence
from countergen_edit.reports.render.terminal import print_sections
from countergen_edit.reports.sections import sections
from countergen_edit.runs.cid import ASKED, read_ratings, write_sheets

EVIDENCE = "evidence"
CODES = {"holds": 0, "fails": 1, "cannot tell": 2}
SEED = 0
"""Seed of the order of texts on rating sheets."""


def run_report(config: Content, words: Sequence[str] = ()) -> None:
    """Print all tables and findings of a run; write its page and the requested files."""
    if not config["run"]:
        raise UserError("no run is named: write countergen-edit report RUN, RUN being its folder")
    forms = listed(config["files"])
    for form in forms:
        require_known("form", form, (*FIGURES, *TABLES, EVIDENCE))
    opened = api.load_run(config["run"])
    parts = sections(opened)
    print_sections(parts, console)
    say([f"Page: {opened.report()}"])
    if not forms:
        say([f"Next, as files: {command('report', opened.path, 'files=[pdf,latex,evidence]')}"])
        return
    folder = Path(config["folder"] or opened.path / "files")
    files = export(parts, folder, [form for form in forms if form != EVIDENCE])
    files += [write_evidence(opened, folder)] if EVIDENCE in forms else []
    say([f"{len(files)} files in {folder}"])


def run_compare(config: Content, words: Sequence[str] = ()) -> None:
    """Print the runs side by side, and their differences where they share prompts."""
    runs = listed(config["runs"])
    comparison = api.compare(*runs)
    show_comparison(comparison)
    if config["folder"]:
        say(["", f"Report: {comparison.report(Path(config['folder']))}"])
    else:
        say(["", f"Next, as a page, with every row: {command('compare', *runs, 'folder=DIR')}"])


def show_comparison(comparison: Comparison) -> None:
    """Print the brief tables of a comparison."""
    print_sections(comparison.sections, console)
    if not {*comparison.tables} - {"side_by_side", "axes"}:
        say(["These runs share no prompts on which R was measured: nothing is paired."])


def run_gate(config: Content, words: Sequence[str] = ()) -> None:
    """Hold a run to limits; exit with code 1 if a check fails, else 2 if one cannot be told."""
    if not config["run"]:
        raise UserError("no run is named: write countergen-edit gate RUN group_effect=0.3")
    result = api.gate(config["run"], strict=config["strict"], **config["limits"])
    if config["json"]:
        result.write_json(Path(config["json"]).expanduser())
    say(result.lines)
    if code := CODES[result.verdict]:
        raise SystemExit(code)


def run_rate(config: Content, words: Sequence[str] = ()) -> None:
    """Write the rating sheets of every rater, or read them into the runs."""
    require_known("action", config["action"], ("sheet", "ratings"))
    runs = [Path(run).expanduser() for run in listed(config["runs"])]
    folder = Path(config["folder"]).expanduser()
    if config["action"] == "ratings":
        read_ratings(runs, folder, SEED)
        for path in runs:
            show_run(api.load_run(path))
        return
    sheets = write_sheets(runs, folder, listed(config["raters"]), SEED)
    say([*(f"Rating sheet: {path}" for path in sheets), ASKED])
    again = command("rate", "action=ratings", *runs, f"folder={folder}")
    say([f"Next, with all sheets filled in: {again}"])


def run_testbed(config: Content, words: Sequence[str] = ()) -> None:
    """Verify a testbed."""
    from countergen_edit.models import load_model
    from countergen_edit.reports.verify_testbed import agreement_shares, verify_testbed
    from countergen_edit.testbed import directory, load_truth, truth_in

    source = Path(config["folder"]) if config["folder"] else directory()
    model, truth = load_model(source), truth_in(source) or load_truth()
    say([verify_testbed(model, truth).to_string(float_format="%.3f", na_rep="–")])
    shares = agreement_shares(model, truth).items()
    texts = ", ".join(f"{group or 'both groups'} {p:.3f}" for group, p in shares)
    say([f"Agreement: {texts}.", "Next, erase what was planted: countergen-edit audit"])
