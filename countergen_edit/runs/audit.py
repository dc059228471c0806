"""The audit: measure, find, project out, measure again, and say what it cost.

Comes in: a model, a task, erasers and metrics. Goes out: rows and edits in a run folder. Units of
work, in order: the unedited model; each eraser's layers, screened on few data where there are many,
and the best of them on all validation data; of each eraser the choice of one layer, by the rule of
`choice`; then, on test data, each chosen edit and random directions of equal rank there; last, what
stands beside them, such as prompting. Without erasers only the unedited model is measured (see
`unedited`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from countergen_edit.data.task import Task
from countergen_edit.edits import NamedEdit
from countergen_edit.erasers import BaseEraser
from countergen_edit.core.errors import UserError
from countergen_edit.runs.baselines import Baseline
from countergen_edit.runs.cells import Fitted
from countergen_edit.runs.checking import check_study
from countergen_edit.runs.fit_data import Positions
from countergen_edit.runs.halving import Halving
from countergen_edit.runs.run_folder import RunFolder
from countergen_edit.runs.task_audit import TaskAudit
from countergen_edit.runs.unedited import check_unedited, measure, of_models, tested_alone
from countergen_edit.metrics.base import Metric
from countergen_edit.models import LanguageModel


@dataclass(frozen=True)
class Audit:
    """What an audit measures, fits and edits.

    Attributes:
        task: what is asked of whom, in which texts.
        erasers: by their name in the run; without any, the task is its test data alone.
        metrics: what is measured, costs with their budgets among them.
        site: where edits go.
        layers: layers edited together; None chooses a single layer on validation data: of those
            within the budgets the one that removes most bias.
        positions: the tokens on which erasers are fitted.
        halving: how candidate layers are narrowed down; None measures each on all validation data.
        skip_attention_sinks: whether edits skip attention sinks.
        seed: of everything that is drawn.
        beside: other ways to the same end by their name in the run, measured on test data too.
        fitted: on what the edits of several layers are fitted: `sequential`, each on what the model
            holds under those before it; `independent` each on the unedited model.
        before: edits that the model is to have besides, of other axes say: every edit is fitted on
            what they leave, and measured and kept together with them.
    """

    task: Task
    erasers: Mapping[str, BaseEraser]
    metrics: Sequence[Metric]
    site: str = "resid_post"
    layers: tuple[int, ...] | None = None
    positions: Positions = "outputs"
    halving: Halving | None = field(default_factory=Halving)
    skip_attention_sinks: bool = True
    seed: int = 0
    baselines: Mapping[str, Baseline] = field(default_factory=dict)
    fitted: Fitted = "sequential"
    before: NamedEdit | None = None

    def __post_init__(self) -> None:
        if not self.erasers:
            object.__setattr__(self, "task", tested_alone(self.task))
            object.__setattr__(self, "metrics", of_models(self.metrics))

    def check(self, model: LanguageModel) -> None:
        """Find what would stop the audit half way.

        Raises:
            UserError: as `check_study` or, without erasers, `check_unedited`; there are no
                validation sets to choose a layer by; or what stands beside edits finds what it
                cannot work with.
        """
        if self.baselines and not self.erasers:
            raise UserError(
                f"baseline={next(iter(self.baselines))} stands beside edits, and without an eraser "
                "there are none: name one, such as eraser=rlace"
            )
        if not self.erasers:
            check_unedited(model, self.task, self.metrics, self.seed)
            return
        if self.layers is None and not self.task.validation:
            raise UserError("edit.layers=best needs a set under data.validation; or name a layer")
        check_study(
            model,
            self.task,
            self.erasers,
            self.metrics,
            sites=(self.site,),
            layers=self.layers,
            positions=self.positions,
        )
        for way in self.baselines.values():
            way.check(model, self.task)

    def run(self, model: LanguageModel, folder: RunFolder) -> None:
        """Run what is left of the audit.

        Args:
            model: unedited again when this returns.
            folder: where rows and edits go; units it already holds are not run again.
        """
        if not self.erasers:
            measure(model, self.task, self.metrics, folder, self.seed)
            return
        TaskAudit(self, model, folder).finish()
