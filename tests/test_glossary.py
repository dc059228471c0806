"""The glossary is one: every name leads to one term, every term that is pointed to is there."""

from typing import get_args

import pytest

from countergen_edit.core.conf_path import names_of
from countergen_edit.decisions import HARMFUL, NOTHING, OVER_BUDGET, RECOMMENDED
from countergen_edit.erasers import ERASERS
from countergen_edit.metrics.base import Change
from countergen_edit.models.capture import SITES
from countergen_edit.reports.glossary import explain, find, glossary
from tests.cli.support import call, said


@pytest.mark.parametrize("term", glossary(), ids=lambda term: term.term)
def test_a_term_points_to_terms_and_is_found_by_all_its_names(term):
    assert all((other := find(name)) and other.term == name for name in term.see)
    assert all(find(name) is term for name in term.names)


@pytest.mark.parametrize(
    "word",
    [
        *(name for name in ERASERS if name != "random"),
        *(
            name
            for group in ("metric", "cost", "baseline", "edit")
            for name in names_of(group)
            if name != "benchmarks"  # each by its own name
        ),
        *SITES,
        *get_args(Change),
        *(RECOMMENDED, OVER_BUDGET, HARMFUL, NOTHING),
        *("split", "site", "layers", "rank", "baseline", "lo", "hi", "seed", "group_a", "axis"),
    ],
)
def test_what_configs_and_rows_are_named_by_is_explained(word):
    assert explain(word).says


@pytest.mark.parametrize("columns", ["40", "72", "200"])
def test_help_says_the_same_words_broken_between_words(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    printed = call("help", "smallest", "detectable", "difference").out
    term = explain("smallest detectable")
    for text in (term.says, term.source, *term.see):
        assert text in " ".join(printed.split())
    assert max(map(len, printed.splitlines())) <= max(60, min(110, int(columns)))


def test_help_alone_lists_every_term_and_of_a_command_shows_its_settings():
    listed = said("help")
    assert not [term.term for term in glossary() if term.term not in listed]
    assert said("help", "report").startswith("usage: countergen-edit report")
