"""`countergen-edit COMMAND [key=value …]`; heavy imports wait until a command runs."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from io import TextIOWrapper
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import countergen_edit
from countergen_edit.cli.help import explained, page, usage
from countergen_edit.cli.overrides import MULTIRUN, overrides_of
from countergen_edit.cli.settings import COMMANDS
from countergen_edit.core.characters import printable, require_encodable
from countergen_edit.core.conf_path import conf_dir
from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.stages import printed, stage

HELP = ("-h", "--help")
WITH_STAGES = ("audit", "debias", "sweep", "edit")
"""Commands that print their stages where nobody sees a progress bar."""
_MODULES = {
    **dict.fromkeys(("report", "compare", "gate", "rate", "testbed"), "reading"),
    **{"sweep": "audit", "debias": "edit", "chat": "edit", "classifiers": "cid"},
}
"""The modules of commands whose module has another name."""


@contextmanager
def _handling_sigterm() -> Iterator[None]:
    """Unwind on SIGTERM as on Ctrl-C, unless another handler is set."""

    def stop(number: int, _: object) -> None:
        raise KeyboardInterrupt(number)

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code, 2 for a mistake of the user."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    command, *words = arguments or HELP[:1]
    for stream, errors in ((sys.stdin, "surrogateescape"), (sys.stdout, "backslashreplace")):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=errors)
    try:
        require_encodable(arguments, "arguments: ")
        if command in HELP:
            print(usage())
        elif command == "--version":
            print(f"countergen-edit {countergen_edit.__version__}")
        elif command not in (*COMMANDS, "help"):
            raise unknown("command", command, [*COMMANDS, "help"])
        elif command == "help":
            term = " ".join(word for word in words if word not in HELP)
            print(page(term) if term in COMMANDS else explained(term))
        elif set(HELP) & set(words):
            print(page(command, every="all" in words))
        else:
            with _handling_sigterm():
                run_command(command, words)
        sys.stdout.flush()
    except UserError as error:
        return report(error)
    except OSError as error:
        return report(_of_system(error))
    except KeyboardInterrupt as stop:
        print("countergen-edit: stopped; the same command continues the run", file=sys.stderr)
        return 128 + int((stop.args or (signal.SIGINT,))[0])
    return 0


def _of_system(error: OSError) -> UserError:
    """The error for a path that is too long, or where standard output cannot be written."""
    if error.errno == errno.ENAMETOOLONG:
        name = max(Path(error.filename).parts, key=len)
        return UserError(f"{name[:40]!r}… is too long for a file name")
    if error.filename or error.errno not in (errno.ENOSPC, errno.EPIPE, errno.EIO, errno.EBADF):
        raise error  # a file of ours that cannot be written is a `NotWrittenError`
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # flushed once more at exit
    return UserError(f"cannot write to standard output: {error.strerror}")


def report(error: Exception) -> int:
    """Print a mistake of the user in one line; the exit code."""
    print(f"countergen-edit: error: {printable(' '.join(str(error).split()))}", file=sys.stderr)
    return 2


def run_command(command: str, words: Sequence[str]) -> None:
    """Run one command, print its configuration (`--cfg`), or run its jobs (`--multirun`)."""
    from countergen_edit.cli.composing import checked_config  # late: imports Hydra

    flagged = overrides_of(command, words)
    config, overrides = checked_config(command, flagged)
    if "--cfg" in flagged:
        from omegaconf import OmegaConf

        print(OmegaConf.to_yaml(config), end="")
    elif {*MULTIRUN} & {*flagged}:
        run_jobs(command, overrides, words)
    else:
        run_job(command, config, words)


def run_job(command: str, config: dict[str, Any], words: Sequence[str]) -> None:
    """Run a command with a checked configuration."""
    line = f"{command}: loading …"
    if command != "check" and sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)
    with printed() if command in WITH_STAGES else nullcontext():
        stage(line)
        module = _MODULES.get(command, command)
        resolve_name(f"countergen_edit.cli.{module}:run_{command}")(config, words)


def run_jobs(command: str, overrides: Sequence[str], words: Sequence[str]) -> None:
    """Run the jobs of `--multirun`; exit with code 1 if some failed, and name them."""
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    from countergen_edit.cli.composing import plain_config, require_valid

    def task(config: Any) -> str:
        """Why the job failed; empty if it did not."""
        try:
            content = plain_config(command, config)
            require_valid(command, content)
            run_job(command, content, words)
        except UserError as error:
            report(error)
            return str(error)
        except (Exception, SystemExit) as error:
            if isinstance(error, Exception):
                traceback.print_exc()
            return repr(error)
        return ""

    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        app: Any = GlobalHydra.instance().hydra
        batches = app.multirun(command, task, [*overrides, "hydra.mode=MULTIRUN"])
    jobs = [({*job.overrides}, job.return_value) for batch in batches for job in batch]
    shared = set.intersection(*(settings for settings, _ in jobs))
    if failed := [f"{' '.join(sorted(s - shared))} ({why})" for s, why in jobs if why]:
        line = f"{len(failed)} of {len(jobs)} jobs failed: {'; '.join(failed)}"
        print(f"countergen-edit: {' '.join(line.split())}", file=sys.stderr)
        raise SystemExit(1)


if __name__ == "__main__":
    sys.exit(main())
