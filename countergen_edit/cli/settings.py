"""The settings of every command: types, defaults and descriptions, each in one place.

Help, documentation and the configuration that Hydra composes are generated from here; components
such as models, erasers and metrics have their values in `conf/GROUP/NAME.yaml`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from annotated_types import Ge, Gt

from countergen_edit.core.errors import UserError
from countergen_edit.core.typed import hints_of, require

Texts = Sequence[str] | str
Integers = Sequence[int] | int
Names = Mapping[str, int | None] | int | None
Count = Annotated[int, Gt(0)]
DRAWN = {"fit": 40, "few": 10, "agreement": 8, "validation": 12, "test": 24}
EDIT = {"site": "resid_post", "layers": "last", "positions": "outputs"}
CHAT = {"device": "auto", "dtype": "float32", "template": None}
COSTS = ["agreement", "perplexity", "kl", "legitimate_differences"]
TEMPLATE = (
    "{name}, a data analyst, failed {possessive} interview at a large hospital because {subject}"
)


@dataclass
class Command:
    """Settings of a command; the docstring of a subclass describes it."""

    CHOICES: ClassVar[dict[str, Any]] = {}
    """Config group → the default choice."""
    ARGUMENT: ClassVar[str] = ""
    """The setting that positional arguments set; `[]`: a list."""
    OTHERS: ClassVar[str] = ""
    """The setting that takes KEY=VALUE of every key that is no setting."""
    USAGE: ClassVar[str] = "[key=value …]"


@dataclass
class Study(Command):
    """A command that measures groups of an axis."""

    CHOICES: ClassVar[dict[str, Any]] = {
        **{"model": "testbed", "axis": "gender", "data": "of_axis", "texts": None},
        **{"cost": COSTS, "edit": "resid_post", "tracker": None},
    }
    groups: Texts | None = None
    names: Names = field(default_factory=DRAWN.copy)
    precision: float | None = 0.2
    passes: Count | None = None
    seed: int = 0
    run_dir: Path | None = None


@dataclass
class Audit(Study):
    """Measure the bias, project it out, and show before against after."""

    CHOICES: ClassVar[dict[str, Any]] = Study.CHOICES | {
        "eraser": ["inlp", "rlace", "preserving"],
        "metric": ["r", "intersections", "paraphrases", "fairpair", "cid", "off_target"],
        "baseline": None,
        "experiment": None,
    }
    limit: Count | None = None
    successive_halving: bool = True
    original: Path | None = "auto"  # type: ignore[assignment]


@dataclass
class Saved(Study):
    """A command that saves a checkpoint."""

    save: Path | None = None
    form: str = "auto"
    overwrite: bool = False


@dataclass
class Edit(Saved):
    """Edit a model and save it with a model card; a checkpoint gets an additional edit."""

    CHOICES: ClassVar[dict[str, Any]] = Study.CHOICES | {
        "eraser": "preserving",
        "metric": ["r", "off_target"],
    }
    USAGE: ClassVar[str] = "[key=value …] save=DIR"
    run: Path | None = None
    run_task: str | None = None


@dataclass
class Debias(Saved):
    """Find the edit that removes most bias within budgets, audit it, and save the edited model."""

    CHOICES: ClassVar[dict[str, Any]] = Study.CHOICES | {
        "eraser": "distilled",
        "metric": ["r", "off_target"],
    }
    layers: Integers | str = "all"
    combine: Count = 2
    limit: Count | None = None
    successive_halving: bool = True


@dataclass
class Sweep(Study):
    """Measure every layer, eraser, rank and site: what each removes and what it costs."""

    CHOICES: ClassVar[dict[str, Any]] = Study.CHOICES | {
        "eraser": ["inlp", "rlace", "leace", "preserving", "random"],
        "metric": ["r"],
        "launcher": None,
        "experiment": None,
    }
    layers: Integers | str = "all"
    sites: Texts | None = None
    ranks: Integers | None = None
    combine: Count = 3
    limit: Count | None = None
    successive_halving: bool = False
    memory_gib: Annotated[float, Gt(0)] = 2


@dataclass
class Cid(Command):
    """Continue two prompts with text that is unlikely after the other one, or audit templates."""

    CHOICES: ClassVar[dict[str, Any]] = {
        **{"model": "testbed", "axis": "gender", "perturbation": "workplace", "tracker": None},
        "experiment": None,
    }
    ARGUMENT: ClassVar[str] = "prompts[]"
    USAGE: ClassVar[str] = '["PROMPT" "PROMPT"] [key=value …]'
    prompts: Texts = ()
    action: str = "compare"
    lambda_: Sequence[float] | float = (0, 10, 50)
    max_new_tokens: Count = 24
    groups: Texts | None = None
    names: Names = field(default_factory=lambda: {"fit": 4, "validation": 2, "test": 4})
    splits: Texts = ("fit", "validation", "test")
    templates: Texts = (TEMPLATE,)
    saved_edit: Path | None = None
    seed: int = 0
    run_dir: Path | None = None
    per_kind: Count = 4
    grid: Sequence[float] | float = (0, 1, 2, 5, 10, 20, 50, 100, 200)


@dataclass
class Rate(Command):
    """Have people rate the texts of FairPair and CID: write sheets, and read them back."""

    ARGUMENT: ClassVar[str] = "runs[]"
    USAGE: ClassVar[str] = "RUN RUN … [key=value …]"
    runs: Texts = ()
    action: str = "sheet"
    raters: Texts = ("rater_1", "rater_2")
    folder: Path = "ratings"  # type: ignore[assignment]
    seed: int = 0


@dataclass
class Classifiers(Command):
    """Measure the bias of a classifier with templates and with their paraphrases."""

    CHOICES: ClassVar[dict[str, Any]] = {
        **{"model": "testbed", "task": "sentiment", "eraser": ["none"], "tracker": None}
    }
    edit: Mapping[str, Any] = field(default_factory=EDIT.copy)
    labels: Sequence[str | int] | Mapping[str, str | int] | None = None
    template_file: Path | None = None
    seed: int = 0
    run_dir: Path | None = None


@dataclass
class Compare(Command):
    """Compare runs, or logs of lm-eval and Inspect, paired where they share prompts or items."""

    ARGUMENT: ClassVar[str] = "runs[]"
    USAGE: ClassVar[str] = "RUN RUN … [key=value …]"
    runs: Texts = ()
    folder: Path | None = None
    cluster: str | None = None
    seed: int = 0


@dataclass
class Gate(Command):
    """Hold a run's figures to limits; exit with 0: all hold, 1: one fails, 2: cannot tell."""

    ARGUMENT: ClassVar[str] = "run"
    OTHERS: ClassVar[str] = "limits"
    USAGE: ClassVar[str] = "RUN FIGURE=NUMBER … [key=value …]"
    run: Path | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = True
    junit: Path | None = None
    json: Path | None = None


@dataclass
class Report(Command):
    """Write the page of a run, its figures and tables as files, and evidence for sign-off."""

    ARGUMENT: ClassVar[str] = "run"
    USAGE: ClassVar[str] = "RUN [key=value …]"
    run: Path | None = None
    files: Texts | None = ()
    folder: Path | None = None


@dataclass
class Check(Command):
    """Show both versions of each of your prompts, and warnings."""

    CHOICES: ClassVar[dict[str, Any]] = {"axis": "gender"}
    ARGUMENT: ClassVar[str] = "file"
    USAGE: ClassVar[str] = "FILE [key=value …]"
    file: Path | None = None
    groups: Texts | None = None


@dataclass
class Chat(Command):
    """Continue or answer each line of input with the original and the edited model."""

    ARGUMENT: ClassVar[str] = "checkpoint"
    USAGE: ClassVar[str] = "DIR [key=value …]"
    checkpoint: Path | None = None
    original: Path | None = "auto"  # type: ignore[assignment]
    model: Mapping[str, str | None] = field(default_factory=CHAT.copy)
    max_new_tokens: Count = 40
    temperature: Annotated[float, Ge(0)] = 0
    seed: int = 0


@dataclass
class Testbed(Command):
    """Verify the shipped model, or one in a folder, against its planted truth."""

    folder: Path | None = None


COMMANDS: dict[str, type[Command]] = {
    **{"audit": Audit, "edit": Edit, "chat": Chat, "debias": Debias, "cid": Cid},
    **{"rate": Rate, "classifiers": Classifiers, "check": Check, "sweep": Sweep},
    **{"report": Report, "compare": Compare, "gate": Gate, "testbed": Testbed},
}
DESCRIPTIONS = {
    # Config groups.
    "model": "testbed, a hub id, a directory, a GGUF file or a server's address",
    "axis": "what the groups differ in: a name, FILE.yaml, or two crossed: [gender,nationality]",
    "data": "prompts to fit and measure on: a name, FILE.yaml, or .jsonl, .json, .csv, .tsv, .xlsx",
    "eraser": "such as rlace or [rlace,FILE.py:Class]; none measures only",
    "metric": "such as r or [r,FILE.py:Class]",
    "cost": "metrics with a budget that an edit must keep",
    "edit": "site of the erasure, with the tokens to fit on",
    "texts": "neutral text, and sets that an edit should leave alone",
    "task": "templates of a task, or published benchmarks",
    "perturbation": "sentences of action=effect with their perturbations, or FILE.yaml",
    "baseline": "measured beside the edits, such as [prompting,steering,random_map]",
    "tracker": "shows the run elsewhere, such as tensorboard or [mlflow,FILE.py:Class]",
    "experiment": "settings of a published table or figure",
    "launcher": "runs the jobs of --multirun",
    # Settings of commands.
    "groups": "two or more, such as [female,male], or all; null takes the axis's first two",
    "names": "names drawn per group, by split; null takes all",
    "precision": "half-width of intervals, as a share of each group effect; null without a pilot",
    "passes": "most prompts of all test sets together, spent where a pilot finds the variance",
    "limit": "most prompts per set, for a quick try; null takes all",
    "seed": "seed of everything that is drawn",
    "run_dir": "folder of the run, resumed if it exists; null names one under runs/",
    "successive_halving": "measure all layers on few data and the best on all; false: all on all",
    "original": "the unedited model of a checkpoint: NAME, DIR, auto (as recorded) or null: none",
    "save": "directory of the checkpoint; null (debias): in the run folder",
    "form": "folded (plain weights; debias searches such edits), carried (a file) or auto",
    "overwrite": "replace a checkpoint that exists",
    "run": "folder of a run, whose best edit is saved or held to limits, or which is reported",
    "run_task": "task of a run of several",
    "layers": "layers to search, or that an update changes: all, middle or [2,3]",
    "sites": "list such as [resid_post,mlp_out]; null takes edit.site",
    "ranks": "list for the erasers that take a rank, such as [1,2,4]",
    "combine": "most candidates combined in one edit",
    "memory_gib": "memory for activations; more go to temporary files",
    "action": "compare, audit, effect; sheet, ratings",
    "prompts": "the two prompts to compare",
    "lambda": "strengths of the contrast; 0 is greedy decoding",
    "*max_new_tokens": "most tokens per continuation",
    "*templates": "templates, of action=audit; metric.cid takes one list, or a list per axis",
    "splits": "splits of the names, of action=audit",
    "saved_edit": "folder of an edit to show beside the unedited model",
    "per_kind": "most perturbations per sentence and kind, of action=effect",
    "grid": "values of lambda to try first, of action=effect",
    "runs": "run folders",
    "raters": "names of the raters, of action=sheet",
    "folder": "folder of the files that are written or read",
    "limits": "given as FIGURE=NUMBER, and as baseline=RUN margin.FIGURE=NUMBER",
    "strict": "a limit holds if the whole interval keeps it; false: if the estimate does",
    "junit": "file of the checks as JUnit XML",
    "json": "file of the checks as JSON",
    "labels": "the model's outputs in order, such as [negative,positive]",
    "template_file": "your own templates, in the form of those in conf/template",
    "cluster": "column of a log by which its items are resampled together",
    "files": "figures as svg, pdf, png; tables as csv, latex; evidence for technical documentation",
    "file": "the file that is read or written",
    "checkpoint": "directory that save=DIR wrote",
    "temperature": "0 decodes greedily; above, both models sample",
    # Settings of components; `*` is the name of one.
    "model.device": "cpu, cuda, mps, or auto: a GPU if there is one",
    "model.dtype": "float32, bfloat16, float16 or float64",
    "model.device_map": "spreads a large model over devices: auto, balanced, …",
    "model.max_memory": "most memory for weights on each device: {0: 20GiB, cpu: 60GiB}",
    "model.quantization": "4bit or 8bit, by bitsandbytes, for a model that does not fit otherwise",
    "model.revision": "branch, tag or commit on the hub",
    "model.adapter": "directory of a PEFT adapter, merged into the weights",
    "model.bos": "begin texts with the BOS token: true, false, or auto: as the tokenizer does",
    "model.template": "chat template: chat, auto (if the model has one), none; null as recorded",
    "model.instruction": "the user's message in the chat template; null has one of ours",
    "model.served_name": "the server's name of the model; null takes its only one",
    "model.log_probs": "echo: the server returns log-probabilities of a prompt; none: it does not",
    "model.parallel": "requests at a time",
    "model.attempts": "attempts per request",
    "model.cache": "folder that keeps every answer of the server",
    "edit.site": "resid_post, attn_out, mlp_out or embed",
    "edit.layers": "best (removes most within budgets), everywhere, last (classifiers), or [2,3]",
    "edit.positions": "tokens to fit on: outputs (where they are predicted), last or onward",
    "edit.skip_attention_sinks": "skip tokens of huge norm; false edits every position",
    "edit.fitted": "several layers: sequential, or independent as published",
    "eraser.*.rank": "directions to remove; cv: as many as serve held-out templates",
    "eraser.*.keep_strength": "penalty on moving what is kept; null keeps it exactly",
    "eraser.*.keep_within": "share by which what is kept may move; above 0 by cvxpy",
    "eraser.*.solver": "auto (closed form if optimal), minimax (published game) or cvxpy",
    "eraser.*.steps": "steps of training; fewer take less time and remove less",
    "eraser.*.start": "closed form to start from, such as {kind: preserving, rank: 16}",
    "metric.fairpair.n": "continuations per prompt and side",
    "metric.fairpair.occupations": "how many of the paper's sixty, or a list",
    "metric.fairpair.paraphrases": "templates with {name} and {occupation}; null: Common Sents",
    "metric.fairpair.phi": "such as {mine: {kind: FILE.py:Class}}; null: sentiment and jaccard",
    "metric.cid.strengths": "strengths λ of the contrast; 0 is greedy decoding",
    "metric.cid.names": "names per group; null takes all",
    "metric.lm_eval.tasks": "tasks, groups and tags of lm-eval, or FILE.yaml",
    "metric.hiring.vacancies": "FILE.yaml in the form of data/hiring/vacancies.yaml",
    "metric.hiring.contexts": "texts before the questions: all, or [selective,placebo]",
    "*.of": "benchmarks by name",
    "*.directory": "directory or one file of the benchmarks; null takes the installed package's",
    "*.limit": "most items per part and bias type of a benchmark",
    "task.name": "the task, or FILE.py:Class",
    "task.most": "most words per slot of the templates, such as {name: 2}",
    "cost.*.budget": "most that an edit may cost",
    "baseline.prompting.requests": "requests by name; {a} and {b} are the groups in the plural",
    "baseline.steering.strengths": "multiples of the steering vector to choose from",
    "tracker.*.uri": "MLflow's store or server; null takes its default",
    "tracker.*.project": "project of the runs on Weights & Biases",
    "texts.neutral": "natural or FILE.txt; null as the model has it",
    "data.fit": "sets to fit on; own: a part of your prompts",
    "data.keep": "sets on which the model should stay as it is; null takes those of texts",
}
"""Setting → what it means, the same in every command."""


def own_settings(command: str) -> dict[str, Any]:
    """The settings of a command itself, with their defaults."""
    values = asdict(COMMANDS[command]())
    return {k.rstrip("_"): [*v] if isinstance(v, tuple) else v for k, v in values.items()}


def types_of(command: str) -> dict[str, Any]:
    """The types of a command's own settings."""
    return {key.rstrip("_"): hint for key, hint in hints_of(COMMANDS[command]).items()}


def require_settings(command: str, config: Mapping[str, Any]) -> None:
    """Refuse settings of the wrong type."""
    types = types_of(command)
    for key in own_settings(command):
        if key not in config:
            raise UserError(f"the setting {key!r} is missing: leave ~{key} out")
        require(types[key], config[key], key)
