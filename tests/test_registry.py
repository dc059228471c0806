"""What is chosen by name: ours, a decorator's, an installed package's, a file's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from countergen_edit.core import registry
from countergen_edit.core.errors import UserError
from countergen_edit.core.registry import Registry

GROUP = "countergen_edit.tests"
OWN_FILE = """
loads = []
loads.append(1)

class Square:
    def __init__(self, *, side: float = 1.0) -> None:
        self.side = side

class Circle:
    def __init__(self, *, radius: float) -> None:
        self.radius = radius

NUMBER = 5
"""


@pytest.fixture
def shapes():
    return Registry("shape", GROUP, {"fraction": "fractions:Fraction"})


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN_FILE)
    return path


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder on the path into which packages can be installed."""
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._installed.cache_clear()
    yield tmp_path
    registry._installed.cache_clear()


def install(site: Path, package: str, entries: str, code: str) -> None:
    (site / f"{package}.py").write_text(code)
    info = site / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{entries}\n")


def refusal(call, *args, **kwargs) -> str:
    with pytest.raises(UserError) as caught:
        call(*args, **kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Ours, and those that a decorator enters


def test_ours_are_imported_on_first_use():
    script = (
        "import sys\n"
        "from countergen_edit.core.registry import Registry\n"
        "shapes = Registry('shape', 'none', {'stats': 'pstats:Stats'})\n"
        "assert [*shapes] == ['stats'] and 'stats' in shapes\n"
        "assert 'pstats' not in sys.modules\n"
        "print(shapes.get('stats').__name__)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "Stats\n"


def test_what_a_decorator_enters_is_like_ours_and_no_name_is_taken_twice(shapes):
    def cell():
        @shapes.register("square")
        class Square:
            pass

        return Square

    first, second = cell(), cell()  # a class that is defined again takes its own place
    assert [*shapes] == ["fraction", "square"]
    assert shapes.get("square") is second is not first
    assert isinstance(shapes.make("square"), second)
    assert shapes.name_of(second) == shapes.name_of(second()) == "square"
    rectangle = type("Rectangle", (), {})
    message = refusal(shapes.register("square"), rectangle)
    assert message.startswith("shape name 'square' is taken by ")
    assert "<locals>.Square: choose another" in message
    assert "is taken by fractions:Fraction" in refusal(shapes.register("fraction"), rectangle)
    assert refusal(shapes.get, "sqare") == (
        "unknown shape 'sqare': did you mean 'square'? Valid: fraction, square"
    )


# Settings


def two(side: int, *, depth: int = 2, colour: str = "red", **options: object) -> tuple:
    return side, depth, colour, options


def closed(side: int, *, depth: int = 2, seed: int = 0) -> tuple[int, int, int]:
    return side, depth, seed


def test_settings_are_checked_against_the_signature(shapes):
    shapes.register("box")(closed)
    assert shapes.make("box", {"side": 3, "depth": 4}, seed=7) == (3, 4, 7)
    assert refusal(shapes.make, "box", {"side": 3, "dept": 4}, seed=7) == (
        "unknown setting of shape box 'dept': did you mean 'depth'? Valid: side, depth, kind"
    )
    assert refusal(shapes.make, "box") == "shape box needs side: give box.side"


def test_a_user_cannot_set_what_the_program_adds(shapes):
    shapes.register("open")(two)
    assert "unknown setting of shape open 'depth'" in refusal(
        shapes.make, "open", {"side": 3, "depth": 1}, depth=7
    )


def test_kind_says_what_stands_under_a_name_of_ones_own(shapes, file):
    shapes.register("box")(closed)
    assert shapes.make("mine", {"kind": "box", "side": 1}) == (1, 2, 0)
    assert shapes.make("other", {"kind": "box", "side": 2, "depth": 3}) == (2, 3, 0)
    assert refusal(shapes.make, "mine", {"kind": "box"}) == "shape mine needs side: give mine.side"
    assert shapes.make("mine", {"kind": f"{file}:Square", "side": 2.5}).side == 2.5


# Files


def test_a_file_of_ones_own_is_run_once_for_all_its_names(shapes, file, monkeypatch):
    square, circle = shapes.get(f"{file}:Square"), shapes.get(f"{file}:Circle")
    assert sys.modules[square.__module__].loads == [1]
    assert shapes.make(f"{file}:Circle", {"radius": 2.0}).radius == 2.0
    assert "needs radius" in refusal(shapes.make, f"{file}:Circle")
    assert Registry("other", GROUP, {}).get(f"{file}:Circle") is circle
    monkeypatch.chdir(file.parent)
    monkeypatch.setenv("HOME", str(file.parent))
    assert shapes.get("own.py:Square") is shapes.get("~/own.py:Square") is square


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import no_such_module_at_all\n", "ModuleNotFoundError: No module named 'no_such_mod"),
        ("def f(:\n", "SyntaxError: "),
        ("raise RuntimeError('first line\\nsecond line')\n", "RuntimeError: first line"),
        ("raise RuntimeError\n", "RuntimeError: no reason given"),
        ("import sys\nsys.exit('usage: own')\n", "SystemExit: usage: own"),
    ],
)
def test_a_file_that_raises_is_one_line(shapes, file, code, reason):
    file.write_text(code)
    message = refusal(shapes.get, f"{file}:Square")
    assert message.startswith(f"cannot load shape '{file}:Square': {reason}")
    file.write_text(OWN_FILE)
    assert shapes.make(f"{file}:Square").side == 1.0


def test_a_missing_file_and_a_missing_name_are_named(shapes, file):
    missing = file.with_name("missing.py")
    assert refusal(shapes.get, f"{missing}:Square") == f"no such file: {missing}"
    assert "unknown name in" in (message := refusal(shapes.get, f"{file}:Sqare"))
    assert "did you mean 'Square'?" in message
    assert f"say what in it, {file}:Name" in refusal(shapes.get, str(file))
    assert "is not a class or function, but 5" in refusal(shapes.get, f"{file}:NUMBER")


# Installed packages


def test_an_installed_package_enters_its_own_beside_ours(shapes, site):
    entries = "star = pack_a:Star\nmoon = pack_a:Moon\nsun = pack_a.sun:Sun\nfraction = pack_a:F"
    install(site, "pack_a", entries, "class Star:\n    pass\n")
    assert [*shapes] == ["fraction", "star", "moon", "sun"]
    assert "pack_a" not in sys.modules
    assert shapes.get("star").__name__ == "Star"
    assert shapes.name_of(shapes.make("star")) == "star"
    assert "did you mean 'star'?" in refusal(shapes.get, "sta")
    assert refusal(shapes.get, "moon").startswith("cannot load shape 'moon': AttributeError")
    assert refusal(shapes.get, "sun").startswith("cannot load shape 'sun': ModuleNotFoundError")
    assert shapes.get("fraction").__module__ == "fractions"


# Names of things


def test_what_is_registered_nowhere_is_named_by_its_file(shapes, file):
    square = shapes.get(f"{file}:Square")
    elsewhere = Registry("shape", GROUP, {})
    name = elsewhere.name_of(square)
    assert name == f"{file}:Square"
    assert elsewhere.get(name) is square


def test_another_class_of_the_same_name_is_not_ours(shapes):
    class Fraction:
        pass

    Fraction.__qualname__ = "Fraction"
    assert shapes.name_of(Fraction) != "fraction"
