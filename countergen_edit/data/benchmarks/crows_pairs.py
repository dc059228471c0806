"""CrowS-Pairs as its authors published it: two sentences that differ in the group they name.

Comes in: the anonymised table. Goes out: pairs. `sent_more` is the sentence that is more of a
stereotype, whichever of the two groups it names.
"""

from __future__ import annotations

from dataclasses import dataclass

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import csv_table
from countergen_edit.data.benchmarks.files import Files

FILE = "CrowS-Pairs/data/crows_pairs_anonymized.csv"
BIAS_TYPES = (
    "age",
    "disability",
    "gender",
    "nationality",
    "physical-appearance",
    "race-color",
    "religion",
    "sexual-orientation",
    "socioeconomic",
)


@dataclass(frozen=True)
class CrowsPair:
    """A stereotype and the same of another group."""

    id: str
    """Its number in the table."""
    sent_more: str
    sent_less: str
    direction: str
    """`stereo` where `sent_more` is about the disadvantaged group, `antistereo` elsewhere."""
    bias_type: str
    writer: str


def read_crows_pairs(files: Files) -> list[CrowsPair]:
    """Every pair, in the order of the table.

    Raises:
        UserError: the file is not there, or is not what it should be.
    """
    path = files.path(FILE)
    _, rows = csv_table(path)
    pairs = []
    for number, (where, row) in enumerate(rows):
        try:
            pair = CrowsPair(
                str(number),
                row["sent_more"],
                row["sent_less"],
                row["stereo_antistereo"],
                row["bias_type"],
                row["anon_writer"],
            )
        except KeyError as error:
            raise UserError(f"{where}no column {error}") from None
        pairs.append(pair)
    return pairs
