"""The commands and their settings: type, bounds, default and help of each, declared together.

Help, documentation and the configuration that Hydra composes come from here. Components such as
models, erasers and metrics have defaults in `conf/GROUP/NAME.yaml`, and help in their docstrings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from annotated_types import Gt

from countergen_edit.core.errors import UserError
from countergen_edit.core.typed import hints_of, require
from countergen_edit.data.axis import NAME_COUNTS
from countergen_edit.metrics import COSTS

SeveralTexts = Sequence[str] | str
Integers = Sequence[int] | int
Numbers = Sequence[float] | float
NameCounts = Mapping[str, int | None] | int | None
Positive = Annotated[int, Gt(0)]
GROUP_HELP = {
    "model": "testbed, a hub id, a directory, a GGUF file or a server's address",
    "axis": "what the groups differ in: a name, FILE.yaml, or two crossed: [gender,nationality]",
    "data": "prompts to fit and measure on: a name, FILE.yaml, or .jsonl, .json, .csv, .tsv, .xlsx",
    "eraser": "such as rlace or [rlace,FILE.py:Class]; none measures only",
    "metric": "such as r or [r,FILE.py:Class]",
    "cost": "metrics with a budget that an edit must keep",
    "edit": "site of the erasure, with the tokens to fit on",
    "texts": "neutral text, and sets that an edit should leave alone",
    "task": "templates of a task",
    "perturbation": "sentences of action=effect with their perturbations, or FILE.yaml",
    "baseline": "measured beside the edits, such as [prompting,steering,random_map]",
    "experiment": "settings of a published table or figure",
}
"""Config group → what is chosen from it."""
NAMED_GROUPS = ("eraser", "metric", "cost", "baseline")
"""Groups of which several are chosen, each with its settings under its name."""


@dataclass
class EditSettings:
    """Where an erasure goes, and the tokens on which it is fitted."""

    site: str = ""
    """Place in the network: resid_post, attn_out, mlp_out, embed or head."""
    layers: tuple[int, ...] | None = None
    """Best (removes most within budgets), everywhere, or [2,3]."""
    positions: str = ""
    """Tokens to fit on: outputs (where they are predicted), last, onward."""
    skip_attention_sinks: bool = True
    """Skip tokens of huge norm; false edits every position."""
    fitted: str = ""
    """Several layers: sequential, or independent as published."""


@dataclass
class Command:
    """Settings of a command, and their help, which stands once; a docstring describes it."""

    CHOICES: ClassVar[dict[str, Any]] = {}
    """Config group → the default choice."""
    ARGUMENT: ClassVar[str] = ""
    """The setting that positional arguments set; `[]`: a list."""
    OTHERS: ClassVar[str] = ""
    """The setting that takes KEY=VALUE of every key that is not a setting."""
    USAGE: ClassVar[str] = "[key=value …]"


@dataclass
class RunCommand(Command):
    """A command that writes a run folder."""

    seed: int = 0
    """Seed of everything that is drawn."""
    run_dir: Path | None = None
    """Folder of the run, resumed if it exists; null names one under runs/."""


@dataclass
class StudyCommand(RunCommand):
    """A command that measures groups of an axis."""

    CHOICES: ClassVar[dict[str, Any]] = {
        **{"model": "testbed", "axis": "gender", "data": "of_axis", "texts": None},
        **{"cost": [*COSTS], "edit": "resid_post"},
    }
    groups: SeveralTexts | None = None
    """Two or more, such as [female,male], or all; null takes the axis's first two."""
    names: NameCounts = field(default_factory=lambda: {**NAME_COUNTS})
    """Names drawn per group, by split; null takes all."""
    precision: float | None = 0.2
    """Half-width of intervals, as a share of each group effect; null without a pilot."""
    passes: Positive | None = None
    """Most prompts of all test sets together, spent where a pilot finds the variance."""
    limit: Positive | None = None
    """Most prompts per set, for a quick try; null takes all."""
    successive_halving: bool = True
    """Measure all layers on few data and the best on all; false: all on all."""


@dataclass
class AuditCommand(StudyCommand):
    """Measure the bias, project it out, and show before against after."""

    CHOICES: ClassVar[dict[str, Any]] = StudyCommand.CHOICES | {
        "eraser": ["inlp", "rlace", "preserving"],
        "metric": ["r", "intersections", "paraphrases", "fairpair", "cid", "off_target"],
        **{"baseline": None, "experiment": None},
    }
    original: Path | str | None = "auto"
    """The unedited model of a checkpoint: NAME, DIR, auto (as recorded) or null: none."""


@dataclass
class SavedCommand(StudyCommand):
    """A command that saves a checkpoint."""

    CHOICES: ClassVar[dict[str, Any]] = StudyCommand.CHOICES | {
        "eraser": "preserving",
        "metric": ["r", "off_target"],
    }
    save: Path | None = None
    """Directory of the checkpoint; null (debias): in the run folder."""
    form: str = "auto"
    """Auto, folded: stock weights; adapter: for peft; carried: code, of any edit."""
    overwrite: bool = False
    """Replace a checkpoint that exists."""


@dataclass
class EditCommand(SavedCommand):
    """Edit a model and save it with a model card; a checkpoint gets an additional edit."""

    USAGE: ClassVar[str] = "[key=value …] save=DIR"
    run: Path | None = None
    """Folder of a run, whose best edit is saved or held to limits, or which is reported."""
    recipe: Path | None = None
    """Recipe of a checkpoint, or its folder, to make again; model=PATH: its source."""


@dataclass
class SearchCommand(StudyCommand):
    """A command that compares edits at many places."""

    layers: Integers | str = "all"
    """Layers to search, or that an update changes: all, middle or [2,3]."""
    combine: Positive = 3
    """Most candidates combined in one edit."""


@dataclass
class DebiasCommand(SearchCommand, SavedCommand):
    """Find the edit that removes most bias within budgets, audit it, and save the edited model."""

    CHOICES: ClassVar[dict[str, Any]] = SavedCommand.CHOICES | {"eraser": "distilled"}


@dataclass
class SweepCommand(SearchCommand):
    """Measure every layer, eraser, rank and site: what each removes and what it costs."""

    CHOICES: ClassVar[dict[str, Any]] = StudyCommand.CHOICES | {
        "eraser": ["inlp", "rlace", "leace", "preserving", "random"],
        **{"metric": ["r"], "experiment": None},
    }
    sites: SeveralTexts | None = None
    """List such as [resid_post,mlp_out]; null takes edit.site."""
    ranks: Integers | None = None
    """List for the erasers that take a rank, such as [1,2,4]."""
    memory_gib: Annotated[float, Gt(0)] = 2
    """Memory for activations; more go to temporary files."""
    successive_halving: bool = False


@dataclass
class CidCommand(RunCommand):
    """Continue two prompts with text that is unlikely after the other one, or audit templates."""

    CHOICES: ClassVar[dict[str, Any]] = {
        **{"model": "testbed", "axis": "gender", "perturbation": "workplace", "experiment": None}
    }
    ARGUMENT: ClassVar[str] = "prompts[]"
    USAGE: ClassVar[str] = '["PROMPT" "PROMPT"] [key=value …]'
    prompts: SeveralTexts = ()
    """The two prompts to compare."""
    action: str = "compare"
    """What is done: compare, audit, effect; sheet, ratings."""
    lambda_: Numbers = (0, 10, 50)
    """Strengths of the contrast; 0 is greedy decoding."""
    max_new_tokens: Positive = 24
    """Most tokens per continuation."""
    groups: SeveralTexts | None = None
    names: NameCounts = field(default_factory=lambda: {"fit": 4, "validation": 2, "test": 4})
    templates: SeveralTexts = (
        "{name}, a data analyst, failed {possessive} interview at a large hospital because "
        "{subject}",
    )
    """Templates, of action=audit."""
    saved_edit: Path | None = None
    """Folder of an edit to show beside the unedited model."""
    per_kind: Positive = 4
    """Most perturbations per sentence and kind, of action=effect."""
    grid: Numbers = (0, 1, 2, 5, 10, 20, 50, 100, 200)
    """Values of lambda to try first, of action=effect."""


@dataclass
class RateCommand(Command):
    """Have people rate the continuations of CID: write sheets, and read them back."""

    ARGUMENT: ClassVar[str] = "runs[]"
    USAGE: ClassVar[str] = "RUN RUN … [key=value …]"
    runs: SeveralTexts = ()
    """Run folders; compare takes logs of lm-eval and Inspect too."""
    action: str = "sheet"
    raters: SeveralTexts = ("rater_1", "rater_2")
    """Names of the raters, of action=sheet."""
    folder: Path | str = "ratings"
    """Folder of the files that are written or read."""


@dataclass
class ClassifiersCommand(RunCommand):
    """Measure the bias of a classifier with templates and with their paraphrases."""

    CHOICES: ClassVar[dict[str, Any]] = {"model": "testbed", "task": "sentiment"}
    labels: Sequence[str | int] | Mapping[str, str | int] | None = None
    """The model's outputs in order, such as [negative,positive]."""
    template_file: Path | None = None
    """Your own templates, in the form of those in conf/template."""


@dataclass
class CompareCommand(Command):
    """Compare runs, or logs of lm-eval and Inspect, paired where they share prompts or items."""

    ARGUMENT: ClassVar[str] = "runs[]"
    USAGE: ClassVar[str] = "RUN RUN … [key=value …]"
    runs: SeveralTexts = ()
    folder: Path | None = None


@dataclass
class GateCommand(Command):
    """Hold a run's figures to limits; exit with 0: all hold, 1: one fails, 2: cannot tell."""

    ARGUMENT: ClassVar[str] = "run"
    OTHERS: ClassVar[str] = "limits"
    USAGE: ClassVar[str] = "RUN FIGURE=NUMBER … [key=value …]"
    run: Path | None = None
    limits: Mapping[str, Any] = field(default_factory=lambda: {})
    """Given as FIGURE=NUMBER, and as baseline=RUN margin.FIGURE=NUMBER."""
    strict: bool = True
    """A limit holds if the whole interval keeps it; false: if the estimate does."""
    json: Path | None = None
    """File of the checks as JSON."""


@dataclass
class ReportCommand(Command):
    """Write the page of a run, its figures and tables as files, and evidence for sign-off."""

    ARGUMENT: ClassVar[str] = "run"
    USAGE: ClassVar[str] = "RUN [key=value …]"
    run: Path | None = None
    files: SeveralTexts | None = ()
    """Figures as svg, pdf, png; tables as csv, latex; evidence for technical documentation."""
    folder: Path | None = None


@dataclass
class CheckCommand(Command):
    """Show both versions of each of your prompts, and warnings."""

    CHOICES: ClassVar[dict[str, Any]] = {"axis": "gender"}
    ARGUMENT: ClassVar[str] = "file"
    USAGE: ClassVar[str] = "FILE [key=value …]"
    file: Path | None = None
    """The prompts, as for data=FILE."""
    groups: SeveralTexts | None = None


_CHAT_MODEL = {"device": "auto", "dtype": "float32", "template": None, "adapter": None}


@dataclass
class ChatCommand(Command):
    """Continue or answer each line of input with the original and the edited model."""

    ARGUMENT: ClassVar[str] = "checkpoint"
    USAGE: ClassVar[str] = "DIR [key=value …]"
    checkpoint: Path | None = None
    """Directory that save=DIR wrote."""
    original: Path | str | None = "auto"
    model: Mapping[str, str | None] = field(default_factory=_CHAT_MODEL.copy)
    max_new_tokens: Positive = 40


@dataclass
class TestbedCommand(Command):
    """Verify the shipped model, or one in a folder, against its planted truth."""

    folder: Path | None = None


COMMANDS: dict[str, type[Command]] = {
    command.__name__.removesuffix("Command").lower(): command
    for command in (
        *(AuditCommand, EditCommand, ChatCommand, DebiasCommand, CidCommand, RateCommand),
        *(ClassifiersCommand, CheckCommand, SweepCommand, ReportCommand, CompareCommand),
        *(GateCommand, TestbedCommand),
    )
}


def own_settings(command: str) -> dict[str, Any]:
    """The settings of a command itself, with their defaults."""
    values = asdict(COMMANDS[command]())
    return {k.rstrip("_"): [*v] if isinstance(v, tuple) else v for k, v in values.items()}


def types_of(command: str) -> dict[str, Any]:
    """The types of a command's own settings."""
    return {key.rstrip("_"): hint for key, hint in hints_of(COMMANDS[command]).items()}


def require_settings(command: str, config: Mapping[str, Any]) -> None:
    """Refuse a configuration without a setting or a group, and settings of the wrong type."""
    types, choices = types_of(command), COMMANDS[command].CHOICES
    groups = (key for key, choice in choices.items() if choice and key not in NAMED_GROUPS)
    for key in (*own_settings(command), *groups):
        if key not in config:
            raise UserError(f"the setting {key!r} is missing: leave ~{key} out")
        require(types.get(key, Any), config[key], key)
