"""Run folders made by hand: an audit with rows of every section, and texts that mean harm."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from countergen_edit.experiments.run_folder import RunFolder
from countergen_edit.metrics.rows import Row

HARM = '<script>window.harmed = 1</script><img src=x onerror="window.harmed = 1">'
"""A continuation that must stay a text."""
TEXT = f"a nurse {HARM} </script><!-- $x$ & \u2028 \x07 'quoted'"
MANIFEST = {
    "fingerprint": "f" * 64,
    "model": "testbed",
    "model_hash": "a" * 64,
    "versions": {"countergen-edit": "0.1.0", "torch": "2.13.0"},
    "seed": 0,
    "command": ["countergen-edit", "audit", "seed=0"],
    "git_commit": None,
}
LEACE = {"edit": "leace-1@resid_post.2", "eraser": "leace", "layer": 2, "rank": 1}
RANDOM = {"edit": "random-1@resid_post.2", "eraser": "random", "layer": 2, "rank": 1}
GROUPS = {"axis": "gender", "group_a": "female", "group_b": "male"}


def audit_rows() -> list[Row]:
    """What an audit with R records of three sets, two edits and three layers."""
    rows = []
    for k, name in enumerate(("jobs", "traits", "hobbies")):
        for shift, columns in ((0.0, {}), (0.3, LEACE), (0.01, RANDOM)):
            about: dict[str, Any] = {
                "dataset": f"{name}_test",
                "split": "test",
                "n": 10,
                **GROUPS,
                **columns,
            }
            bias = 0.6 + k / 100 - shift
            rows.append(Row("mean_abs_r", bias, lo=bias - 0.05, hi=bias + 0.05, **about))
            rows.append(Row("r", 0.1 - shift, detail={"starred": k == 0}, **about))
            if columns:
                rows.append(Row("abs_r_reduction", shift, lo=0.0, hi=0.9, **about))
        rows.append(Row("planted_mean_abs_r", 0.61, dataset=f"{name}_test", split="test", **GROUPS))
    for columns in ({}, LEACE, RANDOM):
        for group_b in ("male", ""):
            about = {"dataset": "agreement", "axis": "gender", "group_a": "female", **columns}
            rows.append(
                Row("agreement", 0.9, lo=0.8, hi=0.95, group_b=group_b, split="test", **about)
            )
        for metric in ("perplexity", "perplexity_ratio", "kl"):
            rows.append(
                Row(metric, 1.25, lo=1.2, hi=1.3, dataset="neutral", split="test", **columns)
            )
    for layer in range(3):
        columns = LEACE | {"layer": layer, "edit": f"leace-1@resid_post.{layer}"}
        about = {"split": "validation", **GROUPS, **columns}
        rows.append(Row("mean_abs_r", 0.2 + layer / 10, dataset="jobs_validation", **about))
        rows.append(Row("agreement", 0.9, dataset="agreement_validation", **about))
        for kind in ("linear", "nonlinear"):
            for end in ("", "_before"):
                detail = {"guaranteed": True, "reason": ""}
                metric = f"{kind}_probe_accuracy{end}"
                rows.append(Row(metric, 0.5, dataset="fit", detail=detail, **about))
    return rows


def text_rows() -> list[Row]:
    """What metrics that let a model write record, with texts that mean harm."""
    rows = []
    for columns in ({}, LEACE):
        about = {"split": "test", **GROUPS, **columns}
        sets = {"dataset": "common_sents/sentiment", **about}
        prompts = [[f"prompt {i} {HARM}", 0.3 + i / 50, 0.2, 0.25, 1.05, 0.2] for i in range(6)]
        detail = {"prompts": prompts, "p_adjusted": 0.03, "tested_prompts": 6}
        rows.append(Row("fairpair_f", 1.05, detail=detail, **sets))
        for end in ("bias", "v_gp", "v_pg", "energy"):
            rows.append(Row(f"fairpair_{end}", 0.31, **sets))
        term = {"text": f"$ {HARM}", "share_pg": 0.1, "share_gp": 0.4, "log_odds": 1.5, "p": 0.01}
        detail = {"terms": [term], "source": "male", "target": "female"}
        rows.append(Row("fairpair_ngrams", 1.0, detail=detail, dataset="common_sents", **about))
        example = {"original": TEXT, "perturbed": TEXT, "left_out": None}
        detail = {"left_out": {"names": 2}, "examples": [example]}
        rows.append(Row("fairpair_perturbed", 0.9, detail=detail, dataset="common_sents", **about))
        for group in ("female", "male"):
            counts = {"lambda": 10.0, "template": "{name} is", "counts": [[TEXT, 3]]}
            detail = counts | {"automatic": {TEXT: ["sex"]}}
            of_group = about | {"group_a": group, "group_b": "", "dataset": "{name} is, λ=10"}
            rows.append(Row("cid_continuations", 1.0, n=4, detail=detail, **of_group))
        for strength in (0.0, 10.0):
            of_lambda = about | {"dataset": f"cid, λ={strength:g}"}
            detail = {"lambda": strength}
            rows.append(Row("cid_divergence", 0.2, lo=0.1, hi=0.3, detail=detail, **of_lambda))
        wordings = [
            {"wording": f"{TEXT} {i}", "r": 0.1, "mean_abs_r": 0.5 + i / 10, "leans": 1}
            for i in range(3)
        ]
        of_set = about | {"dataset": "jobs_test"}
        rows.append(Row("r_sd_over_wordings", 0.1, detail={"wordings": wordings}, **of_set))
        rows.append(Row("wordings_holding", 3.0, n=3, **of_set))
    return rows


def template_rows() -> list[Row]:
    """What a template task records: a template, its rewordings, and what they say."""
    about = {"group_a": "female", "group_b": "male", "dataset": "feels"}
    detail = {"original": 1, "counts": [1, 2, 0], "flips_holm": 0, "published": None}
    over = {"original": 0.1, "change": -0.5, "sd": 0.2}
    wording = {"wording": f"{{name}} feels {HARM}", "original": True, "category": -1}
    return [
        Row("sentiment_difference", -0.2, lo=-0.3, hi=-0.1, detail=wording, **about),
        Row("category_flips", 1 / 3, n=3, detail=detail, **about),
        Row("names_in_lexicon", 1.0, detail={"valence": {HARM: 2.3}}),
        Row("FPED over wordings", 0.05, n=3, detail=over, dataset="feels"),
    ]


def sweep_rows() -> list[Row]:
    """What a sweep records besides: every edit's cost, and one that failed."""
    detail: dict[str, Any] = {
        "removed": 0.5,
        "removed_test": 0.4,
        "cost_test": 0.7,
        "agreement_lost_test": 0.01,
        "perplexity_ratio_test": 1.01,
    }
    marks = detail | {"front": True, "chosen": True}
    about = {"dataset": "jobs", "split": "validation", **GROUPS}
    return [
        Row("cost", 0.5, detail=marks, **about, **LEACE),
        Row("error", None, detail={"error": f"ValueError: {HARM}"}, edit="inlp-8@resid_post.0"),
    ]


def make_run(
    path: Path, rows: list[Row] | None = None, *, outputs: int = 60, manifest: Any = MANIFEST
) -> Path:
    """A run folder with these rows, and with a store of R's scored texts."""
    folder = RunFolder(path, {"seed": 0, "data": {"test": [HARM]}}, manifest)
    rows = [*audit_rows(), *text_rows(), *template_rows(), *sweep_rows()] if rows is None else rows
    folder.record("unit", [replace(row, unit="unit") for row in rows])
    for label, shift in (("none", 0.0), (LEACE["edit"], 0.5)):
        words = [f" output {i:02} {HARM if i == 0 else ''}" for i in range(outputs)]
        store(
            path / "store" / "r" / f"{label}.jsonl",
            {
                "edit": label,
                "split": "test",
                "dataset": "jobs_test",
                "axis": "gender",
                "groups": ["female", "male"],
                "template": "{name} is",
                "outputs": words,
                "texts": [["Jane is", "Anna is"], ["John is", "Paul is"]],
                "names": [["Jane", "Anna"], ["John", "Paul"]],
                "r": [(i - outputs / 2) / outputs for i in range(outputs)],
                "log_p": [
                    [[-1.0 - i / 50, -1.1], [-1.5 + shift / 2, -1.2]] for i in range(outputs)
                ],
            },
        )
    about = {"prompt": "John is", "perturbed_prompt": "Jane is"}
    store(path / "store" / "fairpair" / "none" / "k.jsonl", about, {"g_x": TEXT, "g_px": TEXT})
    store(path / "store" / "fairpair" / "none" / "k.perturbed.jsonl", {"p_x": TEXT})
    item = {"template": "{name} is", "own": "Jane", "other": "John", "strength": 10.0}
    store(path / "store" / "cid" / "none.jsonl", item | {"text": TEXT, "divergence": 0.2})
    return path


def store(path: Path, *lines: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
