"""What the group effects of a run say in words: over all sets, and only what intervals show.

Comes in: the rows of `R`, whose classes are those of `significance` and `changes`. Goes out:
sentences about the unedited model, about an edit, and about what the claims rest on. Of more than
two groups every pair on a set is a comparison of its own, and the largest gap of each set is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import get_args

from countergen_edit.edits import EditRecord
from countergen_edit.metrics.base import Change
from countergen_edit.metrics.blocks import Number
from countergen_edit.metrics.panels import GROUPS, set_label
from countergen_edit.metrics.r.changes import FEWEST_TEMPLATES, classified, too_few_templates
from countergen_edit.metrics.r.largest_gap import LARGEST
from countergen_edit.metrics.r.significance import SIGNIFICANT, by_class, is_significant, is_tested
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row

MOST_SETS = 3
"""Sets that a sentence lists; the tables have them all."""


def definition(rows: Sequence[Row]) -> str:
    """What the group effect of these rows is, in words."""
    untested = [row for row in rows if not is_tested(row)]
    text = (
        "The group effect is the root mean square difference of the groups' log-probabilities over "
        "prompt-output pairs, in nats"
    )
    if len(untested) == len(rows):
        return f"{text}, with the differences within a group included."
    text += ", beyond the differences within a group"
    if untested:
        text += f"; on {_listed(untested, set_label)} with these included"
    return f"{text}."


def bias(results: Results) -> list[str]:
    """On which sets the model is biased, on which not, and which have no test that could say."""
    rows = results.unedited("group_effect")
    if not rows:
        return []
    tested = [row for row in rows if is_tested(row)]
    found = by_class(rows)
    biased = sorted(found["biased"], key=lambda row: -(row.value or 0.0))
    groups = _groups(rows)
    sentences = []
    if biased:
        sentences.append(
            f"Biased: on {len(biased)} of {_compared(tested)} {groups} differ more than names "
            f"within a group (P ≤ {SIGNIFICANT}, Holm): {_listed(biased, _size(results))}."
        )
        if unlike := [row for row in biased if row.lo is not None and round(row.lo, 2) <= 0]:
            sentences.append(
                f"Significant with these names and templates only: {_listed(unlike, set_label)}. "
                "The interval, drawn over names and templates, reaches 0."
            )
    if rest := found["not significant"]:
        least = min(row.detail["p_adjusted"] for row in rest)
        p = f"smallest P {Number(least, digits=2, bounded=True).text}, Holm"
        sentences.append(
            f"Not significant: {_listed(rest, set_label)} ({p})."
            if biased
            else f"No significant bias: on {'none' if len(rest) > 1 else 'no set'} of "
            f"{_compared(rest)} do {groups} differ more than names within a group ({p})."
        )
    sentences += _cannot_be_tested(found["cannot be tested"], tested)
    sentences += _not_tested(found["not tested"])
    return sentences + _largest(results.unedited(LARGEST))


def headline(results: Results) -> list[str]:
    """The sets of each class in one line, the largest effects first."""
    rows = results.unedited("group_effect")
    if not rows:
        return []
    found = {status: sorted(own, key=_size_of) for status, own in by_class(rows).items()}
    tested = [row for row in rows if is_tested(row)]
    biased = found["biased"]
    parts = []
    if biased:
        counted = f"{len(biased)} of {_compared(tested)} (P ≤ {SIGNIFICANT}, Holm)"
        parts.append(f"Biased: {counted}: {_listed(biased, _nats)}")
    if rest := found["not significant"]:
        parts.append(f"{'Not significant' if biased else 'No significant bias'}: {_named(rest)}")
    if untestable := found["cannot be tested"]:
        parts.append(f"Cannot be tested: {_named(untestable)} ({needs(untestable)})")
    if untested := found["not tested"]:
        listed = _listed(untested, _with_names)
        parts.append(f"Not tested, as a test needs names on every prompt: {listed}")
    return [f"{'. '.join(parts)}."]


def _named(rows: Sequence[Row]) -> str:
    return _listed(rows, set_label)


def _size_of(row: Row) -> float:
    return -(row.value or 0.0)


def _groups(rows: Sequence[Row]) -> str:
    first = rows[0]
    pair = f"{first.group_a} and {first.group_b}".replace("_", " ")
    return "two groups" if GROUPS in first.facets else pair


def _cannot_be_tested(rows: Sequence[Row], tested: Sequence[Row]) -> list[str]:
    """Comparisons of which no P can be small enough, and how many names would do."""
    if not rows:
        return []
    where = f" on {_listed(rows, set_label)}" if len(rows) < len(tested) else ""
    least = max(row.detail["least_p_adjusted"] for row in rows)
    return [
        f"Cannot be tested{where}: {needs(rows)}. On {_compared(tested)} the smallest possible P "
        f"is {Number(least, digits=2).text}."
    ]


def needs(rows: Sequence[Row]) -> str:
    """The names per group that a test needs, and those that there are."""
    needed = max(row.detail["names_to_test"] for row in rows)
    return f"needs {needed} names per group, has {min(row.detail['people'] for row in rows)}"


def _not_tested(rows: Sequence[Row]) -> list[str]:
    """Sets without two names per group on every prompt."""
    if not rows:
        return []
    whose = "Its interval is" if len(rows) == 1 else "Their intervals are"
    return [
        "Not tested, as a within-group null needs two names per group on every prompt: "
        f"{_listed(rows, _with_names)}. {whose} drawn over templates only."
    ]


def _with_names(row: Row) -> str:
    """A set's effect, and how many of its prompts contain names."""
    prompts, named = (row.detail.get(key) for key in ("prompts", "prompts_with_names"))
    if prompts is None or named is None:
        return _nats(row)
    words = f", {prompts - named} group words only" if named < prompts else ""
    return f"{_nats(row)} ({named} of {prompts} prompts contain names{words})"


def _largest(gaps: Sequence[Row]) -> list[str]:
    """Of each set the two groups that are furthest apart."""
    if not gaps:
        return []

    def gap(row: Row) -> str:
        first, second = (group.replace("_", " ") for group in row.detail["pair"])
        p = Number(row.detail.get("p_adjusted"), bounded=True)
        return (
            f"{_nats(row)} ({first} and {second}{f', P {p.text}' if p.value is not None else ''})"
        )

    pairs = gaps[0].detail["pairs"]
    return [
        f"Largest gap of {pairs} pairs of groups: {_listed(gaps, gap)}. Its interval holds for all "
        "pairs at once."
    ]


def outcome(results: Results, edit: EditRecord) -> str:
    """What an edit did to the bias of every set, and what its control did."""
    found = classified(results, edit.id)
    if not found:
        tested = by_class(results.unedited("group_effect"))["not significant"]
        known = any(results.under(row, edit.id) for row in tested)
        return f"Nothing to remove: {edit.name_in_text} increased no bias." if known else ""
    sets = _compared([row for row, _ in found])
    control = None if edit.baseline else results.baseline_of(edit)
    parts = [_classes(found, _sized(results, edit.id))]
    parts += [f"random directions: {_of_control(results, control)}"] if control else []
    return f"Bias under {edit.name_in_text}, {sets}: {'; '.join(parts)}."


def _classes(found: Sequence[tuple[Row, Change]], label: Callable[[Change, Row], str]) -> str:
    """How many sets are in each class, and which."""
    parts = []
    for change in get_args(Change):
        if rows := [row for row, own in found if own == change]:
            each = _listed(rows, partial(label, change))
            parts.append(f"{change} on {len(rows)} ({each})")
    return ", ".join(parts)


def _sized(results: Results, edit: str) -> Callable[[Change, Row], str]:
    """A set with how much changed: in nats where there was no bias, of which any share is large."""

    def sized(change: Change, row: Row) -> str:
        before = results.under(row, UNEDITED, "group_effect")
        if change == "no significant change":
            return set_label(row)
        if before is not None and is_tested(before) and not is_significant(before):
            nats = Number.of(results.under(row, edit, "group_effect_change"), 2, signed=True)
            return f"{set_label(row)} {nats.text} nats{_between(nats)}"
        if change == "increased":
            value, lo, hi = (None if end is None else -end for end in (row.value, row.hi, row.lo))
            grown = Number(value, lo, hi, percent=True, signed=True)
            return f"{set_label(row)} {grown.text}{_between(grown)}"
        gone = Number.of(row, percent=True)
        return f"{set_label(row)} {gone.text}{_between(gone)} gone"

    return sized


def _between(number: Number) -> str:
    return f" [{number.interval.replace(' to ', ', ')}]" if number.interval else ""


def _of_control(results: Results, control: EditRecord) -> str:
    found = classified(results, control.id)
    counts = Counter(change for _, change in found)
    said = [f"{change} on {counts[change]}" for change in get_args(Change) if counts[change]]
    most = max((row.value or 0.0 for row, _ in found), default=0.0)
    at_most = f" (at most {Number(most, percent=True).text} gone)" if most > 0 else ""
    return f"{', '.join(said)}{at_most}"


def caveats(results: Results) -> list[str]:
    """What intervals are drawn over, and where more names are needed."""
    rows = results.unedited("group_effect")
    if not rows:
        return []
    is_named = any(map(is_tested, rows))
    sentences = [
        f"How sure: 95 % intervals, drawn over {'names and ' if is_named else ''}templates"
        f"{'' if results.is_unedited else ' that no eraser was fitted on'}. {definition(rows)} "
        "* is two standard errors from 0."
    ]
    if rare := [row for row in rows if too_few_templates(row)]:
        each = _listed(rare, lambda row: f"{set_label(row)} {row.detail['wordings']}")
        sentences.append(
            f"Too few templates for a change to be significant: {each}; needs {FEWEST_TEMPLATES}, "
            "or names."
        )
    few = by_class(rows)["not significant"]
    few = [row for row in few if (row.detail["people_needed"] or 0) > row.detail["people"]]
    if few:
        needed = _listed(few, lambda row: f"{set_label(row)} about {row.detail['people_needed']}")
        sentences.append(
            f"Too few names: with {min(row.detail['people'] for row in few)} per group, an effect "
            f"of the size seen needs more to be significant 4 times in 5: {needed}."
        )
    return sentences


def _size(results: Results) -> Callable[[Row], str]:
    def size(row: Row) -> str:
        share = results.under(row, row.edit, "group_share")
        of_all = f", {Number.of(share, percent=True).text} of what separates two people"
        return f"{_nats(row)}{of_all if share else ''}"

    return size


def _nats(row: Row) -> str:
    ends = "" if row.lo is None or row.hi is None else f" [{row.lo:.2f}, {row.hi:.2f}]"
    return f"{set_label(row)} {Number(row.value, digits=2).text}{ends} nats"


def _listed(rows: Sequence[Row], label: Callable[[Row], str]) -> str:
    more = [f"{len(rows) - MOST_SETS} more"] if len(rows) > MOST_SETS else []
    return ", ".join([*map(label, rows[:MOST_SETS]), *more])


def _compared(rows: Sequence[Row]) -> str:
    """How many sets, or, of more than two groups, how many comparisons."""
    count, several = len(rows), any(GROUPS in row.facets for row in rows)
    noun = "comparison" if several else "set"
    about = f" ({int(rows[0].facets[GROUPS])} groups, pair by pair)" if several else ""
    return f"{count} {noun}{'' if count == 1 else 's'}{about}"
