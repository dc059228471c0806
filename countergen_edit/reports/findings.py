"""The sentences of a run: its findings, its verdict, and the next command."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from countergen_edit.core.errors import command
from countergen_edit.decisions import JUDGEMENT, NOTHING, RECOMMENDED
from countergen_edit.decisions.judgement import recommended, selected
from countergen_edit.decisions.selection import worthwhile
from countergen_edit.decisions.significance import BIAS_SIGNIFICANT, class_of
from countergen_edit.edits import EditRecord
from countergen_edit.edits.checkpoints import Saved
from countergen_edit.metrics.results import MOST_EDITS, Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import Number
from countergen_edit.reports.views.base import View, first_few, grouped
from countergen_edit.runs.files import FAILED, quick_try

if TYPE_CHECKING:
    from countergen_edit.runs.run import Run

_MOST_SETS = 4
MOST_LINES = 6
"""Lines of a verdict; two more say how to save the edit and where the page is."""
SAME_QUESTION = ("model", "axis", "data", "texts", "names", "groups", "seed")
_DIGITS = re.compile(r"\d[\d.]*(?:e-?\d+)?")


@dataclass(frozen=True)
class Verdict:
    """At most six lines; printed, one below the other."""

    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def verdict(run: Run) -> Verdict:
    """Recommended edit, bias, removal, cost and remaining differences; of several tasks, each."""
    parts = [_verdict_of_task(part) for part in run.by_task().values()]
    first = cautions(run)
    each = max(1, (MOST_LINES - len(first)) // len(parts))
    lines = [*dict.fromkeys(line for part in parts for line in part[:each])]
    # The recommendation comes before cautions.
    return Verdict((*lines[:1], *first, *lines[1:])[:MOST_LINES])


def findings(run: Run) -> tuple[str, ...]:
    """Every sentence, task by task; of a search, about the chosen edit and its control."""
    quick = cautions(run)[:1] if run.config.get("limit") else []
    sentences = [s for part in run.by_task().values() for s in _findings_of_task(part)]
    why = "whose class cannot be loaded"
    unshown = [f"Not shown: {name}, {why}: {error}" for name, error in run.unshown.items()]
    return tuple(dict.fromkeys([*quick, *sentences, *cautions(run), *unshown]))


def cautions(run: Run) -> list[str]:
    """That the run was a quick try, and the warnings of its manifest."""
    limit = run.config.get("limit")
    quick = [quick_try(limit)] if limit else []
    return [*quick, *map(str, run.manifest.get("warnings", ()))]


def _verdict_of_task(run: Run) -> list[str]:
    edit = selected(run.results)
    about = run.results if edit is None else of_edit(run.results, edit)
    biases = [view for view in run.views if view.kind == "bias" and view.headline(about)]
    others = [view for view in run.views if view.kind != "bias"]
    lines = [*advice(run.results), *(line for view in biases for line in view.headline(about))]
    lines += not_fitted(run.results)
    if edit is None or not biases:
        return lines + [line for view in others for line in view.headline(about)]
    chosen = choice(run)[:1] if run.results.of("cost", "validation") else []
    lines += [*chosen, *(line for view in biases if (line := view.outcome(about, edit)))]
    if not chosen and (cost := costs_of(others, about, edit)):
        lines.append(f"Cost of {edit.name_in_text}: {cost}.")
    if left := [part for view in others for part in view.remaining(about, edit)]:
        lines.append(f"Remaining under {edit.name_in_text}: {'; '.join(left)}.")
    return lines


def _findings_of_task(run: Run) -> list[str]:
    results = of_chosen(run.results)
    biases = [view for view in run.views if view.kind == "bias"]
    others = [view for view in run.views if view.kind != "bias"]
    sentences = [*advice(results), *not_fitted(run.results)]
    priced: set[str] = set()
    for view in biases:
        sentences += view.sentences(results)
        for edit in results.shown:
            outcome = view.outcome(results, edit)
            if outcome and edit.id not in priced and (cost := costs_of(others, results, edit)):
                outcome = f"{outcome} Cost: {cost}."
                priced.add(edit.id)
            sentences += [outcome] if outcome else []
        for sentence, named in view.baselines(results):
            costs = [(edit.label, costs_of(others, results, edit)) for edit in named]
            each = "; ".join(f"{label}: {cost}" for label, cost in costs if cost)
            sentences.append(f"{sentence} Cost: {each}." if each else sentence)
    rest = [sentence for view in others for sentence in view.sentences(results)]
    # Results come before the selection, whatever measured them.
    sentences += [*choice(run), *rest] if sentences else [*rest, *choice(run)]
    return sentences + [s for view in (*biases, *others) for s in view.caveats(results)]


def of_chosen(results: Results) -> Results:
    """The results that sentences are about: of a search, or of many edits, those of one edit."""
    edits, edit = [e for e in results.edits if not e.baseline], selected(results) or results.chosen
    if edit is None or (results.chosen is None and len(edits) <= MOST_EDITS):
        return results
    return of_edit(results, edit, *results.baselines)


def of_edit(results: Results, edit: EditRecord, *others: EditRecord) -> Results:
    """The results of an edit, its control, the unedited model, and other edits."""
    kept = (edit, results.baseline_of(edit), *others)
    return results.only(edits=[UNEDITED, *(e.id for e in kept if e is not None)])


def advice(results: Results) -> list[str]:
    """The recommended edits, and why others are not; empty where none was judged."""
    rows = results.of(JUDGEMENT)
    names = {row.edit: results.records[row.edit].name_in_text for row in rows}
    good = [row for row in rows if row.detail["word"] == RECOMMENDED]
    named = next((row for row in good if row.detail["named"]), None)
    rest = ", ".join(names[row.edit] for row in good if row is not named)
    bad = "; ".join(
        f"{names[r.edit]} {r.detail['word']}{_reasons(r)}" for r in rows if r not in good
    )
    if not good:
        return [f"No edit is recommended: {bad}."] if rows else []
    text = f"Recommended: {rest}. Validation data do not rank them."
    if named is not None:
        is_priced = named.detail["degradations"]
        cost = "Every cost is within its budget." if is_priced else "No cost was measured."
        also = f" Also within the budgets: {rest}." if rest else ""
        text = f"Recommended: {names[named.edit]}. {cost}{also}"
    return [text, f"Not recommended: {bad}."] if bad else [text]


def _reasons(row: Row) -> str:
    is_nothing = row.detail["word"] == NOTHING
    sets = [name for name, c in row.detail["sets"].items() if is_nothing or c == "increased"]
    change = "bias not shown to fall" if is_nothing else "bias increased"
    reasons = [f"{change} on {few(sets)}"] if sets else []
    reasons += breaches(row.detail, row.detail["budgets"])
    return f" ({'; '.join(reasons)})" if reasons else ""


def not_fitted(results: Results) -> list[str]:
    """The erasers that gave no edit, with the first reason of each; why a search fitted none."""
    failed: dict[str, str] = {}
    for row in results.rows:
        if row.metric == FAILED:
            failed.setdefault(row.eraser, row.detail["error"])
    fitted = {row.eraser for row in results.rows if row.metric != FAILED}
    lines = [f"Not fitted: {e}: {error}." for e, error in failed.items() if e not in fitted]
    reason = no_bias(results) if results.is_unedited else ""
    return [*lines, f"No edit was fitted: {reason}."] if reason else lines


def failures(errors: Collection[Row]) -> list[str]:
    """The candidates that failed, those together whose errors differ in digits alone."""
    lines = []
    for rows in grouped(errors, lambda row: _DIGITS.sub("#", row.detail["error"])).values():
        candidates = dict.fromkeys(
            f"{r.eraser}{f'-{r.rank}' if r.rank else ''}@{r.site}.{'+'.join(map(str, r.layers))}"
            for r in rows
        )
        lines.append(f"Failed: {', '.join(candidates)}: {rows[0].detail['error']}")
    return lines


def choice(run: Run) -> list[str]:
    """The candidate that a search chose, and the rule; of an audit, the candidates that fail."""
    results, budgets = run.results, run.budgets
    judged, best = results.of(JUDGEMENT), recommended(results)
    task = f", {results.task}" if results.task else ""
    sentences = []
    for row in (row for row in results.of("cost", "validation") if row.detail["chosen"]):
        broken = "; ".join(breaches(row.detail, budgets))
        broken = broken and f" ({broken})"
        first = f"No candidate removes bias within the budgets{task}{broken}. Cheapest"
        if best or worthwhile(row):
            first = f"{'Best' if judged and best else 'Selected on validation data'}{task}"
        sentences.append(f"{first}: {_does(results, row)}")
    if sentences:
        return [
            *sentences,
            "The choice uses validation data alone: of the candidates that remove bias at a cost "
            "of at most 1, the one that removes most; without one, the cheapest that removes half "
            "as much as any. A cost of 1 is the full budget of the worst of "
            f"{_listed(budgets) or 'all costs'}.",
        ]
    good = {row.edit for row in judged if row.detail["word"] == RECOMMENDED}
    bad = [r for r in results.of("choice", "validation") if not worthwhile(r)]
    reasons = {r.edit: breaches(r.detail, budgets) for r in bad if r.edit not in good}
    each = [f"{results.label(e)} ({'; '.join(r) or 'nothing shown'})" for e, r in reasons.items()]
    text = f"On validation data these do not remove bias within the budgets: {'; '.join(each)}."
    return [text] if each else []


def _does(results: Results, row: Row) -> str:
    """What a chosen candidate removes and costs, on test data where they show a removal."""
    words = {judged.detail["word"] for judged in results.of(JUDGEMENT, edit=row.edit)} - {NOTHING}
    by_split = (results.of("bias_removed", split, row.edit) for split in ("test", "validation"))
    tested, validated = (next(iter(rows), None) for rows in by_split)
    is_tested = bool(words and tested)
    removed = tested if is_tested else validated
    share = Number(row.detail["removed"], digits=4, percent=True)
    share = share if removed is None else Number.of(removed, 4, percent=True)
    sets = f" ({removed.dataset.replace('+', ', ')})" if removed else ""
    end = "_test" if is_tested and row.detail.get("degradations_test") else ""
    costs = _listed(row.detail[f"degradations{end}"], row.detail.get(f"groups{end}"))
    other = " on validation data" if is_tested and not end else ""
    return (
        f"{results.label(row.edit)} removes {share.in_text} of the bias on "
        f"{'test' if is_tested else 'validation'} data{sets}. Degradation{other}: {costs}."
    )


def no_bias(results: Results) -> str:
    """Why validation data show no bias to remove; empty where they show one."""
    row = next((r for r in results.unedited(BIAS_SIGNIFICANT, "validation") if r.value == 0), None)
    if row is None:
        return ""
    if needed := row.detail.get("names_to_test"):
        return f"bias on validation data cannot be tested: needs {needed} names per group"
    return "no significant bias on validation data"


def breaches(detail: Mapping[str, Any], budgets: Mapping[str, float]) -> list[str]:
    """The costs beyond their budgets, with the group on which each is largest."""
    return [
        f"{_of_group(name, detail.get('groups'))} worse by {detail['degradations'][name]:.2g}"
        + (f", budget {budgets[name]:.2g}" if name in budgets else "")
        + (", which its interval includes" if name in detail.get("maybe", ()) else "")
        for name in detail.get("over", ())
    ]


def _of_group(name: str, groups: Mapping[str, str] | None) -> str:
    return f"{name} of {groups[name]}" if groups and groups.get(name) else name


def _listed(degradations: Any, groups: Mapping[str, str] | None = None) -> str:
    """Degradations or budgets by the name of the metric, and the group if it has one."""
    return ", ".join(
        f"{_of_group(name, groups)} {f'{value:.3g}'.replace('-', '−')}"
        for name, value in (degradations or {}).items()
    )


def few(names: Iterable[str]) -> str:
    """The first names of many, and the number of the others."""
    return first_few(names, _MOST_SETS, ", {} more")


def costs_of(views: Iterable[View], results: Results, edit: EditRecord) -> str:
    """The costs of an edit, as one part of a sentence."""
    costs = (view.outcome(results, edit) for view in views if view.kind == "cost")
    return ", ".join(filter(None, costs))


def saved_as(saved: Saved) -> list[str]:
    """Where an edit was saved, how its logits compare after loading, and how to load it."""
    trust = ", trust_remote_code=True" if saved.form == "carried" else ""
    load = f"AutoModelForCausalLM.from_pretrained({str(saved.folder)!r}{trust})"
    if saved.form == "adapter":
        load = f"PeftModel.from_pretrained(model, {str(saved.folder)!r})"
    original = [f"original={saved.original}"] if saved.original else []
    return [
        f"Saved ({saved.form}): {saved.folder}. In a fresh process its logits differ by at most "
        f"{saved.parity.max_difference:.2g}; the edit changes them by {saved.parity.effect:.2g}."
        + "".join(
            f" Computed in {dtype}, the type of its weights, they differ by at most {most:.2g}."
            for dtype, most in saved.parity.stored.items()
        ),
        f"Load it: {load}. Compare: {command('chat', saved.folder, *original)}",
    ]


def after_search(run: Run) -> list[str]:
    """The command that saves the best edit of each task."""
    return _on_all_prompts(run) or _saving(run, lambda part: part.best_record)


def after_audit(run: Run) -> list[str]:
    """The command that saves the recommended edit, or else the one that searches for an edit."""
    if lines := _on_all_prompts(run) or _saving(run, lambda part: recommended(part.results)):
        return lines
    words = run.manifest.get("command", ())
    same = [w for w in words if w.partition("=")[0].partition(".")[0] in SAME_QUESTION]
    lacking = {row.dataset for row in run.results.unedited("in_vocabulary")}
    effects = run.results.unedited("group_effect")
    if lacking and lacking >= {row.dataset for row in effects}:
        again = ["model=NAME", *(w for w in same if w.partition("=")[0] not in ("model", "texts"))]
        return [f"Next, a model that knows these words: {command('audit', *again)}"]
    changes = {c for row in run.results.of(JUDGEMENT) for c in row.detail["sets"].values()}
    changes |= {class_of(row.detail) for row in effects if run.results.is_unedited}
    if effects and not changes - {"increased", "not significant", "cannot be tested"}:  # no bias
        return ["Next, prompts of your own: countergen-edit check FILE"]
    return [f"Next: {command('debias', *same)}"]


def _saving(run: Run, which: Callable[[Run], EditRecord | None]) -> list[str]:
    lines = []
    for task, edit in ((task, which(part)) for task, part in run.by_task().items()):
        if edit is not None:
            of_task = [f"run_task={task}"] if len(run.by_task()) > 1 else []
            form = [] if edit.is_stock else ["form=carried"]
            save = command("edit", f"run={run.path}", *form, "save=DIR", *of_task)
            lines.append(f"Save it, {edit.label}: {save}")
    return lines


def _on_all_prompts(run: Run) -> list[str]:
    if not run.config.get("limit"):
        return []
    _, *words = run.manifest.get("command", ("",))
    kept = (word for word in words if word.partition("=")[0] not in ("limit", "run_dir", "save"))
    return [f"Next, on every prompt: {command(*kept)}"]


def why_nothing(run: Run) -> str:
    """Why a search saves no edit."""
    chosen = [r for r in run.results.of("cost", "validation") if r.detail["chosen"]]
    fails = "no candidate removes bias within the budgets" if chosen else "no edit could be fitted"
    if run.results.of(JUDGEMENT):
        fails = "the edit selected on validation data is not recommended by test data"
    return f"{no_bias(run.results) or fails}; nothing was saved"


def nothing_fits(run: Run) -> list[str]:
    """The budgets and the next command."""
    if no_bias(run.results) or NOTHING in (r.detail["word"] for r in run.results.of(JUDGEMENT)):
        return ["Nothing was saved. Give the groups more names, or use other prompts (data=)."]
    tried = {row.eraser for row in run.results.of("cost", "validation")}
    update = "" if "distilled" in tried else "eraser=distilled, "
    return [
        f"Nothing was saved. Budgets: {_listed(run.budgets)}.",
        f"Next: wider budgets (cost.NAME.budget=…), {update}or edits of one layer, saved with "
        "their code (form=carried; with a gate: eraser=gated).",
    ]
