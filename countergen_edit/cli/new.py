"""`countergen-edit new`: a commented file of the user's own, from `templates/`."""

from __future__ import annotations

import importlib.util
import keyword
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from countergen_edit.cli.printing import say
from countergen_edit.core.conf_path import conf_dir
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
    [source] = TEMPLATES.glob(f"{kind}.*.jinja")
    file = Path(f"{name}.{source.suffixes[0][1:]}")
    require_name(kind, name, file)
    from jinja2 import Environment, StrictUndefined

    title = "".join(part.capitalize() for part in name.split("_"))
    line = NEXT[kind].format(file=file, title=title)
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    template = environment.from_string(source.read_text("utf-8"))
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(template.render(name=name, title=title, file=file, line=line))
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}") from None
    say([f"{file} is written, and works as it stands: change it as its comments say."])
    say([f"Next: {line}"])


def require_name(kind: str, name: str, file: Path) -> None:
    """Refuse a name that is invalid or taken."""
    if not NAME.fullmatch(name) or keyword.iskeyword(name):
        plain = re.sub(r"\W+", "_", name.lower()).strip("_")
        near = plain if NAME.fullmatch(plain) and not keyword.iskeyword(plain) else f"my_{kind}"
        raise UserError(
            f"{name!r} names no file: write small letters, digits and _, such as {near}"
        )
    if file.exists():
        raise UserError(f"{file} is there already: choose another name, such as {name}_2")
    if (conf_dir() / kind / f"{name}.yaml").is_file():
        raise UserError(f"{name!r} is a shipped {kind}: choose another, such as my_{name}")
    if file.suffix == ".py" and importlib.util.find_spec(name) is not None:
        raise UserError(
            f"{name!r} is a module that others import: choose another, such as my_{name}"
        )
