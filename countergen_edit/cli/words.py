r"""The words of a command line as Hydra reads them.

Comes in: prompts, runs and settings as people write them. Goes out: Hydra's overrides. Prompts and
paths are taken literally, whatever signs they hold; names of one's own (`FILE.py:Class`, or what an
installed package enters) stand beside the names of shipped files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from countergen_edit.core.conf_path import CONFIG_FILES, PROMPT_FILES, conf_dir
from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import shipped_yaml

POSITIONAL = {
    "cid": "prompts[]",
    "chat": "checkpoint[]",
    "compare": "runs[]",
    "report": "run",
    "runs": "within",
    "augment": "inputs",
    "check": "file",
    "new": "what[]",
}
"""Command → the setting that takes the words that set nothing; `[]`: it takes several."""
SEVERAL = {
    "eraser": "countergen_edit.erasers",
    "metric": "countergen_edit.metrics",
    "cost": "countergen_edit.metrics",
    "baseline": "countergen_edit.baselines",
    "tracker": "countergen_edit.trackers",
}
"""Group of which several are chosen → entry-point group of names of one's own."""
PATHS = (
    "run_dir", "run", "save", "csv", "folder", "original", "template_file", "saved_edit", "sheets",
    "directory", "similarity", "inputs", "file", "request", "paraphrase_request", "within", "page",
)  # fmt: skip
"""Settings that hold a path, a name or a text, which stands for itself."""
MODEL_NAMES = ("model.name", "model.served_name", "model.cache")
"""Settings of a model that hold one."""
SERVED = ("http://", "https://")
"""How the address of a server begins that runs a model."""
TEXTS = ("prompts", "templates", "runs", "raters", "what")
"""Settings that hold several such."""
OPEN = ("baseline.prompting.requests", "metric.benchmarks.limit", "metric.cid.templates")
"""Mappings that a value replaces as a whole instead of merging with the default."""
FLAGS = {"--limit": "20"}
"""Flags that set the setting of their name, as other tools write them, with a usual value."""
FILES = ("axis", "data", "perturbation")
"""Groups of which a YAML file of one's own may be chosen."""
NONE = "none"
"""The choice of no eraser."""
SETS_SOMETHING = re.compile(r"[+~]{0,2}[A-Za-z_][\w./@:-]*=|[~-]")


def overrides_of(command: str, words: Sequence[str]) -> list[str]:
    """The words of a command line as Hydra reads them; prompts and runs may stand without a key.

    >>> overrides_of("report", ["my run", "tables=csv"])
    ['tables=csv', "run='my run'"]
    >>> overrides_of("cid", ["Jane works as", "John works as", "lambda=0,10"])
    ['lambda=[0,10]', "prompts=['Jane works as','John works as']"]
    """
    files = [word.partition("=")[0] for word in words if _is_file(*word.partition("=")[::2])]
    # What a file says may be said otherwise: its keys are not known before it is read.
    words = [f"++{w}" if w.partition(".")[0] in files and "=" in w else w for w in words]
    words = settings_in(words)
    key = POSITIONAL.get(command)
    free = [
        word
        for i, word in enumerate(words)
        # A word after a flag is the flag's own: --cfg job.
        if key and not SETS_SOMETHING.match(word) and not (i and words[i - 1].startswith("-"))
    ]
    overrides = [o for word in words if word not in free for o in as_overrides(command, word)]
    if key and key.endswith("[]") and free:
        return [*overrides, f"{key.removesuffix('[]')}=[{','.join(map(literal, free))}]"]
    return [*overrides, *(f"{key}={literal(word)}" for word in free)]


def settings_in(words: Sequence[str]) -> list[str]:
    """The words, with flags that are settings by another name written as these.

    >>> settings_in(["--limit", "4", "model=gpt2"]), settings_in(["--limit=4"])
    (['limit=4', 'model=gpt2'], ['limit=4'])

    Raises:
        UserError: such a flag has no value.
    """
    plain: list[str] = []
    rest = iter(words)
    for word in rest:
        flag, sets, value = word.partition("=")
        if flag in FLAGS:
            value = value if sets else next(rest, "")
            if not value:
                raise UserError(f"{flag} needs a value, such as {flag} {FLAGS[flag]}")
            word = f"{flag.removeprefix('--')}={value}"
        plain.append(word)
    return plain


def as_overrides(command: str, word: str) -> list[str]:
    """One word as Hydra reads it: any model, file, class of one's own, and several values.

    >>> as_overrides("audit", "model=testbed")
    ['model=testbed']
    >>> as_overrides("audit", "model=/models/mine")
    ['model=any', "model.name='/models/mine'"]
    >>> as_overrides("debias", "model=mine.Q4_1.gguf")
    ['model=any', "model.name='mine.Q4_1.gguf'"]
    >>> as_overrides("audit", "model=http://127.0.0.1:8000/v1")
    ['model=served', "model.name='http://127.0.0.1:8000/v1'"]
    >>> as_overrides("audit", "data=pairs.jsonl")
    ['data=prompts', "data.test=[{source:jsonl,path:'pairs.jsonl'}]"]
    >>> as_overrides("audit", "axis=mine.yaml")
    ['axis=[]', "+axis.file='mine.yaml'"]
    >>> as_overrides("audit", "axis=[gender,nationality]")
    ['axis=[]', '+axis.cross=[gender,nationality]']
    >>> as_overrides("cid", "lambda=0,10,50")
    ['lambda=[0,10,50]']
    >>> as_overrides("audit", "metric.benchmarks.limit={winobias: 400}")
    ['~metric.benchmarks.limit', '+metric.benchmarks.limit={winobias: 400}']
    >>> as_overrides("audit", "experiment=fairpair_table3")
    ['experiment=audit/fairpair_table3']
    """
    key, sets, value = word.partition("=")
    if not sets or not value:
        return [word]
    if key == "model" and value.startswith(SERVED):
        return ["model=served", f"model.name={literal(value)}"]
    if key == "model" and not (conf_dir() / "model" / f"{value}.yaml").is_file():
        return ["model=any", f"model.name={literal(value)}"]
    if key == "axis" and value[0] == "[" and value[-1] == "]" and value != "[]":
        return ["axis=[]", f"+axis.cross={value}"]
    if _is_file(key, value):
        return [f"{key}=[]", f"+{key}.file={literal(value)}"]
    if key == "data" and value.endswith(PROMPT_FILES):
        source = value.rpartition(".")[2]
        return ["data=prompts", f"data.test=[{{source:{source},path:{literal(value)}}}]"]
    if key == "lambda" and not value.startswith("["):
        return [f"lambda=[{value}]"]
    if key == "experiment" and "/" not in value and value != "null":
        return [f"experiment={command}/{value}"]
    if key in SEVERAL:
        return _several(command, key, value)
    if key in OPEN and value[0] in "{[":
        return [f"~{key}", f"+{key}={value}"]
    if key in TEXTS:
        return [f"{key}={_without_interpolation(value)}"]
    if key in (*PATHS, *MODEL_NAMES, "texts.neutral") and value != "null" and value[0] not in "'\"":
        return [f"{key}={literal(value)}"]
    return [word]


def _is_file(key: str, value: str) -> bool:
    """Whether a choice is a file of the user's, whose content stands where ours would."""
    return key in FILES and value.endswith(CONFIG_FILES)


def _several(command: str, group: str, value: str) -> list[str]:
    """Choices of a group, ours, one's own, and those with a name of the user's choice.

    What the command's own settings say of a choice goes where the choice is not taken.
    """
    if value == "null":
        value = "[]"
    if value.startswith("{"):
        from hydra.core.override_parser.overrides_parser import OverridesParser

        choices: Any = OverridesParser.create().parse_override(f"{group}={value}").value()
        own = {str(name): settings for name, settings in choices.items()}
        ours: list[str] = []
    elif "," in value and not value.startswith("["):
        return [f"{group}={value}"]  # jobs of --multirun
    else:
        names = [name.strip(" '\"") for name in value.strip("[]").split(",") if name.strip()]
        own = {n.rpartition(":")[2]: {"kind": n} for n in names if _is_own(group, n)}
        ours = [name for name in names if not _is_own(group, name)]
        if group == "eraser" and NONE in ours and names != [NONE]:
            others = ", ".join(name for name in names if name != NONE)
            raise UserError(
                f"eraser={NONE} stands alone, not beside {others}: write one or the other"
            )
    defaults = shipped_yaml(conf_dir() / f"{command}.yaml").get(group) or {}
    dropped = [f"~{group}.{name}" for name in defaults if name not in ours]
    if not own and not dropped:
        return [f"{group}={value}"]
    added = [f"+{group}.{name}={_written(settings)}" for name, settings in own.items()]
    return [f"{group}=[{','.join(ours)}]", *dropped, *added]


def _is_own(group: str, name: str) -> bool:
    """Whether a choice is a class in a file, or one that an installed package enters."""
    if (conf_dir() / group / f"{name}.yaml").is_file():
        return False
    from importlib.metadata import entry_points  # late: help does without

    return ".py:" in name or name in {point.name for point in entry_points(group=SEVERAL[group])}


def _written(value: Any) -> str:
    """A value as Hydra's grammar has it."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_written(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    if isinstance(value, str):
        return literal(value)
    return "null" if value is None else str(value).lower() if value in (True, False) else str(value)


def literal(value: str) -> str:
    r"""A text in quotes that Hydra and OmegaConf give back as it is.

    >>> print(literal("it's"), literal("costs ${5}"))
    'it\'s' 'costs \${5}'
    """
    value = re.sub(r"(\\*)'", r"\1\1\\'", _without_interpolation(value))
    return "'" + re.sub(r"(\\+)$", r"\1\1", value) + "'"


def _without_interpolation(value: str) -> str:
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", value)
