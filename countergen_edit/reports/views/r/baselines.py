"""What other ways to the same end leave of a group effect, in words: prompting, steering, chance.

Comes in: the rows of `R`. Goes out: sentences about one set, with every interval that is known. Of
several requests the one that leaves least and the one that leaves most are told, and how much of
the effect the intervals show to be gone; none is chosen.
"""

from __future__ import annotations

from countergen_edit.edits import EditRecord
from countergen_edit.edits.record import PROMPTING, TEMPLATE
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row, set_label
from countergen_edit.reports.blocks import Number

Told = tuple[str, tuple[EditRecord, ...]]
"""A sentence, and the edits whose costs belong to it."""


def sentences(results: Results, before: Row) -> list[Told]:
    """What is left of the group effect of a set, `before` of which is the unedited model's."""
    known = [(e, row) for e in results.baselines if (row := results.under(before, e.id))]
    asked = [(e, row) for e, row in known if e.baseline_kind == PROMPTING]
    alone = next((row for e, row in known if e.baseline_kind == TEMPLATE), None)
    others = [
        f"{e.label} {_nats(r)}" for e, r in known if e.baseline_kind not in (PROMPTING, TEMPLATE)
    ]
    lines = [_asked(results, before, asked, alone)] if asked else []
    if others:
        unedited = f"{_nats(before)} nats on {set_label(before)} without"
        text = f"Beside the edits: {', '.join(others)}, where there are {unedited}."
        lines.append((text, ()))
    return lines


def _asked(
    results: Results, before: Row, asked: list[tuple[EditRecord, Row]], alone: Row | None
) -> Told:
    """Asked to treat … alike, the model shows … on …, where it shows … unasked."""
    ordered = sorted(asked, key=lambda pair: pair[1].value or 0.0)
    ends = ordered if len(ordered) == 1 else [ordered[0], ordered[-1]]
    span = " to ".join(f"{_nats(row)} ({e.variant}{_gone(results, row)})" for e, row in ends)
    people = " and ".join(asked[0][0].params.get("people", ()))
    paraphrases = f" in {len(asked)} templates" if len(asked) > 1 else ""
    through = ", through its chat template" if alone else ""
    template = f", and {_nats(alone)} in the template alone" if alone else ""
    sentence = (
        f"Asked to treat {people} alike{paraphrases}{through}, the unedited model has a group "
        f"effect of {span} nats on {set_label(before)}, unprompted "
        f"{_nats(before)}{template}."
    )
    return sentence, tuple(e for e, _ in ends)


def _nats(row: Row) -> str:
    ends = "" if row.lo is None or row.hi is None else f" [{row.lo:.2f}, {row.hi:.2f}]"
    return f"{Number(row.value, digits=2).text}{ends}"


def _gone(results: Results, row: Row) -> str:
    """The share that is gone."""
    gone = results.under(row, row.edit, "group_effect_removed")
    if gone is None or gone.value is None:
        return ""
    share = Number.of(gone, percent=True)
    return f", {share.text}{f' [{share.interval}]' if share.interval else ''} gone"
