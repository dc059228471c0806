"""What the pages print works as printed, and their links lead somewhere; all without MkDocs."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter

import countergen_edit
from countergen_edit.glossary import glossary
from tests.models.test_gguf import script
from tests.printed import blocks, commands, files, lines, require_composes

ROOT = Path(countergen_edit.__file__).parent.parent
SITE = script("site_pages")
MADE = ("reproduction.md",)
"""Pages whose commands other tests run."""
PAGES = {path.name: path.read_text("utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
SHOWN = {name: SITE.on_page_markdown(text) for name, text in PAGES.items()}
WRITTEN = {name: text for name, text in PAGES.items() if name not in MADE}
TARGETS = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
OTHERS = {"make", "pip", "sed", "cd", ".", "python3", "python", "jupyter"}
"""What a page may ask to be typed beside this package's commands."""
LINK = re.compile(r"\]\(([^)\s]+)\)")


class Settings(yaml.SafeLoader):
    """MkDocs's own tags are of no interest."""


def anchors(text: str) -> set[str]:
    """What a link to a page may end with: given anchors, and headings as Markdown names them."""
    heads = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    slugs = {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", h.casefold()).strip()) for h in heads}
    return {*re.findall(r'<a id="([^"]+)"', text), *slugs}


@pytest.mark.parametrize(
    ("page", "line"), [(name, line) for name, text in WRITTEN.items() for line in commands(text)]
)
def test_every_command_composes(page: str, line: str) -> None:
    require_composes(line)


@pytest.mark.parametrize("page", WRITTEN)
def test_every_other_line_is_one_that_a_shell_reads(page: str) -> None:
    for line in lines(PAGES[page]):
        if line.startswith("countergen-edit "):
            continue
        first, *words = shlex.split(line, comments=True)
        assert first in OTHERS, line
        if first == "make":
            assert {*words} <= {*TARGETS}, line
        subprocess.run(["bash", "-n", "-c", line], check=True)


@pytest.mark.parametrize("page", WRITTEN)
def test_every_other_block_is_of_its_language(page: str) -> None:
    for block in blocks(PAGES[page], "python"):
        compile(block, page, "exec")
    for block in blocks(PAGES[page], "yaml"):
        assert yaml.safe_load(block), block
    for block in blocks(PAGES[page], "json"):
        assert all(json.loads(line)["input"] for line in block.splitlines())


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    for target in LINK.findall(SHOWN[page]):
        file, _, place = target.partition("#")
        if "://" in target:
            continue
        assert not file or (ROOT / "docs" / file).is_file(), target
        if place:
            assert place in anchors(SHOWN[file or page]), target


def test_every_page_stands_once_in_the_menu() -> None:
    content: dict[str, Any] = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), Loader=Settings)
    listed = re.findall(r"[\w/]+\.md", json.dumps(content["nav"]))
    assert sorted(listed) == sorted(PAGES)
    assert content["strict"]
    assert content["use_directory_urls"] is False


def test_concepts_hold_every_term_under_an_anchor_of_its_own() -> None:
    page = SHOWN["concepts.md"]
    given = re.findall(r'<a id="([^"]+)"', page)
    assert len(given) == len({*given}) == len(glossary())
    for term in glossary():
        assert term.says.split("|")[0] in page.replace("\\", "")


def test_the_columns_are_those_of_rows() -> None:
    from countergen_edit.metrics.rows import COLUMNS, Row

    listed = re.findall(r"^\| `(\w+)` \| (?!\[)", SHOWN["rows.md"], re.MULTILINE)
    assert {*listed} == {*COLUMNS} == {*TypeAdapter(Row).json_schema()["properties"]}


def test_nothing_is_fetched_from_elsewhere() -> None:
    for path in (ROOT / "docs/assets").iterdir():
        assert "//" not in path.read_text("utf-8").replace("// ", ""), path
    assert "font: false" in (ROOT / "mkdocs.yml").read_text("utf-8")


def test_files_that_are_printed_have_names_of_their_own() -> None:
    assert set(files(PAGES["tutorial.md"])) == {"mine.jsonl"}
    assert "my_phi.py" in files(SHOWN["own_parts.md"])
