"""Files are read or refused in one line, and written whole; no text is half stored."""

import csv
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import countergen_edit as ce
from countergen_edit.core.characters import printable, require_encodable
from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import (
    csv_table,
    json_lines,
    json_mapping,
    json_objects,
    text_of,
    yaml_mapping,
)
from countergen_edit.core.typed import require
from countergen_edit.core.writing import whole, whole_folder
from countergen_edit.models import check_texts, continuation_log_probs, generate

READERS = {
    "text": text_of,
    "json": json_mapping,
    "json lines": lambda path: list(json_lines(path)),
    "json objects": lambda path: list(json_objects(path)),
    "yaml": yaml_mapping,
    "csv": csv_table,
}
PARTS = ['{"a": ', *'[]}",\n\r', "1e999", "&a ", "*a", "!!python/name:os.system ", "- ", ": "]
NEARLY = st.lists(st.sampled_from(PARTS), max_size=12).map("".join)


@pytest.mark.parametrize("kind", READERS)
@given(content=st.binary(max_size=60) | NEARLY.map(str.encode))
def test_any_bytes_are_read_or_refused_in_one_line(kind, content, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(content)
    line = str(path)
    try:
        READERS[kind](path)
    except UserError as error:
        line = str(error)
    assert str(path) in line
    assert len(line) < len(str(path)) + 300


OBJECTS = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.integers() | st.text(st.characters(exclude_categories=["Cs"])) | st.none(),
)


@given(objects=st.lists(OBJECTS, max_size=4))
def test_what_was_written_is_read(objects, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "objects"
    path.write_text("".join(json.dumps(o, ensure_ascii=False) + "\n" for o in objects), "utf-8")
    assert [content for _, content in json_lines(path)] == objects


def test_a_row_comes_with_its_place(tmp_path):
    path = tmp_path / "rows"
    path.write_text('{"a": "x\u2028y"}\n\n{"b": 1}\n', "utf-8")
    assert [where for where, _ in json_lines(path)] == [f"{path}, line {n}: " for n in (1, 3)]
    path.write_text('a,b\n1,"2\n3"\n4,5\n')
    columns, rows = csv_table(path)
    assert columns == ["a", "b"]
    assert rows[0] == (f"{path}, line 2: ", {"a": "1", "b": "2\n3"})
    assert rows[1:] == [(f"{path}, line 4: ", {"a": "4", "b": "5"})]


@pytest.mark.parametrize(
    ("kind", "content", "refusal"),
    [
        ("json lines", '{}\n{"a": ' + "9" * 5000 + "}", "line 2: not JSON .Exceeds the limit"),
        ("json lines", '{"a": ' + "[" * 100_000, "line 1: nested too deeply"),
        ("json lines", "{}\n\n[1]", r"line 3: a mapping of names to values is needed, not \[1\]"),
        ("json lines", b"{}\n\xff", "line 2: not UTF-8 .*start byte at byte 3., probably cp1252"),
        ("json lines", "{}".encode("utf-16"), "line 1: not UTF-8 .*: iconv -f UTF-16 -t"),
        ("json lines", '{}\n{"a": {"b": 1, "b": 1}}', "line 2: not JSON .'b' is given twice"),
        ("csv", "a,b\n1,2,3\n", "line 2: more cells than the 2 columns"),
        ("csv", "a,b\n" + "x" * 200_000 + ",1\n", "line 2: not CSV .field larger than"),
        ("csv", "a,b,a\n", "line 1: 'a' is given twice"),
        ("csv", 'a,b\n1,2\n"3,4\n5,6\n', "line 3: not CSV .unexpected end of data.: close the"),
        ("csv", 'a,b\n"1,2\n3,4\n"5",6\n', "line 2: not CSV .',' expected after"),
        ("csv", 'a,b\n1,2\n\n"3,4\n5,", 6"\n', "line 4: not CSV .an odd number of quotes"),
    ],
    ids=range(12),
)
def test_a_damaged_line_is_refused(kind, content, refusal, tmp_path):
    (tmp_path / "f").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=refusal):
        READERS[kind](tmp_path / "f")


CELLS = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]) | st.just("\n"), max_size=6)


@given(
    rows=st.lists(st.tuples(CELLS.filter(bool), CELLS), max_size=4), mark=st.sampled_from(",;\t|")
)
def test_a_table_is_read_as_it_was_written_with_any_delimiter(rows, mark, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "table.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=mark, quoting=csv.QUOTE_ALL).writerows([("a", "b"), *rows])
    columns, placed = csv_table(path, ["a", "b"])
    assert columns == ["a", "b"]
    assert [(row["a"], row["b"]) for _, row in placed] == rows


def test_what_is_no_file_is_refused(tmp_path):
    (tmp_path / "prompts.csv").touch()
    with pytest.raises(UserError, match=r"no file '.*promts\.csv'; nearest is '.*prompts\.csv'"):
        text_of(tmp_path / "promts.csv")
    with pytest.raises(UserError, match=r"cannot read .*directory"):
        text_of(tmp_path)
    with pytest.raises(UserError, match=r"cannot read .*null"):
        text_of("a\0b")
    (tmp_path / "y").write_text("a: !!python/name:os.system ''")
    with pytest.raises(UserError, match=r"is not YAML: .*python/name"):
        yaml_mapping(tmp_path / "y")


def test_a_file_takes_its_place_when_it_is_whole(tmp_path):
    path = tmp_path / "new" / "file"
    with whole(path) as temporary:
        temporary.write_text("all of it")
        assert not path.exists()
    assert path.read_text() == "all of it"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_what_could_not_be_finished_leaves_the_file_as_it_was(error, tmp_path):
    path = tmp_path / "file"
    path.write_text("before")

    def write():
        with whole(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises((UserError, KeyboardInterrupt)) as raised:
        write()
    if isinstance(error, OSError):
        assert f"cannot write {path}: No space left on device" in str(raised.value)
    else:
        assert raised.value is error
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_comes_back_from_a_kill_between_the_old_name_and_the_new(tmp_path):
    path, old = tmp_path / "folder", tmp_path / "folder.old.tmp"
    old.mkdir()
    (old / "file").write_text("before")

    def write():
        with whole_folder(path) as temporary:
            (temporary / "file").write_text("half")
            raise OSError(28, "No space left on device")

    with pytest.raises(UserError, match="No space left on device"):
        write()
    assert (path / "file").read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_made_is_named():
    with (
        pytest.raises(UserError, match="cannot write /proc/nowhere/file"),
        whole(Path("/proc/nowhere/file")),
    ):
        pass


TEXT = st.text(st.characters(codec=None) | st.characters(categories=["Cs"]), max_size=4)
NESTED = st.recursive(
    st.none() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
)
HALF = "Jane is \ud83d"


@given(NESTED)
def test_what_no_file_can_hold_is_refused_and_nothing_else(content):
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        with pytest.raises(UserError, match="is half of a character") as refused:
            require_encodable(content)
        str(refused.value).encode()
    else:
        require_encodable(content)


@given(st.text())
def test_shown_text_commands_no_terminal(text):
    shown = printable(text)
    assert len(shown) == len(text)
    assert all(c.isprintable() or c == "\n" for c in shown)
    assert printable(shown) == shown


@pytest.mark.parametrize(
    "call",
    [
        lambda lm: ce.task(data={"test": [{"source": "templates", "templates": HALF}]}),
        lambda lm: ce.task({"name": "x", "groups": {"a": {"forms": {"person": HALF}}}}),
        lambda lm: require(str, HALF, "name"),
        lambda lm: check_texts(lm, ["Jane", HALF]),
        lambda lm: continuation_log_probs(lm, ["Jane is"], [HALF]),
        lambda lm: generate(lm, [HALF], max_new_tokens=1),
    ],
)
def test_half_of_a_character_is_refused_in_python(call, testbed):
    with pytest.raises(UserError, match=r"Jane is \\ud83d.*: '\\ud83d' is half of a"):
        call(testbed)
