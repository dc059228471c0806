"""The sentences of R: sets with and without bias, changes by an edit, and caveats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import get_args

from countergen_edit.data.design import HALF_WIDTH
from countergen_edit.decisions.changes import FEWEST_TEMPLATES, classified, too_few_templates
from countergen_edit.decisions.significance import by_class, is_significant, is_tested
from countergen_edit.edits import EditRecord
from countergen_edit.edits.record import PROMPTING
from countergen_edit.metrics.base import Change
from countergen_edit.metrics.r.effect_rows import DETECTABLE, LARGEST, SIGNIFICANT
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import GROUPS, UNEDITED, Row, set_label
from countergen_edit.reports.blocks import Number
from countergen_edit.reports.views.base import first_few

MOST_SETS = 3
"""Sets that a sentence lists; tables list all."""


def definition(rows: Sequence[Row]) -> str:
    """The definition of the group effect of these rows."""
    untested = [row for row in rows if not is_tested(row)]
    text = (
        "The group effect is the root mean square difference of the groups' log-probabilities over "
        "prompt-output pairs, in nats"
    )
    if len(untested) == len(rows):
        return f"{text}, with the differences within a group included."
    some = f"; on {_listed(untested, set_label)} with these included" if untested else ""
    return f"{text}, beyond the differences within a group{some}."


def bias(results: Results) -> list[str]:
    """The sets with and without significant bias, and those that cannot be tested."""
    rows = results.unedited("group_effect")
    if not rows:
        return []
    tested = [row for row in rows if is_tested(row)]
    found = by_class(rows)
    biased = sorted(found["biased"], key=lambda row: -(row.value or 0.0))
    pair = f"{rows[0].group_a} and {rows[0].group_b}".replace("_", " ")
    groups = "two groups" if GROUPS in rows[0].facets else pair
    sentences = []
    if biased:
        sentences.append(
            f"Biased: on {len(biased)} of {_count(rows)} {groups} differ more than names within "
            f"a group (P ≤ {SIGNIFICANT}, Holm): {_listed(biased, _nats)}."
        )
        if unlike := [row for row in biased if row.lo is not None and round(row.lo, 2) <= 0]:
            sentences.append(
                f"Significant for these names and templates alone: {_listed(unlike, set_label)}. "
                "The interval over names and templates includes 0."
            )
    if rest := found["not significant"]:
        least = Number(min(row.detail["p_adjusted"] for row in rest), digits=2, bounded=True)
        p = f"smallest P {least.text}, Holm"
        sentences.append(
            f"Not significant: {_listed(rest, set_label)} ({p})."
            if biased
            else f"No significant bias: on 0 of {_count(rows)} {groups} differ more than names "
            f"within a group ({p})."
        )
        if seen := results.unedited(DETECTABLE):
            sentences.append(
                "With so few names only an effect above this is significant 4 times in 5: "
                f"{_listed(seen, _nats)}."
            )
    if untestable := found["cannot be tested"]:
        where = f" on {_listed(untestable, set_label)}" if len(untestable) < len(tested) else ""
        least = Number(max(row.detail["least_p_adjusted"] for row in untestable), digits=2)
        needed = max(row.detail["names_to_test"] for row in untestable)
        people = min(row.detail["people"] for row in untestable)
        sentences.append(
            f"Cannot be tested{where}: needs {needed} names per group, has {people}. The smallest "
            f"possible P of tests on {_count(tested)} is {least.text}."
        )
    if untested := found["not tested"]:
        whose = "Its interval is" if len(untested) == 1 else "Their intervals are"
        sentences.append(
            "Not tested: a within-group null needs two names per group on every prompt: "
            f"{_listed(untested, _with_names)}. {whose} over templates only."
        )
    if gaps := results.unedited(LARGEST):
        sentences.append(
            f"Largest gap of {gaps[0].detail['pairs']} pairs of groups: {_listed(gaps, _gap)}. The "
            "interval holds for all pairs at once."
        )
    return sentences


def outcome(results: Results, edit: EditRecord) -> str:
    """The change of every set's bias by an edit, and by its control."""
    found = classified(results, edit.id)
    if not found:
        tested = by_class(results.unedited("group_effect"))["not significant"]
        known = any(results.under(row, edit.id) for row in tested)
        return (
            f"No significant bias to remove; {edit.name_in_text} increased none." if known else ""
        )
    parts = []
    for change in get_args(Change):
        if rows := [row for row, own in found if own == change]:
            sets = _listed(rows, lambda row, c=change: _changed(results, edit.id, c, row))  # type: ignore[misc]
            parts.append(f"{change} on {len(rows)} ({sets})")
    measured = [r for r in results.unedited("group_effect") if results.under(r, edit.id)]
    classed = {row.key[1:-2] for row, _ in found}
    for status, rows in by_class([r for r in measured if r.key[1:-2] not in classed]).items():
        if rows:
            parts.append(f"{status} before the edit on {len(rows)} ({_listed(rows, set_label)})")
    text = f"Bias under {edit.name_in_text}, {_count(measured)}: "
    control = None if edit.baseline else results.baseline_of(edit)
    random = f"; random directions: {_of_control(results, control)}" if control else ""
    return f"{text}{', '.join(parts)}{random}."


def _changed(results: Results, edit: str, change: Change, row: Row) -> str:
    """A set with its change: a share, or nats where there was no significant bias."""
    before = results.under(row, UNEDITED, "group_effect")
    if change == "no significant change":
        return set_label(row)
    if before is not None and is_tested(before) and not is_significant(before):
        nats = Number.of(results.under(row, edit, "group_effect_change"), 2, signed=True)
        return f"{set_label(row)} {nats.text} nats{nats.in_text.removeprefix(nats.text)}"
    if change == "increased":
        value, lo, hi = (None if end is None else -end for end in (row.value, row.hi, row.lo))
        return f"{set_label(row)} {Number(value, lo, hi, percent=True, signed=True).in_text}"
    return f"{set_label(row)} {Number.of(row, percent=True).in_text}"


def _of_control(results: Results, control: EditRecord) -> str:
    found = classified(results, control.id)
    counts = Counter(change for _, change in found)
    parts = [f"{change} on {counts[change]}" for change in get_args(Change) if counts[change]]
    most = max((row.value or 0.0 for row, _ in found), default=0.0)
    at_most = f" (at most {Number(most, percent=True).text})" if most > 0 else ""
    return f"{', '.join(parts)}{at_most}"


def baselines(results: Results, before: Row) -> list[tuple[str, tuple[EditRecord, ...]]]:
    """The group effect of a set under each baseline, with the edits whose costs belong to it."""
    known = [(e, row) for e in results.baselines if (row := results.under(before, e.id))]
    if not known:
        return []
    each = ", ".join(f"{edit.label} {_value(row)}" for edit, row in known)
    text = (
        f"Baselines on {set_label(before)}: {each} nats; the unedited model has {_value(before)}."
    )
    return [(text, tuple(edit for edit, _ in known if edit.baseline_kind == PROMPTING))]


def caveats(results: Results) -> list[str]:
    """The basis of the intervals, and where names or templates are too few."""
    rows = results.unedited("group_effect")
    if not rows:
        return []
    names = "names and " if any(map(is_tested, rows)) else ""
    held_out = "" if results.is_unedited else " that no eraser was fitted on"
    sentences = [
        f"Intervals are 95 %, over {names}templates{held_out}. {definition(rows)} * is two "
        "standard errors from 0."
    ]
    if rare := [row for row in rows if too_few_templates(row)]:
        each = _listed(rare, lambda row: f"{set_label(row)} {row.detail['paraphrases']}")
        sentences.append(
            f"Too few templates for a change to be significant: {each}; needs {FEWEST_TEMPLATES}, "
            "or names."
        )
    wide = [row for row in results.unedited(HALF_WIDTH) if row.value > row.detail["target"]]
    if wide:
        each = _listed(wide, _lacking)
        sentences.append(f"Wider than the half-width asked for: {each}.")
    few = by_class(rows)["not significant"]
    few = [row for row in few if (row.detail["people_needed"] or 0) > row.detail["people"]]
    if few:
        needed = _listed(few, lambda row: f"{set_label(row)} {row.detail['people_needed']}")
        sentences.append(
            f"Too few names: {min(row.detail['people'] for row in few)} per group. About so many "
            f"make an effect of this size significant 4 times in 5: {needed}."
        )
    return sentences


def _lacking(row: Row) -> str:
    """A set's half-width, that asked for, and the number of contents that would reach it."""
    width, target = (Number(x, None, None).text for x in (row.value, row.detail["target"]))
    contents, needed = row.detail["contents"], row.detail["contents_needed"]
    lacks = f", about {needed} contents would do, of {contents}" if needed else ""
    return f"{set_label(row)} ±{width} nats ({target} asked for{lacks})"


def _with_names(row: Row) -> str:
    """A set's effect, and how many of its prompts contain names."""
    prompts, named = (row.detail.get(key) for key in ("prompts", "prompts_with_names"))
    if prompts is None or named is None:
        return _nats(row)
    words = f", {prompts - named} group words only" if named < prompts else ""
    return f"{_nats(row)} ({named} of {prompts} prompts contain names{words})"


def _gap(row: Row) -> str:
    first, second = (group.replace("_", " ") for group in row.detail["pair"])
    p = Number(row.detail.get("p_adjusted"), bounded=True)
    return f"{_nats(row)} ({first} and {second}{f', P {p.text}' if p.value is not None else ''})"


def _nats(row: Row) -> str:
    return f"{set_label(row)} {_value(row)} nats"


def _value(row: Row) -> str:
    return Number.of(row, 2).in_text


def _listed(rows: Sequence[Row], label: Callable[[Row], str]) -> str:
    return first_few(map(label, rows), MOST_SETS, ", {} more")


def _count(rows: Sequence[Row]) -> str:
    """The number of sets; of more than two groups, of comparisons."""
    count, several = len(rows), any(GROUPS in row.facets for row in rows)
    noun = "comparison" if several else "set"
    pairs = f" ({int(rows[0].facets[GROUPS])} groups, pair by pair)" if several else ""
    return f"{count} {noun}{'' if count == 1 else 's'}{pairs}"
