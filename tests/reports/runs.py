"""Run folders made by hand: an audit with rows of every section, and texts that mean harm."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from countergen_edit.core.writing import write_json_lines
from countergen_edit.data.fairpair import PairedPrompt
from countergen_edit.edits import Edit, NamedEdit
from countergen_edit.erasers import AffineErasure
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import SCHEMA, UNEDITED, Row
from countergen_edit.reports.blocks import Section, Table
from countergen_edit.reports.render.terminal import print_run, print_sections, print_table
from countergen_edit.runs.folder import RunFolder
from countergen_edit.runs.run import Run

HARMFUL = '<script>window.harmed = 1</script><img src=x onerror="window.harmed = 1">'
"""A continuation that must stay a text."""
TEXT = f"a nurse {HARMFUL} </script><!-- $x$ & \u2028 \x07 'quoted'"
MANIFEST = {
    "schema": SCHEMA,
    "fingerprint": "f" * 64,
    "model": "testbed",
    "model_hash": "a" * 64,
    "versions": {"countergen-edit": "0.2.0", "torch": "2.13.0"},
    "seed": 0,
    "command": ["countergen-edit", "audit", "seed=0"],
    "metrics": {name: name for name in ("r", "paraphrases", "agreement", "perplexity", "kl")},
    "budgets": {"agreement": 0.01, "perplexity": 0.5},
    "git_commit": None,
}
GROUPS = {"axis": "gender", "group_a": "female", "group_b": "male"}
EDITS: dict[str, NamedEdit] = {}
"""Every edit that these rows are about, by its id."""


def edit_at(eraser: str, *layers: int, rank: int = 1, task: str = "", width: int = 8) -> NamedEdit:
    """An edit of one eraser at some layers; one named `random` is a control."""
    directions = np.eye(width)[:, :rank]
    erasure = AffineErasure(directions, directions.T, np.zeros(width))
    edit = Edit.at("resid_post", dict.fromkeys(layers, erasure))
    basis = [eraser, *layers, rank, task]
    named = NamedEdit.of(edit, eraser, basis=basis, baseline=eraser == "random", task=task)
    EDITS[named.id] = named
    return named


def columns(eraser: str, *layers: int, rank: int = 1, task: str = "") -> dict[str, Any]:
    return edit_at(eraser, *layers, rank=rank, task=task).record.columns


LEACE, RANDOM = columns("leace", 2), columns("random", 2)
LABELS = {"leace": "leace-1@resid_post.2", "random": "random-1@resid_post.2"}


def in_memory(rows: Iterable[Row], manifest: Any = MANIFEST) -> Run:
    records = {key: named.record for key, named in EDITS.items()}
    return Run(Path("nowhere"), Results([*rows], records), manifest)


def printed(what: Run | Table | list[Section], width: int = 80) -> str:
    """What a terminal shows of a run, a table or sections."""
    console = Console(width=width, file=io.StringIO())
    if isinstance(what, Run):
        print_run(what, console)
    elif isinstance(what, Table):
        print_table(what, console)
    else:
        print_sections(what, console)
    return console.file.getvalue()


def audit_rows() -> list[Row]:
    """What an audit with R records of three sets, two edits and three layers."""
    rows = []
    for k, name in enumerate(("jobs", "traits", "hobbies")):
        for shift, edit in ((0.0, {}), (0.3, LEACE), (0.01, RANDOM)):
            about: dict[str, Any] = {"dataset": f"{name}_test", "split": "test", "n": 10}
            about |= GROUPS | edit
            bias = 0.6 + k / 100 - shift
            ends = {"lo": bias - 0.05, "hi": bias + 0.05}
            test = {"p": 0.001, "p_adjusted": 0.003, "people": 12, "people_needed": 4}
            rows.append(Row("group_effect", bias, **ends, detail=test, **about))
            rows.append(Row("mean_abs_r", bias, **ends, **about))
            rows.append(Row("null_abs_r", 0.2, **about))
            rows.append(Row("r", 0.1 - shift, detail={"starred": k == 0}, **about))
            if edit:
                for metric in ("abs_r_reduction", "group_effect_removed"):
                    rows.append(Row(metric, shift, lo=0.0, hi=0.9, **about))
        for metric in ("planted_mean_abs_r", "planted_group_effect"):
            rows.append(Row(metric, 0.61, dataset=f"{name}_test", split="test", **GROUPS))
    for edit in ({}, LEACE, RANDOM):
        for group_b in ("male", ""):
            about = {"dataset": "agreement", "axis": "gender", "group_a": "female", **edit}
            about |= {"group_b": group_b, "split": "test"}
            rows.append(Row("agreement", 0.9, lo=0.8, hi=0.95, **about))
        for metric in ("perplexity", "perplexity_ratio", "kl"):
            rows.append(Row(metric, 1.25, lo=1.2, hi=1.3, dataset="neutral", split="test", **edit))
    about = {"split": "validation", **GROUPS}
    for metric in ("mean_abs_r", "group_effect"):
        rows.append(Row(metric, 0.6, dataset="jobs_validation", **about))
    rows.append(Row("agreement", 0.95, dataset="agreement_validation", **about))
    for layer in range(3):
        about = {"split": "validation", **GROUPS, **columns("leace", layer)}
        for metric in ("mean_abs_r", "group_effect"):
            rows.append(Row(metric, 0.2 + layer / 10, dataset="jobs_validation", **about))
        rows.append(Row("agreement", 0.9, dataset="agreement_validation", **about))
        detail = {"guaranteed": True, "reason": ""}
        for kind, end in product(("linear", "nonlinear"), ("", "_before")):
            metric = f"{kind}_probe_accuracy{end}"
            rows.append(Row(metric, 0.5, dataset="fit", detail=detail, **about))
    return rows


def unedited(rows: list[Row] | None = None) -> list[Row]:
    """Those of some rows, or of an audit's, that are of no edit."""
    return [row for row in rows or audit_rows() if row.edit == UNEDITED]


def other_axes_rows() -> list[Row]:
    """What an audit records of an axis that it is not about."""
    groups = {"axis": "nationality", "group_a": "egypt_male", "group_b": "usa_male"}
    rows = []
    for edit in ({}, LEACE, RANDOM):
        about: dict[str, Any] = {"dataset": "reasons_test", "split": "test", **groups, **edit}
        detail: dict[str, Any] = {"p": 0.01, "p_adjusted": 0.02, "people": 4}
        rows.append(Row("off_target", 0.5, lo=0.4, hi=0.6, n=20, detail=detail, **about))
        if edit:
            test = {"p": 0.6, "p_adjusted": 0.6}
            rows.append(Row("off_target_change", 0.0, lo=-0.1, hi=0.1, n=20, detail=test, **about))
    return rows


def text_rows() -> list[Row]:
    """What metrics that let a model write record, with texts that mean harm."""
    rows = []
    for edit in ({}, LEACE):
        about: dict[str, Any] = {"split": "test", **GROUPS, **edit}
        common = {"dataset": "common_sents", **about}
        sets = {"facets": {"phi": "sentiment"}, **common}
        prompts = [[f"prompt {i} {HARMFUL}", 0.3 + i / 50, 0.2, 0.25, 1.05, 0.2] for i in range(6)]
        detail: dict[str, Any] = {"prompts": prompts, "p_adjusted": 0.03, "tested_prompts": 6}
        rows.append(Row("fairpair_f", 1.05, detail=detail, **sets))
        for end in ("bias", "v_gp", "v_pg", "energy"):
            rows.append(Row(f"fairpair_{end}", 0.31, **sets))
        term = {"text": f"$ {HARMFUL}", "share_pg": 0.1, "share_gp": 0.4, "log_odds": 1.5, "p": 0}
        detail = {"terms": [term], "source": "male", "target": "female"}
        rows.append(Row("fairpair_ngrams", 1.0, detail=detail, **common))
        units = {"neutral": 0.0, "words": 0.2, "characters": 0.1}
        example = {"original": TEXT, "perturbed": TEXT, "left_out": None, "dissimilarity": units}
        detail = {"left_out": {"names": 2}, "examples": [example]}
        detail |= {"compared": "characters", "shares": units}
        rows.append(Row("fairpair_perturbed", 0.9, detail=detail, **common))
        for group in ("female", "male"):
            detail = {"counts": [[TEXT, 3]], "automatic": {TEXT: ["sex"]}}
            of_group = about | {"group_a": group, "group_b": "", "dataset": "cid"}
            of_group["facets"] = {"lambda": 10.0, "template": "{name} is"}
            rows.append(Row("cid_continuations", 1.0, n=4, detail=detail, **of_group))
        for strength in (0.0, 10.0):
            of_lambda = about | {"dataset": "cid", "facets": {"lambda": strength}}
            rows.append(Row("cid_divergence", 0.2, lo=0.1, hi=0.3, **of_lambda))
        counts = {"r": 0.1, "leans": 1, "a": 1, "b": 0, "insignificant": 2}
        paraphrases = [
            {"content": TEXT, "paraphrase": f"{TEXT} {i}", "mean_abs_r": 0.5 + i / 10} | counts
            for i in range(3)
        ]
        of_set = about | {"dataset": "jobs_test"}
        detail = {"paraphrases": paraphrases}
        rows.append(Row("r_sd_over_paraphrases", 0.1, detail=detail, **of_set))
        rows.append(Row("paraphrases_holding", 3.0, n=3, **of_set))
    return rows


def classifier_rows() -> list[Row]:
    """What a classifier task records: a template, its paraphrases, and what they say."""
    about: dict[str, Any] = {"group_a": "female", "group_b": "male", "dataset": "feels"}
    paraphrase = {"paraphrase": f"{{name}} feels {HARMFUL}"}
    first = {"original": True}
    of_row = {"facets": paraphrase, **about}
    rows = [Row("sentiment_difference", -0.2, lo=-0.3, hi=-0.1, detail=first, **of_row)]
    for test, p, category in (("people", 0.3, 0), ("sentences", 0.01, -1)):
        detail: dict[str, Any] = first | {"category": category}
        of_test = about | {"facets": paraphrase | {"test": test}}
        rows.append(Row("sentiment_t_test", p, detail=detail, **of_test))
        detail = {"original": 1, "counts": [1, 2, 0], "flips_holm": 0, "published": None}
        flips = Row("category_flips", 1 / 3, n=3, detail=detail, facets={"test": test}, **about)
        rows.append(flips)
    over = {"original": 0.1, "change": -0.5, "sd": 0.2}
    return [
        *rows,
        Row("names_in_lexicon", 1.0, detail={"valence": {HARMFUL: 2.3}}),
        Row("FPED over templates", 0.05, n=3, detail=over, dataset="feels"),
    ]


def choice_detail(**changes: Any) -> dict[str, Any]:
    """What a row `cost` tells of an edit."""
    worse = {"agreement": 0.001, "perplexity": 0.002}
    figures = {"removed": 0.5, "removed_test": 0.4, "cost_test": 0.7}
    figures |= {"degradations": worse, "degradations_test": worse}
    return {**figures, "front": True, "chosen": True, "affordable": True, **changes}


def judgement(word: str, edit: dict[str, Any] = LEACE, **detail: Any) -> Row:
    """What test data say of an edit."""
    whole = {"word": word, "named": False, "sets": {"jobs": "removed", "traits": "partly removed"}}
    whole |= {"degradations": {"agreement": 0.004, "kl": 0.01}, "groups": {}}
    whole |= {"budgets": {"agreement": 0.01, "kl": 0.05}, "over": [], "maybe": []}
    return Row("judgement", 0.4, split="test", detail=whole | detail, **edit)


def search_rows() -> list[Row]:
    """What a search records besides: every edit's cost, and one that failed."""
    about = {"dataset": "jobs", "split": "validation", **GROUPS}
    failed = {"edit": "inlp-0000000000", "eraser": "inlp", "site": "resid_post", "layers": (0,)}
    return [
        Row("bias_removed", 0.5, **about, **LEACE),
        Row("bias_removed", 0.4, lo=0.3, hi=0.5, **(about | {"split": "test"}), **LEACE),
        Row("cost", 0.5, detail=choice_detail(), **about, **LEACE),
        Row("error", None, detail={"error": f"ValueError: {HARMFUL}"}, **failed),
    ]


def make_run(
    path: Path, rows: list[Row] | None = None, *, outputs: int = 60, manifest: Any = MANIFEST
) -> Path:
    """A run folder with these rows and their edits, and with a store of single texts."""
    folder = RunFolder(path, {"seed": 0, "data": {"test": [HARMFUL]}}, manifest)
    if rows is None:
        rows = [*audit_rows(), *other_axes_rows(), *text_rows(), *classifier_rows(), *search_rows()]
    for edit in dict.fromkeys(row.edit for row in rows if row.edit in EDITS):
        folder.keep(EDITS[edit])
    folder.record("unit", [replace(row, unit="unit") for row in rows])
    for edit, shift in (("none", 0.0), (LEACE["edit"], 0.5)):
        words = [f" output {i:02} {HARMFUL if i == 0 else ''}" for i in range(outputs)]
        scores = [[[-1.0 - i / 50, -1.1], [-1.5 + shift / 2, -1.2]] for i in range(outputs)]
        about = {"edit": edit, "split": "test", "dataset": "jobs_test", "axis": "gender"}
        about |= {"groups": ["female", "male"], "template": "{name} is", "outputs": words}
        about |= {"texts": [["Jane is", "Anna is"], ["John is", "Paul is"]]}
        about |= {"names": [["Jane", "Anna"], ["John", "Paul"]], "log_p": scores}
        about |= {"r": [(i - outputs / 2) / outputs for i in range(outputs)]}
        about |= {"z": [i / 10 for i in range(outputs)]}
        store(path, f"r/{edit}.jsonl", about)
    prompt = vars(PairedPrompt("nurse", "John is", "Jane is", "John", "Jane"))
    store(path, "fairpair/none/k.jsonl", prompt, {"g_x": TEXT, "g_px": TEXT})
    store(path, "fairpair/none/k.perturbed.jsonl", {"p_x": TEXT, "left_out": None})
    item = {"template": "{name} is", "group": "female", "own": "Jane", "other": "John"}
    store(path, "cid/none.jsonl", item | {"strength": 10.0, "text": TEXT, "divergence": 0.2})
    return path


def store(run: Path, name: str, *lines: dict[str, Any]) -> None:
    write_json_lines(run / "store" / "gender" / name, lines)
