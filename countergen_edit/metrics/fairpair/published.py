"""The published figures of FairPair, and where they may stand beside measured ones.

They are looked up by the exact id of a model, the part behind the last slash, in small letters: a
model that was derived from one of these has another name, and gets none. They are about Common
Sents, John perturbed to Jane.
"""

from __future__ import annotations

from countergen_edit.metrics.published import published_name
from countergen_edit.metrics.rows import Row

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
AVERAGE = {"jaccard": (85.5, 86.5, 88.1, 1.01), "sentiment": (23.0, 23.9, 23.5, 1.02)}
"""Table 3's last row, as printed: though B of its models by Jaccard averages 86.45."""
SIDES = ("male", "female")
"""The paper's source and target."""


def published_model(f: Row) -> str:
    """The paper's name of the model that a row `fairpair_f` is about; empty for other prompts."""
    sides = f.detail.get("source"), f.detail.get("target")
    alike = f.dataset == "common_sents" and sides == SIDES
    return published_name(str(f.detail.get("model", ""))) if alike else ""
