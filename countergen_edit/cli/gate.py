"""`countergen-edit gate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from countergen_edit import api
from countergen_edit.cli.printing import say
from countergen_edit.core.errors import UserError

CODES = {"fails": 1, "cannot tell": 2}


def run_gate(config: Mapping[str, Any], words: Sequence[str] = ()) -> None:
    """Hold a run to limits; write the checks as files where asked, and print them.

    Raises:
        SystemExit: with code 1 if a check fails, else with 2 if one cannot be told.
    """
    if not config["run"]:
        raise UserError("no run is named: write countergen-edit gate RUN group_effect=0.3")
    found = api.gate(config["run"], strict=config["strict"], **config["limits"])
    for file, write in (("junit", found.write_junit), ("json", found.write_json)):
        if config[file]:
            write(Path(config[file]).expanduser())
    say(found.lines)
    if code := CODES.get(found.verdict):
        raise SystemExit(code)
