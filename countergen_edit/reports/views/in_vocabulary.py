"""The view of sets out of the model's vocabulary."""

from __future__ import annotations

from countergen_edit.metrics.in_vocabulary import EXAMPLES
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import set_label
from countergen_edit.reports.views.base import Shown, View


class InVocabularyView(View):
    """Sets that are left out, with the words that the model lacks."""

    shows = (Shown("in_vocabulary", "prompts in words it knows", percent=True),)
    place = "bias", "Bias"
    heading = "Sets out of the model's vocabulary"
    note = (
        "Share of prompts with outputs whose every word stands in the corpus of the model, of the "
        "group with fewest. Less than half: a figure would measure spelling."
    )
    brief = True

    def sentences(self, results: Results) -> list[str]:
        """That nothing was measured, or what was left out, and why."""
        measured = {row.dataset for row in results.unedited("group_effect")}
        rows = [r for r in results.unedited("in_vocabulary") if r.dataset not in measured]
        if not rows:
            return []
        words = dict.fromkeys(word for row in rows for word in row.detail["words"])
        lacking = f"(such as {', '.join([*words][:EXAMPLES])})"
        if measured:
            sets = ", ".join(map(set_label, rows))
            return [
                f"Left out: {sets}. Some of their words {lacking} are out of the model's "
                "vocabulary. All figures are of sets whose words are in it."
            ]
        axis = rows[0].axis.replace("_", " and ")
        return [
            f"Not measured: words of {axis} {lacking} are out of the model's vocabulary, so that a "
            "figure would measure their spelling. Neither bias nor its absence is shown."
        ]
