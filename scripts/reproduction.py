"""Run the papers' tables and figures, and write docs/reproduction.md.

    python scripts/reproduction.py [testbed] [real=DIRECTORY] [ENTRY …]

`testbed` runs the entries without a current record on the shipped model, `real=DIRECTORY` on the
directory that `make real` builds; names of entries run these alone. Without either, the page is
written from existing records. Killed runs are resumed. The exit code is 2 for an unknown word or
invalid entry, and 1 if a command failed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from guide.entries import DOCS, MODELS, Paper, read_papers
from guide.page import page
from guide.runs import Records, is_current, read_records, run, write_records
from guide.scaling import write_scaling

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.writing import whole


def main(words: Sequence[str]) -> int:
    """Run the entries without a record, and write the page."""
    papers = read_papers()
    entries = {name: entry for paper in papers for name, entry in paper.entries.items()}
    models, chosen = {}, []
    for word in words:
        column, _, directory = word.partition("=")
        if column in MODELS:
            models[column] = directory or MODELS[column]
        elif word in entries:
            chosen.append(word)
        else:
            raise unknown("column or entry", word, [*MODELS, *entries])
    records, failed = read_records(), False
    for column in models:
        for name in chosen or entries:
            entry = entries[name]
            if column not in entry.short or is_current(records.get((name, column)), entry, column):
                continue
            print(f"{column}: {entry.name}", flush=True)
            try:
                record = run(entry, column, models)
            except UserError as error:
                print(f"error: {error}", file=sys.stderr, flush=True)
                failed = True
                continue
            records = read_records() | {(name, column): record}  # others may have written too
            write_records(records)
            write_page(papers, records)
    write_page(papers, records)
    write_scaling()
    return int(failed)


def write_page(papers: Sequence[Paper], records: Records) -> None:
    """Write the guide atomically."""
    with whole(DOCS / "reproduction.md") as temporary:
        temporary.write_text(page(papers, records), "utf-8")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
