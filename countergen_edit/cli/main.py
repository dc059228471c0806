"""`countergen-edit COMMAND [key=value …]`: find the command, hand the rest to Hydra.

Heavy imports wait until a job starts, so that help and mistakes answer at once.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any

import countergen_edit
from countergen_edit.cli import several, terms
from countergen_edit.cli.declared import require_settings
from countergen_edit.cli.help import choices_of, nearest_setting, own_settings, page, settings_of
from countergen_edit.cli.opening import LONG, opening
from countergen_edit.cli.taken_over import taken_over
from countergen_edit.cli.words import overrides_of, settings_in
from countergen_edit.core.conf_path import conf_dir
from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.stages import printed, stage
from countergen_edit.core.typed import require

COMMANDS = {
    "audit": "measure the bias, project it out, and show before against after",
    "edit": "edit a model and save it, with a model card, for anyone to load",
    "chat": "talk to the original and the edited model side by side",
    "debias": "find the edit that fits your budgets, audit it, and save the edited model",
    "cid": "continue each of two prompts with what is unlikely after the other",
    "classifiers": "measure a bias with templates and with their paraphrases: does it hold?",
    "check": "show both versions of each of your prompts, and warnings",
    "new": "write a commented axis, data, eraser or metric of yours that works as it stands",
    "sweep": "try every layer, eraser, rank and site, and show what each removes and costs",
    "report": "show a run as one page, and its figures and tables as files for papers",
    "runs": "list the runs of a folder with their verdicts, and write an index page over them",
    "compare": "hold runs against each other, paired where they share prompts",
    "testbed": "check the shipped model against its planted truth, or train it anew",
}
HELP = ("-h", "--help")
EXPLAIN = "help"
"""The word before a term that is to be explained."""
FULL_ERROR = "HYDRA_FULL_ERROR"
MULTIRUN = ("--multirun", "-m")
OF_HYDRA = re.compile(r"-|[+~]{0,2}hydra[./=@]")
"""What begins a flag, or a setting of Hydra's own."""
NO_PLUGIN = re.compile(r"Could not find 'hydra/\w+/((joblib|submitit|ray|optuna)\w*)'")
UNKNOWN_CHOICE = re.compile(r"(?:In '\w+': )?Could not (?:find|load) '([\w/]+)/([^/']+)'")
UNKNOWN_KEY = re.compile(r"(?:Could not override|Key) '([^']+)'")
WITHIN = re.compile(r"full_key: (\S+)")


def usage() -> str:
    """What `countergen-edit --help` prints."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "usage: countergen-edit COMMAND [key=value …]",
            "",
            *lines,
            "",
            "countergen-edit COMMAND --help shows every setting and every choice of a command.",
            "countergen-edit help TERM explains a word of the reports; without TERM it lists all.",
        ]
    )


class TerminatedError(KeyboardInterrupt):
    """The system asks the process to end, and gives it time to put things in order."""


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Let SIGTERM unwind what is being done, as Ctrl-C does, unless somebody else listens."""

    def stop(*_: object) -> None:
        raise TerminatedError

    listens = (
        threading.current_thread() is threading.main_thread()  # no other may
        and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    )
    if listens:
        signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        if listens:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code (2 for a mistake of the user)."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in HELP:
        print(usage())
        return 0
    if words[0] == "--version":
        print(f"countergen-edit {countergen_edit.__version__}")
        return 0
    try:
        if words[0] not in (*COMMANDS, EXPLAIN):
            raise unknown("command", words[0], [*COMMANDS, EXPLAIN])
        if words[0] == EXPLAIN:
            about = " ".join(word for word in words[1:] if word not in HELP)
            print(page(about) if about in COMMANDS else terms.explained(about))
        elif set(HELP) & set(words):
            print(page(words[0]))
        else:
            with ending_in_order():
                run(words[0], words[1:])
    except UserError as error:
        return report(error)
    except KeyboardInterrupt as stop:
        print("countergen-edit: stopped; the same command continues the run", file=sys.stderr)
        return 128 + (signal.SIGTERM if isinstance(stop, TerminatedError) else signal.SIGINT)
    return 0


def report(error: Exception) -> int:
    """Say in one line what is wrong; the exit code of a user's mistake."""
    print(f"countergen-edit: error: {' '.join(str(error).split())}", file=sys.stderr)
    return 2


def run(command: str, words: Sequence[str]) -> None:
    """Run one command as a Hydra application; for several models, one after the other.

    Raises:
        UserError: the settings do not compose, or the job found a mistake in them.
    """
    words = settings_in(words)
    if models := several.models_of(command, words):
        run_several(command, words, models)
        return
    overrides = overrides_of(command, words)
    # Hydra's parser takes settings on one side of a flag only.
    overrides.sort(key=lambda word: word not in MULTIRUN)
    composed = check_composes(command, overrides)
    before = sys.argv
    sys.argv = [f"countergen-edit {command}", *words]  # as they were given, for manifests
    try:
        if any(map(OF_HYDRA.match, overrides)):
            run_in_hydra(command, overrides)
        else:
            [config] = composed
            run_job(command, config)
    finally:
        sys.argv = before


def run_job(command: str, config: dict[str, Any]) -> Any:
    """Do what a command does with settings that compose.

    Raises:
        UserError: the job found a mistake in them.
    """
    first = opening(command, config)
    if first and sys.stderr.isatty():
        print(first, file=sys.stderr, flush=True)
    with printed() if command in LONG else nullcontext(), following(config):
        stage(first)
        job: Callable[[Mapping[str, Any]], Any] = import_module(
            f"countergen_edit.cli.{command}"
        ).run
        return job(config)


def run_in_hydra(command: str, overrides: Sequence[str]) -> None:
    """Run a command as a Hydra application: several jobs, launchers, what Hydra prints itself.

    Raises:
        SystemExit: a job of this process found a mistake, and said so.
    """
    import hydra

    own_process, words = os.getpid(), sys.argv

    def task(config: Any) -> Any:
        from omegaconf import OmegaConf

        plain: Any = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
        sys.argv = words
        try:
            # Again: of the jobs of --multirun only some were composed before.
            plain = taken_over(plain, overrides)
            require_settings(plain, own_settings(command))
            return run_job(command, plain)
        except UserError as error:
            if os.getpid() != own_process:
                raise  # of a launcher's worker, which hands it to the process that waits
            # Hydra would print its own trace; leaving through SystemExit keeps the one line.
            raise SystemExit(report(error)) from error

    sys.argv = [f"countergen-edit {command}", *overrides]
    with errors_as_raised():
        hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name=command)(task)()


@contextmanager
def errors_as_raised() -> Iterator[None]:
    """Hydra hands on what a job raised, instead of a trace of its own and exit code 1."""
    before = os.environ.get(FULL_ERROR)
    os.environ[FULL_ERROR] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[FULL_ERROR]
        else:
            os.environ[FULL_ERROR] = before


def run_several(command: str, words: Sequence[str], models: Sequence[str]) -> None:
    """Compose what the command is with each model alone, and run them all.

    Raises:
        UserError: the settings do not compose, or a job found a mistake in them.
    """
    configs: dict[str, dict[str, Any]] = {}
    for model in models:
        [configs[model]] = check_composes(
            command, overrides_of(command, several.words_for(words, model))
        )
    before = sys.argv
    sys.argv = [f"countergen-edit {command}", *words]  # as they were given, for manifests
    try:
        with following(*configs.values()):
            several.run(command, configs)
    finally:
        sys.argv = before


def following(*configs: dict[str, Any]) -> AbstractContextManager[None]:
    """Trackers that follow what is run; taken out of the settings, since no row depends on them.

    Args:
        configs: the settings of each run, which name the same trackers.

    Raises:
        UserError: a tracker cannot be made.
    """
    chosen: Any = None
    for config in configs:
        chosen = config.pop("tracker", None)
    if not chosen:
        return nullcontext()
    from countergen_edit.runs.tracking import tracked

    require(Mapping[str, Mapping[str, Any] | None], chosen, "tracker")
    return tracked(chosen)


def check_composes(command: str, overrides: Sequence[str]) -> list[dict[str, Any]]:
    """Compose the settings, of several jobs before Hydra does, to turn its traces into one line.

    Returns:
        The settings of the command; of jobs of --multirun enough to have met every choice of a
        group, and none where Hydra is asked for something else.

    Raises:
        UserError: a key or a choice does not exist, or a value is not written as Hydra reads it.
    """
    flags = [word for word in overrides if word.startswith("-")]
    _require_flags(flags)
    if not set(flags) <= set(MULTIRUN):
        if set(flags) & set(MULTIRUN):
            raise UserError(f"{' and '.join(flags)} do not go together: leave one out")
        return []  # --cfg and the like: Hydra's own parser decides
    _require_choices(command, overrides[len(flags) :])
    from hydra import compose, initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    from countergen_edit.cli.checked import require_at_hand  # late: help needs no data

    known = {choice.group for choice in choices_of(command)}
    known |= {setting.key.partition(".")[0] for setting in settings_of(command)}
    composed: list[dict[str, Any]] = []
    try:
        with initialize_config_dir(str(conf_dir()), version_base="1.3"):
            for job in jobs_of(overrides[len(flags) :]) if flags else [overrides]:
                config = compose(command, list(job))
                for key in config:
                    if key not in known:
                        raise _unknown_setting(command, _whole_key(str(key), overrides))
                plain: Any = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
                plain = taken_over(plain, job)
                require_settings(plain, own_settings(command))
                require_at_hand(plain)
                composed.append(plain)
    except (HydraException, OmegaConfBaseException) as error:
        raise _in_one_line(command, error) from error
    return composed


def _require_flags(flags: Sequence[str]) -> None:
    """Refuse a flag that Hydra has not, which would answer with all that it has."""
    if not flags:
        return
    from hydra._internal.utils import get_args_parser

    known = [text for action in get_args_parser()._actions for text in action.option_strings]
    for flag in flags:
        if flag.partition("=")[0] not in known:
            raise unknown("flag", flag, sorted(known))


def _require_choices(command: str, overrides: Sequence[str]) -> None:
    """Refuse what Hydra answers with an error of its own: no key, no choice, a number for one."""
    groups = {choice.group: choice.folder for choice in choices_of(command)}
    for word in overrides:
        key, _, value = word.partition("=")
        if not key:
            raise UserError(f"{word!r} names no setting: write key=value")
        if key.startswith("~") and key[1:] in groups:
            raise UserError(f"{word}: {key[1:]} cannot be taken away, but another can be chosen")
        if key in groups and re.fullmatch(r"[-+]?[\d.]+|true|false", value):
            raise unknown(key, value, sorted(path.stem for path in groups[key].glob("*.yaml")))


def _whole_key(first: str, overrides: Sequence[str]) -> str:
    """The key that was given, of which only the first word is known."""
    keys = (word.lstrip("+~").partition("=")[0] for word in overrides)
    return next((key for key in keys if key.partition(".")[0] == first), first)


def _unknown_setting(command: str, key: str) -> UserError:
    return UserError(
        f"unknown setting {key!r}: did you mean {nearest_setting(command, key)!r}? "
        f"countergen-edit {command} --help lists all"
    )


def jobs_of(overrides: Sequence[str]) -> list[list[str]]:
    """Jobs of `--multirun` that between them have every choice of a group, not all that there are.

    >>> jobs_of(["eraser=rlace,leace", "layers=[0],[1]", "seed=1"])
    [['eraser=rlace', 'layers=[0]', 'seed=1'], ['eraser=leace', 'layers=[0]', 'seed=1']]
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser

    first = list(overrides)
    others: list[tuple[int, str]] = []
    for i, override in enumerate(OverridesParser.create().parse_overrides(first)):
        if override.is_discrete_sweep():
            key = override.get_key_element()
            one, *rest = (f"{key}={choice}" for choice in override.sweep_string_iterator())
            first[i] = one
            others += [(i, word) for word in rest if (conf_dir() / key).is_dir()]
    return [first, *([*first[:i], word, *first[i + 1 :]] for i, word in others)]


def _in_one_line(command: str, error: Exception) -> UserError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(("Config search path", "provider="))]
    if missing := NO_PLUGIN.search(lines[0]):
        extra = {"submitit": "slurm"}.get(missing[2], missing[2])
        return UserError(
            f"{missing[1]} is not installed here: pip install 'countergen-edit[{extra}]'"
        )
    if choice := UNKNOWN_CHOICE.match(lines[0]):
        files = sorted((conf_dir() / choice[1]).glob("*.yaml"))
        return unknown(choice[1].partition("/")[0], choice[2], [path.stem for path in files])
    if key := UNKNOWN_KEY.match(lines[0]):
        within = WITHIN.search(str(error.__cause__))
        return _unknown_setting(command, within[1] if within else key[1])
    return UserError(f"{' '.join(lines)} (countergen-edit {command} --help lists the settings)")


if __name__ == "__main__":
    sys.exit(main())
