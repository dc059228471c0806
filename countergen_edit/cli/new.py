"""`countergen-edit new`: a commented file of the user's own, from `templates/`."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from countergen_edit.cli.printing import say
from countergen_edit.core.errors import UserError, unknown

TEMPLATES = Path(__file__).parent / "templates"
NEXT = {
    "axis": "countergen-edit audit axis={file}",
    "data": "countergen-edit audit data={file}",
    "eraser": "countergen-edit audit eraser={file}:{title}",
    "metric": "countergen-edit audit 'metric=[r,{file}:{title}]'",
}
"""Kind of file → the command that tries it."""
NAME = re.compile(r"[a-z][a-z0-9_]*")


def run(config: Mapping[str, Any]) -> None:
    """Write the file."""
    kind, name = map(str, config["file"]) if len(config["file"]) == 2 else ("", "")
    if not kind:
        raise UserError(
            f"say what to write, and its name: countergen-edit new {'|'.join(NEXT)} NAME"
        )
    if kind not in NEXT:
        raise unknown("kind of file", kind, NEXT)
    if not NAME.fullmatch(name) or keyword.iskeyword(name):
        raise UserError(
            f"{name!r} names no file: write small letters, digits and _, such as my_{kind}"
        )
    [source] = TEMPLATES.glob(f"{kind}.*.jinja")
    file = Path(f"{name}.{source.suffixes[0][1:]}")
    title = "".join(part.capitalize() for part in name.split("_"))
    line = NEXT[kind].format(file=file, title=title)
    template = Environment(undefined=StrictUndefined, keep_trailing_newline=True).from_string(
        source.read_text("utf-8")
    )
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(template.render(name=name, title=title, file=file, line=line))
    except FileExistsError:
        raise UserError(f"{file} is there already: choose another name") from None
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}") from None
    say([f"{file} is written, and works as it stands: change it as its comments say."])
    say([f"Next: {line}"])
