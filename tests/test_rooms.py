"""The order of the rooms: a room imports from rooms to its left, never from its right."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import countergen_edit

PACKAGE = Path(countergen_edit.__file__).parent
ORDER = ["data", "models", "erasers", "edits", "metrics", "decisions", "runs", "reports"]
ORDER += ["api", "cli"]
# The testbed stands beside data and models; core knows nothing of the field.
MAY_IMPORT = {room: {"core", *ORDER[:i], room} for i, room in enumerate(ORDER)}
MAY_IMPORT["core"] = {"core"}
MAY_IMPORT["testbed"] = {"core", "data", "models", "testbed"}
MAY_IMPORT["erasers"] = {"core", "erasers"}
for room in ("runs", "reports", "api", "cli"):
    MAY_IMPORT[room].add("testbed")
LATE = {"runs/run.py": {"reports"}}
"""A run shows itself: its page and its sentences are imported when they are asked for."""


def imports(path):
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
def test_a_room_imports_only_from_its_left(room):
    files = list((PACKAGE / room).rglob("*.py")) or [PACKAGE / f"{room}.py"]
    assert files
    for path in files:
        name = path.relative_to(PACKAGE).as_posix()
        wrong = imports(path) - MAY_IMPORT[room] - LATE.get(name, set())
        assert not wrong, f"{name} imports {wrong}"


def at_once(nodes):
    """What is imported with a module: not in functions, and not for types alone."""
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            yield from at_once(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from at_once(ast.iter_child_nodes(node))


def test_no_module_imports_itself_by_way_of_others():
    files = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path
        for path in PACKAGE.rglob("*.py")
    }
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}
    graph = {}
    for name, path in files.items():
        wanted = graph.setdefault(name, set())
        for node in at_once(ast.parse(path.read_text("utf-8")).body):
            if isinstance(node, ast.Import):
                wanted |= {alias.name for alias in node.names}
            elif module := node.module:
                every = ((f"{module}.{alias.name}", module) for alias in node.names)
                wanted |= {inner if inner in files else outer for inner, outer in every}
    assert sum(name in files for wanted in graph.values() for name in wanted) > 300
    TopologicalSorter(graph).prepare()  # a CycleError names the circle


def test_only_the_door_imports_hydra_and_nothing_scripts():
    for path in PACKAGE.rglob("*.py"):
        code = path.read_text("utf-8")
        assert "import scripts" not in code
        assert path.parent.name == "cli" or "hydra" not in code.replace("Hydra", ""), path


def test_the_facade_imports_no_room():
    assert not imports(PACKAGE / "__init__.py")


def test_no_file_of_reports_or_cli_imports_a_metric():
    """But for the view of each metric, and the check of the testbed against its truth."""
    known = "base", "context", "results", "rows"
    for room in ("reports", "cli"):
        for path in (PACKAGE / room).rglob("*.py"):
            if path.stem in ("cid", "classifiers", "verify_testbed") or "views" in path.parts:
                continue
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                    "countergen_edit.metrics."
                ):
                    assert str(node.module).split(".")[2] in known, path


def public_names(path):
    """The top-level names that a module defines, without those for its own use."""
    for node in ast.parse(path.read_text("utf-8")).body:
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        named = [name for target in targets if target for name in ast.walk(target)]
        names = {name.id for name in named if isinstance(name, ast.Name)}
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names = {node.name}
        yield from (name for name in names if not name.startswith("_"))


def test_a_public_name_is_defined_once():
    places = {}
    for path in PACKAGE.rglob("*.py"):
        for name in {*public_names(path)}:
            places.setdefault(name, []).append(str(path.relative_to(PACKAGE)))
    assert len(places) > 500
    assert not {name: paths for name, paths in places.items() if len(paths) > 1}
