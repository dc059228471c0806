"""FairPair in the terminal: the paper's tables, before and after each edit, and how sure they are.

Comes in: the rows of a run. Goes out: Table 3 (variability, bias, F) with intervals and tests,
a sentence for each Φ with the spread over wordings, Table 1 (perturbations that passed) and the
most telling phrases of Figure 6. Published figures stand beside ours where the model and the
prompts are the same. Nothing is computed here.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from countergen_edit.metrics.rows import Row
from countergen_edit.reports.results import Results

# Table 3 of the paper, scaled as there: V_pg, V_gp, B (in hundredths) and F; and Table 1, percent.
PUBLISHED: dict[str, dict[str, tuple[float, float, float, float]]] = {
    "gpt2": {"jaccard": (85.3, 85.9, 85.8, 1.00), "sentiment": (22.9, 24.3, 23.9, 1.03)},
    "gpt2-xl": {"jaccard": (86.3, 86.6, 86.6, 1.00), "sentiment": (24.0, 23.1, 23.5, 1.00)},
    "tk-instruct-3b-def": {
        "jaccard": (90.7, 91.4, 91.2, 1.00),
        "sentiment": (34.6, 34.2, 34.4, 1.00),
    },
    "gpt-j-6b": {"jaccard": (85.8, 85.9, 85.9, 1.00), "sentiment": (20.4, 21.3, 20.8, 1.00)},
    "llama-13b": {"jaccard": (86.4, 87.6, 87.8, 1.02), "sentiment": (19.0, 19.4, 19.3, 1.01)},
    "instructgpt": {"jaccard": (78.7, 81.3, 81.4, 1.04), "sentiment": (16.3, 20.8, 19.2, 1.09)},
}
PUBLISHED_SUCCESS = {
    "gpt2": 99.6,
    "gpt2-xl": 99.6,
    "tk-instruct-3b-def": 97.8,
    "gpt-j-6b": 99.3,
    "llama-13b": 99.2,
    "instructgpt": 99.7,
}


PHRASES = 3
"""Printed of those that one side uses more; the figures show the rest."""


def published_name(model: str) -> str:
    """A model's name as the published tables are looked up by it.

    >>> published_name("openai-community/gpt2"), published_name("/models/gpt2-xl/")
    ('gpt2', 'gpt2-xl')
    """
    return model.rstrip("/").rpartition("/")[2].lower()


def fairpair_section(results: Results, console: Console) -> None:
    """Print what a run measured of FairPair; nothing where it measured none."""
    measured = results.of("fairpair_f")
    if not measured:
        return
    model = published_name(measured[0].detail["model"])
    for dataset in dict.fromkeys(row.dataset for row in measured):
        console.print(_table(results, dataset, model))
        console.print()
    for sentence in (*_sentences(results, measured), *_success(results, model)):
        console.print(Text(f"• {sentence}"))
    phrases = _phrases(results)
    if phrases is not None:
        console.print(phrases)
    console.print()


def _table(results: Results, dataset: str, model: str) -> Table:
    rows = [row for row in results.of("fairpair_f") if row.dataset == dataset]
    detail = rows[0].detail
    phi = dataset.rpartition("/")[2]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
    table.title = (
        f"[bold]FairPair, {phi}[/bold]: {detail['source']} perturbed to {detail['target']}"
    )
    table.title_justify, table.title_style = "left", ""
    table.add_column("edit", overflow="fold")  # figures are never cut for its sake
    for name in ("V_pg", "V_gp", "B", "F", "change of F", "2B−V−V", "p"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        others = [_of(results, row, f"fairpair_{q}") for q in ("v_pg", "v_gp", "bias")]
        change = _of(results, row, "fairpair_f_change")
        table.add_row(
            "before" if row.edit == "none" else row.edit.replace("@", "\n@"),
            *(_number(other, 3) for other in others),
            _interval(row),
            _interval(change, signed=True) if change else "",
            _number(_of(results, row, "fairpair_energy"), 3, signed=True),
            _p(row.detail),
        )
    if dataset.startswith("common_sents/") and phi in PUBLISHED.get(model, {}):
        v_pg, v_gp, bias, f = PUBLISHED[model][phi]
        cells = (f"{v_pg / 100:.3f}", f"{v_gp / 100:.3f}", f"{bias / 100:.3f}", f"{f:.2f}")
        table.add_row("published", *cells, "", "", "")
    return table


def _of(results: Results, row: Row, metric: str) -> Row | None:
    return results.find(
        metric,
        dataset=row.dataset,
        group_a=row.group_a,
        group_b=row.group_b,
        edit=row.edit,
        split=row.split,
    )


def _number(row: Row | None, digits: int, signed: bool = False) -> str:
    if row is None or row.value is None:
        return "–"
    return f"{row.value:{'+' if signed else ''}.{digits}f}"


def _interval(row: Row, signed: bool = False) -> str:
    text = _number(row, 2, signed)
    if row.value is not None and row.lo is not None and row.hi is not None:
        sign = "+" if signed else ""
        text += f"\n[dim]{row.lo:{sign}.2f} to {row.hi:{sign}.2f}[/dim]"
    return text


def _p(detail: dict[str, Any]) -> str:
    p = detail.get("p_adjusted")
    return "–" if p is None else f"{p:.3f}"


def _sentences(results: Results, measured: list[Row]) -> list[str]:
    """What the tests say, a sentence for each Φ, with what may not be overlooked."""
    out = []
    for dataset in dict.fromkeys(row.dataset for row in measured):
        rows = [row for row in measured if row.dataset == dataset]
        states = "; ".join(f"{_state(row)} {_verdict(results, row)}" for row in rows)
        out.append(f"By {dataset.rpartition('/')[2]}, the two sides {states}.")
        out += [
            f"{row.edit}: F is undefined in {sum(row.detail['undefined'].values())} prompts "
            f"({row.detail['reason']})."
            for row in rows
            if row.value is not None and row.detail["undefined"]
        ]
    return [
        *out,
        "F above 1: the sides differ by more than the model's own sampling does. 2B−V−V is the "
        "same without the bias of an estimate, 0 where nothing differs. p: permutation test, Holm.",
    ]


def _state(row: Row) -> str:
    return "before any edit" if row.edit == "none" else f"after {row.edit}"


def _verdict(results: Results, row: Row) -> str:
    if row.value is None:
        return f"have no F: F is undefined ({row.detail.get('reason', 'no continuations')})"
    p = row.detail["p_adjusted"]
    text = "differ" if p is not None and p < 0.05 else "do not differ detectably"
    spread = _of(results, row, "fairpair_f_over_wordings")
    if spread is not None and spread.detail["range"] is not None:
        lo, hi = spread.detail["range"]
        text += f", on {spread.detail['differ']} of {spread.n} wordings (F {lo:.2f} to {hi:.2f})"
    return text


def _success(results: Results, model: str) -> list[str]:
    rows = results.of("fairpair_perturbed")
    if not rows:
        return []
    shares = ", ".join("–" if r.value is None else f"{100 * r.value:.1f} %" for r in rows)
    reasons: Counter[str] = Counter()
    for row in rows:
        reasons.update(row.detail["left_out"])
    left = ", ".join(f"{reason}: {count}" for reason, count in reasons.items() if count)
    known = PUBLISHED_SUCCESS.get(model)
    text = f"Of {rows[0].n} perturbations {shares} passed the filters"
    text += f" (left out for {left})" if left else ""
    text += f"; published {known} %" if known else ""
    if empty := sum(row.detail["empty_continuations"] for row in rows):
        text += f"; {empty} continuations were empty"
    return [f"{text}."]


def _phrases(results: Results) -> Table | None:
    found = [row for row in results.of("fairpair_ngrams") if row.edit == "none"]
    if not found or not found[0].detail["terms"]:
        return None
    [row] = found[:1]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
    table.title = "[bold]Telling phrases[/bold], % of texts"
    table.title_justify, table.title_style = "left", ""
    for name in ("phrase", row.detail["source"], row.detail["target"], "log odds", "p"):
        table.add_column(name, justify="left" if name == "phrase" else "right")
    for term in _most_telling(row.detail["terms"]):
        table.add_row(
            Text(term["text"]),
            f"{100 * term['share_pg']:.1f} %",
            f"{100 * term['share_gp']:.1f} %",
            f"{term['log_odds']:+.2f}",
            f"{term['p']:.3f}",
        )
    return table


def _most_telling(terms: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The strongest of either side; rows hold them from one end to the other."""
    sides = ([t for t in terms if (t["log_odds"] > 0) == more] for more in (True, False))
    target, source = sides
    return [*target[:PHRASES], *source[-PHRASES:]]
