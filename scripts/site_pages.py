"""Parts of the site's pages that are told elsewhere, put in where a page asks for them.

Comes in: a page with comments such as `<!-- made: terms -->`, or `<!-- from: README.md » A » B -->`
for what a file says from the text A up to B. Goes out: the page as it is shown. Refused: a part
that nobody makes, a text that is not there. MkDocs calls `on_page_markdown`; tests call it too, and
need no MkDocs.
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
    """A page with its parts put in."""
    markdown = MADE.sub(lambda hit: PARTS[hit[1]](), markdown)
    markdown = FROM.sub(lambda hit: between(*hit.groups()), markdown)
    markdown = OUTSIDE.sub(r"\1", markdown)
    return CELLS.sub(lambda hit: INTERVAL.sub("[\\1,\u00a0\\2]", hit[0]), markdown)


def between(file: str, start: str, end: str) -> str:
    """What a file says from one text up to another."""
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
    """The glossary, part by part."""
    lines: list[str] = []
    for part, entries in groupby(glossary(), key=lambda term: term.of):
        lines += [f"## {part}", ""]
        for term in entries:
            lines += [*_entry(term), ""]
    return "\n".join(lines)


def _entry(term: Term) -> list[str]:
    """A term and what is told of it, as Markdown's definition lists have it."""
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
    """Text in which no sign is Markdown's."""
    return re.sub(r"([*_|<{])", r"\\\1", text)


def columns() -> str:
    """The columns of a row, of the newest version of their schema."""
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
    """What the column `metric` may say, and the term that explains it."""
    lines = ["| metric | is, or is about |", "|---|---|"]
    for term in glossary():
        leads = f"[{_plain(term.term)}](concepts.md#{anchor(term)})"
        lines += [f"| `{row}` | {leads} |" for row in term.rows]
    return "\n".join(lines)


def notebook() -> str:
    """The cells of the notebook, with what they last gave."""
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
    """A picture, or what was printed."""
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
