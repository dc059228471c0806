"""`countergen-edit help [TERM]`: a term of the glossary, or the list of them."""

from __future__ import annotations

from itertools import groupby

from countergen_edit.cli.help import wrapped
from countergen_edit.reports.glossary import explain, glossary


def explained(word: str) -> str:
    """A term's meaning, limits and source; without a word, the list of terms."""
    if not word:
        lines = ["usage: countergen-edit help TERM", "", "Terms:"]
        for part, terms in groupby(glossary(), key=lambda term: term.of):
            lines += ["", part, *wrapped(", ".join(term.term for term in terms), "  ")]
        return "\n".join(lines)
    term = explain(word)
    also = f"  (also: {', '.join(term.aliases)})" if term.aliases else ""
    lines = [*wrapped(term.term + also, ""), *wrapped(term.says, "  ")]
    parts = {
        "Limits": term.limits,
        "Source": term.source,
        "In results.jsonl": ", ".join(term.rows),
        "See": ", ".join(term.see),
    }
    for name, text in parts.items():
        lines += wrapped(f"{name}: {text}", "  ") if text else []
    return "\n".join(lines)
