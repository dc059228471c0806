"""Fill the marked places of the documentation's pages.

`<!-- made: terms -->` is replaced by generated text, `<!-- from: README.md » A » B -->` by the text
of a file from A up to B. MkDocs calls `on_page_markdown`; tests call it without MkDocs. An unknown
mark or text raises a `UserError`.
"""

from __future__ import annotations

import json
import re
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # MkDocs starts where it likes

from countergen_edit.reports.glossary import Term, explain, glossary  # noqa: E402

MADE = re.compile(r"<!-- made: (\w+) -->")
FROM = re.compile(r"<!-- from: (\S+) » (.*?) » (.*?) -->")
OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+[^)]*\)")
"""A link to a file that is no page."""
CELLS = re.compile(r"^\|.*\|$", re.MULTILINE)
INTERVAL = re.compile(r"\[([^],]+), ([^],]+)\](?!\()")
"""Both ends of an interval, which stay on one line."""
SCHEMA = "docs/results/rows-*.schema.json"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """A page with its marked places filled."""
    markdown = MADE.sub(lambda hit: PARTS[hit[1]](), markdown)
    markdown = FROM.sub(lambda hit: between(*hit.groups()), markdown)
    markdown = OUTSIDE.sub(r"\1", markdown)
    return CELLS.sub(lambda hit: INTERVAL.sub("[\\1,\u00a0\\2]", hit[0]), markdown)


def between(file: str, start: str, end: str) -> str:
    """The part of a text from one string up to another."""
    text = (ROOT / file).read_text("utf-8")
    if start not in text or end not in text.split(start, 1)[1]:
        raise ValueError(f"{file} has no {start!r} before {end!r}")
    return start + text.split(start, 1)[1].split(end, 1)[0]


def anchor(term: Term) -> str:
    """What a link to a term ends with; letters of other alphabets go by what they are also called.

    >>> [anchor(explain(name)) for name in ("group effect", "mean |R|", "λ*", "2B−V−V")]
    ['group-effect', 'mean-r', 'lambda-star', '2b-v-v']
    """
    name = next((n for n in term.names if n.isascii()), term.term)
    return re.sub(r"[^a-z0-9]+", "-", name.replace("*", " star").casefold()).strip("-")


def terms() -> str:
    """The glossary by section."""
    lines: list[str] = []
    for part, entries in groupby(glossary(), key=lambda term: term.of):
        lines += [f"## {part}", ""]
        for term in entries:
            lines += [*_entry(term), ""]
    return "\n".join(lines)


def _entry(term: Term) -> list[str]:
    """A term with its definition, as a Markdown definition list."""
    names = [*map(_plain, term.aliases), *(f"`{name}`" for name in term.rows if name != term.term)]
    also = f" <small>{', '.join(names)}</small>" if names else ""
    see = ", ".join(f"[{_plain(name)}](#{anchor(explain(name))})" for name in term.see)
    source = f"Source: {_plain(term.source)}." if term.source else ""
    below = {
        f"**Limits.** {_plain(term.limits)}": term.limits,
        " ".join(filter(None, [source, f"See {see}." if see else ""])): source or see,
    }
    return [
        f'<a id="{anchor(term)}"></a>**{_plain(term.term)}**{also}',
        f":   {_plain(term.says)}",
        *(f"\n    <small>{text}</small>" for text, is_told in below.items() if is_told),
    ]


def _plain(text: str) -> str:
    """Text with Markdown characters escaped."""
    return re.sub(r"([*_|<{])", r"\\\1", text)


def columns() -> str:
    """The columns of a row, from the newest schema."""
    newest = max(ROOT.glob(SCHEMA), key=lambda path: int(re.findall(r"\d+", path.name)[0]))
    schema = json.loads(newest.read_text("utf-8"))
    lines = [
        f"{schema['description']} The schema as a file: [{newest.name}](results/{newest.name}).",
        "",
        "| column | type | meaning |",
        "|---|---|---|",
    ]
    for name, column in schema["properties"].items():
        lines.append(f"| `{name}` | {_type(column)} | {column['description']} |")
    return "\n".join(lines)


def _type(column: dict[str, Any]) -> str:
    if "anyOf" in column:
        return " or ".join(map(_type, column["anyOf"]))
    if "items" in column:
        return f"list of {_type(column['items'])}"
    return {"object": "mapping", "null": "none"}.get(column["type"], column["type"])


def metrics() -> str:
    """The values of the column `metric`, with the terms that explain them."""
    lines = ["| metric | is, or is about |", "|---|---|"]
    for term in glossary():
        leads = f"[{_plain(term.term)}](concepts.md#{anchor(term)})"
        lines += [f"| `{row}` | {leads} |" for row in term.rows]
    return "\n".join(lines)


def notebook() -> str:
    """The cells of the notebook with their stored outputs."""
    content = json.loads((ROOT / "docs/notebook.ipynb").read_text("utf-8"))
    lines: list[str] = []
    for cell in content["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            lines.append(source if lines else source.partition("\n")[2])  # the page has a title
            continue
        lines.append(f"```python\n{source}\n```")
        lines += map(_output, cell["outputs"])
    return "\n\n".join(lines)


def _output(output: dict[str, Any]) -> str:
    """An image, or printed text."""
    data = output.get("data", {})
    if "image/png" in data:
        picture = "".join(data["image/png"]).replace("\n", "")
        return f"![What the cell draws](data:image/png;base64,{picture})"
    printed = "".join(output.get("text", data.get("text/plain", ""))).strip()
    return f"```text\n{printed}\n```"


PARTS = {
    "notebook": notebook,
    "terms": terms,
    "columns": columns,
    "metrics": metrics,
}
