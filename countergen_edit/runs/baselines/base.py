"""What every way beside an audit's edits is, and the registry of their names.

Comes in: a study, and the edits that its audit tests. Goes out: edits in groups; of each group one
is measured on test data, its only one or the one that the rule of `choice` takes on validation
data. They are baselines, on which no choice of an edit falls, and no control of any edit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from countergen_edit.data.task import Task
from countergen_edit.edits import Edit, NamedEdit
from countergen_edit.edits.record import edit_id
from countergen_edit.runs.study import Study
from countergen_edit.models import LanguageModel
from countergen_edit.core.registry import Registry


class Baseline(ABC):
    """Another way to what an edit is for. Settings are the arguments of `__init__`."""

    def check(self, model: LanguageModel, task: Task) -> None:  # noqa: B027 (nothing to check is a fine default)
        """Find what would stop it half way, before a run folder is made.

        Raises:
            UserError: with what to change.
        """

    @abstractmethod
    def groups(self, study: Study, name: str, tested: Sequence[NamedEdit]) -> list[list[NamedEdit]]:
        """What is measured; of each group one on test data.

        Args:
            study: whose model and data.
            name: its own name in the run.
            tested: the edits of the audit, one of each eraser.
        """


def kept(
    study: Study,
    name: str,
    basis: Sequence[object],
    make: Callable[[], Edit],
    *,
    baseline_kind: str,
    variant: str = "",
    params: Mapping[str, Any] | None = None,
) -> NamedEdit:
    """An edit beside the audit's: from the run where it is kept, else made and kept.

    Args:
        study: whose run.
        name: the way's name in the run.
        basis: all that the edit depends on.
        make: makes it.
        baseline_kind: its kind.
        variant: what tells it apart in labels.
        params: what it was made with.
    """
    key = edit_id(name, basis)
    if study.folder.has_edit(key):
        return study.folder.edit(key)
    named = NamedEdit.of(
        make(),
        name,
        params,
        basis=basis,
        task=study.task.name,
        baseline_kind=baseline_kind,
        variant=variant,
    )
    study.folder.keep(named, made_for=study.model.fingerprint)
    return named


BASELINES: Registry[type[Baseline]] = Registry(
    "baseline",
    "countergen_edit.baselines",
    {
        "prompting": "countergen_edit.runs.baselines.prompting:Prompting",
        "steering": "countergen_edit.runs.baselines.steering:Steering",
        "random_map": "countergen_edit.runs.baselines.random_map:RandomMap",
    },
    Baseline,
)
"""Every way by its name in config; a user's own enters with `@BASELINES.register("mine")`."""
