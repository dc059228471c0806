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
    heading = "Not measured, for want of words"
    note = (
        "Share of prompts with outputs whose every word stands in the corpus of the model, of the "
        "group with fewest. Less than half: the set is left out."
    )
    brief = True

    def sentences(self, results: Results) -> list[str]:
        """That nothing was measured, or what was left out, and why."""
        rows = results.unedited("in_vocabulary")
        if not rows:
            return []
        words = dict.fromkeys(word for row in rows for word in row.detail["words"])
        never = f"never met such words as {', '.join([*words][:EXAMPLES])}"
        if results.unedited("group_effect"):
            sets = ", ".join(map(set_label, rows))
            return [
                f"Left out: {sets}. In training the model {never}, and what it says after them is "
                "about their letters. What is measured rests on words that it was taught."
            ]
        axis = rows[0].axis.replace("_", " and ")
        return [
            f"Not measured: this model was taught nothing about {axis}. In training it {never}: a "
            "figure would say how they are spelled, not whether it is biased. Neither bias nor its "
            "absence is shown."
        ]
