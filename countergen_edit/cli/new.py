"""`countergen-edit new`: a commented file of the user's own, which works as it stands.

Comes in: a composed config. Goes out: a file in the current folder, and the line that tries it.
Refused: another kind, a name that is none or is taken, a file that is there.
"""

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

BEGUN = Path(__file__).parent / "begun"
"""Files as they are begun, in Jinja's notation."""
NEXT = {
    "axis": "countergen-edit audit axis={file}",
    "data": "countergen-edit audit data={file}",
    "eraser": "countergen-edit audit eraser={file}:{title}",
    "metric": "countergen-edit audit 'metric=[r,{file}:{title}]'",
}
"""Kind → the line that tries it."""
NAME = re.compile(r"[a-z][a-z0-9_]*")


def run(config: Mapping[str, Any]) -> None:
    """Write the file.

    Raises:
        UserError: what is asked for is not a kind and a name, or the file cannot be made.
    """
    what = config["what"]
    kind, name = what if isinstance(what, list) and len(what) == 2 else ("", "")
    if not kind:
        raise UserError(
            f"say what to write, and its name: countergen-edit new {'|'.join(NEXT)} NAME"
        )
    if kind not in NEXT:
        raise unknown("kind of file", str(kind), NEXT)
    [begun] = BEGUN.glob(f"{kind}.*.jinja")
    file = Path(f"{name}.{begun.suffixes[0][1:]}")
    _require_name(kind, str(name), file)
    from jinja2 import Environment, StrictUndefined

    title = "".join(part.capitalize() for part in str(name).split("_"))
    line = NEXT[kind].format(file=file, title=title)
    template = Environment(undefined=StrictUndefined, keep_trailing_newline=True).from_string(
        begun.read_text("utf-8")
    )
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(template.render(name=name, title=title, file=file, line=line))
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}") from None
    say(
        [
            f"{file} is written, and works as it stands: change it as its comments say.",
            f"Next: {line}",
        ]
    )


def _require_name(kind: str, name: str, file: Path) -> None:
    """Refuse a name that is none, ours, a module's, or of a file that is there.

    Raises:
        UserError: it is.
    """
    if not NAME.fullmatch(name) or keyword.iskeyword(name):
        plain = re.sub(r"\W+", "_", name.lower()).strip("_")
        near = plain if NAME.fullmatch(plain) and not keyword.iskeyword(plain) else f"my_{kind}"
        raise UserError(
            f"{name!r} names no file: write small letters, digits and _, such as {near}"
        )
    if file.exists():
        raise UserError(f"{file} is there already: choose another name, such as {name}_2")
    shipped = (conf_dir() / kind / f"{name}.yaml").is_file()
    module = file.suffix == ".py" and importlib.util.find_spec(name) is not None
    if shipped or module:
        whose = f"is a shipped {kind}" if shipped else "is a module that others import"
        raise UserError(f"{name!r} {whose}: choose another, such as my_{name}")
