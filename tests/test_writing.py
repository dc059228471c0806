"""A file is written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import whole, whole_folder


def test_a_file_takes_its_place_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    with whole(path) as temporary:
        temporary.write_text("all of it")
        assert not path.exists()
    assert path.read_text() == "all of it"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_what_could_not_be_finished_leaves_the_file_as_it_was(
    error: BaseException, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_text("before")

    def write() -> None:
        with whole(path) as temporary:
            temporary.write_text("half")
            raise error

    expected = UserError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected) as said:
        write()
    if isinstance(error, OSError):
        assert f"cannot write {path}: No space left on device" in str(said.value)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_comes_back_from_a_kill_between_the_old_name_and_the_new(tmp_path: Path) -> None:
    path, old = tmp_path / "folder", tmp_path / "folder.old.tmp"
    old.mkdir()
    (old / "file").write_text("before")

    def write() -> None:
        with whole_folder(path) as temporary:
            (temporary / "file").write_text("half")
            raise OSError(28, "No space left on device")

    with pytest.raises(UserError, match="No space left on device"):
        write()
    assert (path / "file").read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_made_is_named() -> None:
    with (
        pytest.raises(UserError, match="cannot write /proc/nowhere/file"),
        whole(Path("/proc/nowhere/file")),
    ):
        pass
