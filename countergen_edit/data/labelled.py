"""Labelled texts, to train and test a classifier on.

Comes in: a table of the user's own (.csv, .tsv, .jsonl) or of the hub (`ID:ROWS`, in `datasets`'
notation). Goes out: `LabelledTexts`, each text, or pair of texts, with its class. Refused: a column
that is not there, a label that is no class, a table of one class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.seeds import generator
from countergen_edit.core.writing import digest
from countergen_edit.data.sources.published import load_table

FILES = (".csv", ".tsv", ".jsonl")
COLUMNS = ("text", "pair", "label")


@dataclass(frozen=True)
class LabelledTexts:
    """Texts and the class of each, by its index."""

    texts: tuple[str, ...]
    pairs: tuple[str, ...] | None
    """What follows each text, in inference."""
    classes: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.texts)

    def some(self, indices: Sequence[int]) -> LabelledTexts:
        """Those at some indices, in their order."""
        return LabelledTexts(
            tuple(self.texts[i] for i in indices),
            tuple(self.pairs[i] for i in indices) if self.pairs else None,
            tuple(self.classes[i] for i in indices),
        )

    def parted(self, share: float, seed: int) -> tuple[LabelledTexts, LabelledTexts]:
        """All but a share, and that share, drawn by the seed."""
        order = generator(seed, "validation").permutation(len(self))
        count = max(1, round(share * len(self)))
        kept, apart = sorted(order[count:].tolist()), sorted(order[:count].tolist())
        return self.some(kept), self.some(apart)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all of it."""
        return digest(asdict(self))


def labelled_texts(
    source: str,
    columns: Mapping[str, str | None],
    class_of: Callable[[str], int | None],
    limit: int | None = None,
) -> LabelledTexts:
    """Read labelled texts.

    Args:
        source: path of a table, or `ID:ROWS` of the hub.
        columns: `text`, `pair` (null for texts that stand alone) and `label`, each with the name of
            the column that holds it.
        class_of: from a label as it stands there, the index of its class; None leaves the row out.
        limit: take only the first rows, as the paper takes of SNLI.

    Raises:
        UserError: the table or a column is not there, a cell of text is empty, or all rows are of
            one class.
    """
    for key in columns:
        if key not in COLUMNS:
            raise unknown("key of columns:", key, COLUMNS)
    table = _table(source)
    for column in filter(None, columns.values()):
        if column not in table.columns:
            raise unknown(f"column of {source}:", column, [*map(str, table.columns)])
    kept = [
        (text, pair, index)
        for text, pair, label in zip(*(_cells(table, columns, k) for k in COLUMNS), strict=True)
        if (index := class_of(label)) is not None
    ][:limit]
    texts, pairs, classes = zip(*kept, strict=True) if kept else ((), (), ())
    if len(set(classes)) < 2:
        raise UserError(f"{source} holds {len(set(classes))} class(es): a classifier tells two")
    for cells in (texts, pairs) if columns.get("pair") else (texts,):
        if not all(cell.strip() for cell in cells):
            raise UserError(f"{source}, text {[not c.strip() for c in cells].index(True)} is empty")
    return LabelledTexts(texts, pairs if columns.get("pair") else None, classes)


def _cells(table: Any, columns: Mapping[str, str | None], key: str) -> list[str]:
    column = columns.get(key)
    if column is None and key != "pair":
        raise UserError(f"columns.{key} names no column of the data")
    return [""] * len(table) if column is None else [str(cell) for cell in table[column]]


def _table(source: str) -> Any:
    """A DataFrame; cells of files are texts, as they stand there."""
    import pandas

    path = Path(source).expanduser()
    if path.suffix not in FILES:
        dataset, _, rows = source.partition(":")
        return load_table(dataset, None, rows or "train").to_pandas()
    if not path.is_file():
        raise UserError(f"no file {source!r}")
    try:
        if path.suffix == ".jsonl":
            return pandas.read_json(path, lines=True, dtype=False)
        separator = "\t" if path.suffix == ".tsv" else ","
        return pandas.read_csv(path, sep=separator, dtype=str, keep_default_na=False)
    except (ValueError, OSError) as error:
        raise UserError(f"cannot read {source}: {str(error).splitlines()[0]}") from error
