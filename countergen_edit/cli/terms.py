"""What `countergen-edit help [TERM]` prints: a term of the glossary, or the list of them.

Comes in: the words after `help`. Goes out: lines as wide as the terminal. Refused: what is no term.
"""

from __future__ import annotations

from itertools import groupby

from countergen_edit.cli.help import wrapped
from countergen_edit.reports.glossary import Term, explain, glossary


def explained(word: str) -> str:
    """A term's meaning, limits and source; without a word, which terms there are.

    Raises:
        UserError: there is no such term.
    """
    return "\n".join(_of(explain(word)) if word else _all())


def _of(term: Term) -> list[str]:
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
    return lines


def _all() -> list[str]:
    lines = ["usage: countergen-edit help TERM", "", "Terms:"]
    for part, terms in groupby(glossary(), key=lambda term: term.of):
        lines += ["", part, *wrapped(", ".join(term.term for term in terms), "  ")]
    return lines
