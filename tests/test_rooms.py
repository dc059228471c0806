"""The order of the rooms: a room imports from rooms to its left, never from its right."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import countergen_edit

PACKAGE = Path(countergen_edit.__file__).parent
ORDER = [
    "data",
    "models",
    "erasers",
    "edits",
    "checkpoints",
    "metrics",
    "experiments",
    "reports",
    "cli",
]
SUPPORT = {"errors", "seeds", "conf_path", "writing"}
# The testbed stands beside data and models.
MAY_IMPORT = {room: {*ORDER[:i], room} for i, room in enumerate(ORDER)}
MAY_IMPORT["testbed"] = {"data", "models", "testbed"}
MAY_IMPORT["erasers"] = {"erasers"}
for room in ("experiments", "cli"):
    MAY_IMPORT[room].add("testbed")


def imports(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        rooms |= {n.split(".")[1] for n in names if n.startswith("countergen_edit.")}
    return rooms


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_a_room_imports_only_from_its_left(room: str) -> None:
    files = list((PACKAGE / room).rglob("*.py"))
    assert files
    for path in files:
        wrong = imports(path) - MAY_IMPORT[room] - SUPPORT
        assert not wrong, f"{path.relative_to(PACKAGE)} imports {wrong}"


def test_only_the_door_imports_hydra() -> None:
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name != "cli":
            assert "hydra" not in path.read_text("utf-8").replace("Hydra", ""), path


def test_nothing_imports_scripts() -> None:
    for path in PACKAGE.rglob("*.py"):
        assert "import scripts" not in path.read_text("utf-8")
