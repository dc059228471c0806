"""What pages print works as printed, and their links lead somewhere; none of it needs MkDocs."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from pydantic import TypeAdapter

import countergen_edit
from countergen_edit.cli.composing import completed, composed
from countergen_edit.cli.overrides import overrides_of
from countergen_edit.edits.checkpoints import is_checkpoint
from countergen_edit.metrics.fairpair.phi import PHIS
from countergen_edit.metrics.rows import UNEDITED
from countergen_edit.reports.glossary import find, glossary
from tests.cli.support import call, rows_of, said, sets
from tests.models.test_gguf import script
from tests.printed import (
    blocks,
    chosen,
    commands,
    files,
    first_job,
    lines,
    require_composes,
    settings,
)

ROOT = Path(countergen_edit.__file__).parent.parent
SITE = script("site_pages")
MADE = ("reproduction.md",)
"""Pages whose commands other tests run."""
README = (ROOT / "README.md").read_text("utf-8")
PAGES = {path.name: path.read_text("utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
SHOWN = {name: SITE.on_page_markdown(text) for name, text in PAGES.items()}
KEYS_IN = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "docs/reproduction").glob("*.yaml")),
    ROOT / "README.md",
]
WRITTEN = {name: text for name, text in PAGES.items() if name not in MADE} | {"README.md": README}
PLUGINS = {
    "joblib": "hydra_plugins.hydra_joblib_launcher",
    "submitit_slurm": "hydra_plugins.hydra_submitit_launcher",
    "ray": "hydra_plugins.hydra_ray_launcher",
}
"""Hydra's launchers, which need not be there."""
TARGETS = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
OTHERS = {"make", "pip", "sed", "cd", ".", "python3", "python", "jupyter"}
"""What a page may ask to be typed beside this package's commands."""
NOTEBOOK = ROOT / "docs/notebook.ipynb"
NAMES = {"fit": 24, "few": 8, "agreement": 8, "validation": 12, "test": 6}
"""So few people make the notebook, examples and the tutorial quick enough for a test."""
LINK = re.compile(r"\]\(([^)\s]+)\)")


class Settings(yaml.SafeLoader):
    """MkDocs's own tags are of no interest."""


def anchors(text):
    """What a link to a page may end with: given anchors, and headings as Markdown names them."""
    heads = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    slugs = {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", h.casefold()).strip()) for h in heads}
    return {*re.findall(r'<a id="([^"]+)"', text), *slugs}


@pytest.mark.parametrize(
    ("page", "line"), [(name, line) for name, text in WRITTEN.items() for line in commands(text)]
)
def test_every_command_composes(page, line):
    require_composes(line)


@pytest.mark.parametrize(
    "line", [line for line in commands(PAGES["clusters.md"]) if "launcher=" in line]
)
def test_every_launcher_takes_its_settings(line):
    _, command, *words = shlex.split(line, comments=True)
    overrides = first_job([word for word in words if word != "--multirun"])
    launcher = next(o.partition("=")[2] for o in overrides if o.startswith("hydra/launcher="))
    pytest.importorskip(PLUGINS[launcher], exc_type=ImportError)
    assert composed(command, overrides)


@pytest.mark.parametrize("path", KEYS_IN, ids=lambda p: p.name)
def test_every_setting_that_a_page_names_works_as_printed(path):
    """Without a `+`, once its component is chosen."""
    for key, value in settings(path.read_text("utf-8")).items():
        if key.startswith("hydra."):  # of a plugin
            continue
        command, words = chosen(key)
        assert completed(command, overrides_of(command, [*words, f"{key}={value}"]))[0], key


@pytest.mark.parametrize("page", WRITTEN)
def test_every_other_line_is_one_that_a_shell_reads(page):
    for line in lines(WRITTEN[page]):
        if line.startswith("countergen-edit "):
            continue
        first, *words = shlex.split(line, comments=True)
        assert first in OTHERS, line
        if first == "make":
            assert {*words} <= {*TARGETS}, line
        subprocess.run(["bash", "-n", "-c", line], check=True)


@pytest.mark.parametrize("page", WRITTEN)
def test_every_other_block_is_of_its_language(page):
    for block in blocks(WRITTEN[page], "python"):
        compile(block, page, "exec")
    for block in blocks(WRITTEN[page], "yaml"):
        assert yaml.safe_load(block), block
    for block in blocks(WRITTEN[page], "json"):
        assert all(json.loads(line)["input"] for line in block.splitlines())


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page):
    for target in LINK.findall(SHOWN[page]):
        file, _, place = target.partition("#")
        if "://" in target or target.startswith("data:"):
            continue
        assert not file or (ROOT / "docs" / file).is_file(), target
        assert not place or place in anchors(SHOWN[file or page]), target


def test_every_file_that_the_readme_links_to_is_there():
    for target in LINK.findall(README):
        assert "://" in target or (ROOT / target).exists(), target


def test_every_page_stands_once_in_the_menu():
    content = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), Loader=Settings)
    listed = re.findall(r"[\w/]+\.md", json.dumps(content["nav"]))
    assert sorted(listed) == sorted(PAGES)
    assert content["strict"]
    assert content["use_directory_urls"] is False


def test_concepts_hold_every_term_under_an_anchor_of_its_own():
    page = SHOWN["concepts.md"]
    given = re.findall(r'<a id="([^"]+)"', page)
    assert len(given) == len({*given}) == len(glossary())
    for term in glossary():
        assert term.says.split("|")[0] in page.replace("\\", "")


def test_the_columns_are_those_of_rows():
    from countergen_edit.metrics.rows import COLUMNS, Row

    listed = re.findall(r"^\| `(\w+)` \| (?!\[)", SHOWN["rows.md"], re.MULTILINE)
    assert {*listed} == {*COLUMNS} == {*TypeAdapter(Row).json_schema()["properties"]}


@pytest.mark.slow
def test_the_notebook_runs_from_its_first_cell_to_its_last(here, capsys):
    """As Jupyter would, in one namespace, but for fewer layers."""
    names = {}
    drawn = []
    for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "notebook.ipynb", "exec"), names)
            drawn += map(names["plt"].figure, names["plt"].get_fignums())
            names["plt"].close("all")
            names["layers"] = [4]
    assert len(drawn) == 2
    assert "preserving (rank 8)" in capsys.readouterr().out
    [bars] = [panel for panel in drawn[1].axes if "grammar" in panel.get_title()]
    heights = [bar.get_height() for bar in bars.patches]
    by_edit = [heights[i : i + 2] for i in range(0, 8, 2)]
    assert min(by_edit[0]) > 0.99  # unedited
    assert min(by_edit[2]) < 0.9  # LEACE takes grammar with the stereotype
    assert min(by_edit[3]) > 0.95  # what is to be kept is kept


@pytest.mark.slow
def test_the_python_example_audits_edits_and_saves(capsys, here):
    [example] = blocks(README, "python")
    whole = 'ce.task("gender", "contexts")'
    assert whole in example
    quick = example.replace(whole, f"{whole[:-1]}, names={NAMES})")
    exec(compile(quick, "README.md", "exec"), {})
    out = capsys.readouterr().out
    assert "Recommended: preserving" in out
    assert "occupations" in out
    assert out.splitlines()[-1].startswith("['")  # what the edited model says of Jane
    assert is_checkpoint("debiased")


@pytest.mark.slow
def test_the_default_audit_decides_and_recommends(tmp_path):
    assert "Recommended: preserving" in said("audit", f"run_dir={tmp_path / 'run'}")
    effects = rows_of(tmp_path / "run", "group_effect", split="test")
    assert len({row.dataset for row in effects if row.edit == UNEDITED}) >= 4
    for row in effects:  # the planted effects are 1.6 nats at most
        assert row.hi is not None, row
        assert row.hi < 2, row


@pytest.mark.slow
def test_the_tutorial_ends_in_a_debiased_model_audited_on_own_prompts(here):
    """Typed in an empty folder, once it is installed."""
    page = PAGES["tutorial.md"].partition("## 2.")[2]
    for name, content in files(page).items():
        Path(name).write_text(content, "utf-8")
    few = f"names={json.dumps(NAMES)}".replace('"', "")
    small = [few, *sets("traits")]
    quick = {"before": small, "debias": [*small, "layers=[4]"], "mine": [few]}
    printed = {}
    for line in lines(page):
        program, command, *words = shlex.split(line, comments=True)
        if program != "countergen-edit":
            subprocess.run(line, shell=True, check=True)
        elif command != "chat":
            name = next((w[13:] for w in words if w.startswith("run_dir=runs/")), command)
            ended = call(command, *words, *quick.get(name, []))
            assert ended.code == 0 or command == "check", line
            printed[name] = printed.get(name, "") + ended.words
    assert "Biased: " in printed["before"]
    contrast = next(b for b in blocks(PAGES["tutorial.md"], "text") if "λ" in b)
    assert " ".join(contrast.split()) in printed["cid"]  # λ = 10 turns one of two equal answers
    assert "Recommended: preserving" in printed["debias"]
    metrics = {row.metric for run in ("before", "debias", "mine") for row in rows_of(f"runs/{run}")}
    assert all(find(metric) is not None for metric in metrics)
    assert is_checkpoint("debiased")
    first, _, second = printed["check"].partition("with warnings")
    assert "! edits are fitted on 'James': use another name, such as John, Michael, Peter" in first
    assert "no warnings" in second
    assert "Compared with the source model testbed:" in printed["mine"]
    assert "mine against original, group effect: lower on mine" in printed["mine"]
    [use] = blocks(PAGES["tutorial.md"], "python")
    names = {}
    exec(compile(use, "tutorial.md", "exec"), names)
    assert names["model"].num_parameters() > 1_000_000


@pytest.mark.slow
def test_every_file_of_own_data_is_read_and_wants_no_look(here):
    written = files(PAGES["own_data.md"])
    for name, content in written.items():
        Path(name).write_text(content, "utf-8")
    assert set(written) == {"pairs.jsonl", "pairs.csv", "sides.csv", "work.yaml"}
    for name in sorted(written):
        if not name.endswith(".yaml"):
            assert "no warnings" in said("check", name)
            assert countergen_edit.task("gender", name).sets("test")[0].samples
    whole = countergen_edit.task("gender", "work.yaml", names=NAMES)
    assert [len(data.samples) for data in whole.sets("test")] == [3, 2]
    assert len(whole.fit) == len(whole.sets("validation")) == 1


def test_a_phi_of_ones_own_tells_texts_apart(here):
    Path("my_phi.py").write_text(files(SHOWN["custom_components.md"])["my_phi.py"], "utf-8")
    phi = PHIS.get("my_phi.py:Length")()
    apart = phi.distances(["a nurse", "a very good nurse", "a doctor"])
    assert apart.tolist() == [[0, 2, 0], [2, 0, 2], [0, 2, 0]]
