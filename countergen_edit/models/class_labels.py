"""What the labels of classifiers are called, and which of a model's plays which role in a task.

In: a task and labels as a model or a data set has them. Out: the index of the label of each role.
Refused: labels that cannot be told apart, above all LABEL_0, LABEL_1, …, until the user says what
they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from countergen_edit.errors import UserError

LABELS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "sentiment": {
        "positive": ("positive", "pos", "good", "1"),
        "negative": ("negative", "neg", "bad", "0"),
    },
    "nli": {
        "entailment": ("entailment", "entail", "entails", "e"),
        "neutral": ("neutral", "n"),
        "contradiction": ("contradiction", "contradict", "contradicts", "c"),
    },
    "toxicity": {
        "toxic": ("toxic", "toxicity", "hate", "hateful", "hatespeech", "offensive", "abusive"),
        "nontoxic": (
            *("nontoxic", "nottoxic", "neutral", "nothate", "nonhate", "nohate", "normal"),
            *("notoffensive", "nonoffensive", "nonabusive", "notabusive", "clean", "ok"),
        ),
    },
}
"""Task → role → names it goes by, letters and digits only."""


def plain(label: str) -> str:
    """A label as the table has it: small letters and digits."""
    return re.sub(r"[^a-z0-9]", "", label.lower())


def map_labels(name: str, labels: Sequence[str], task: str) -> dict[str, int]:
    """Role → index of the label that plays it.

    A toxicity or sentiment model may have the first role alone, as multi-label models do.

    >>> map_labels("m", ["CONTRADICTION", "NEUTRAL", "ENTAILMENT"], "nli")
    {'entailment': 2, 'neutral': 1, 'contradiction': 0}
    >>> map_labels("m", ["toxic", "obscene", "insult"], "toxicity")
    {'toxic': 0}

    Raises:
        UserError: a role that is needed is played by no label, or by two.
    """
    roles = LABELS[task]
    names_of = [plain(label) for label in labels]
    by_role = {
        role: [i for i, label in enumerate(names_of) if label in names]
        for role, names in roles.items()
    }
    first = next(iter(roles))
    lone = len(roles) == 2 and len(by_role[first]) == 1 and not any(list(by_role.values())[1:])
    complete = all(len(indices) == 1 for indices in by_role.values())
    alone = lone and (len(labels) == 1 or task == "toxicity")
    rest = set(range(len(labels))) - {i for indices in by_role.values() for i in indices}
    if not (complete and (not rest or task == "sentiment")) and not alone:
        generic = all(re.fullmatch(r"label\d+", label) for label in names_of)
        why = "label order unknown" if generic else "labels cannot be mapped"
        raise UserError(
            f"{name}: {task} {why}: its labels are {list(labels)}, the task needs {list(roles)}; "
            f"say what they are in the model's order, such as labels=[{','.join(roles)}]"
        )
    return {role: indices[0] for role, indices in by_role.items() if indices}
