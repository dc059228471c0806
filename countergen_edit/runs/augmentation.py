"""Counterfactual data augmentation, a baseline of trained updates of weights.

Texts about a person are repeated with people of every group, and the model is fine-tuned on all of
them (Lu et al. 2020, arXiv 1807.11714; Zmigrod et al. 2019, arXiv 1906.04571).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from countergen_edit.core.errors import UserError
from countergen_edit.core.seeds import generator
from countergen_edit.data.task import Task
from countergen_edit.edits import UNCHANGED, Edit, LowRankUpdate, NamedEdit
from countergen_edit.erasers import Distilled
from countergen_edit.models import LanguageModel
from countergen_edit.models.progress import track
from countergen_edit.runs.baselines import Baseline, kept
from countergen_edit.runs.distillation import MODEL_CONTEXTS, TEMPLATE_CONTEXTS
from countergen_edit.runs.fits import FitCache
from countergen_edit.runs.own_contexts import people_of, written
from countergen_edit.runs.portions import Portion, some_rows
from countergen_edit.runs.student import Student, few_rows, pace, stepping


class Augmentation(Baseline):
    """Fine-tuning on counterfactually augmented text.

    A low-rank update of the shape, steps and texts per step of `eraser=distilled` at its defaults,
    trained on the log-likelihood of texts that the model wrote, with people of both groups.
    """

    def check(self, model: LanguageModel, task: Task) -> None:
        """Refuse fitting prompts that mention people of fewer than two groups."""
        if len(people_of(task)) < 2:
            raise UserError(
                "baseline.augmentation exchanges people in texts, and the fitting prompts mention "
                "people of fewer than two groups: name other sets under data.fit, or leave it out"
            )

    def groups(
        self, fits: FitCache, name: str, tested: Sequence[NamedEdit]
    ) -> list[list[NamedEdit]]:
        """One update, trained by the run's seed."""
        model, task, settings = fits.model, fits.task, Distilled(random_state=fits.plan.seed)
        of_task = [task.fingerprint, task.groups, task.weighed]
        basis = [model.fingerprint, model.adds_bos, *of_task, settings.get_params()]

        def made() -> Edit:
            return Edit((), update=augmented(model, task, settings))

        return [[kept(fits, name, basis, made, baseline_kind="augmentation")]]


def augmented(model: LanguageModel, task: Task, settings: Distilled) -> LowRankUpdate:
    """Train an update on the model's own texts about people of either group."""
    seed, steps = settings.random_state, settings.steps
    own = written(model, task, settings.contexts, seed)
    student = Student(model, settings, UNCHANGED)
    rate = settings.rate(model.d_model)
    adam = torch.optim.Adam(student.parameters.values(), lr=rate)
    for step in track(range(steps), "Augmentation"):
        rng = generator(seed, "augmentation", step)
        drawn = []
        for _ in range(TEMPLATE_CONTEXTS + MODEL_CONTEXTS):
            portion = own.portion_to_erase(model, rng)
            if portion is not None and portion.reads > 1:
                drawn.append(some_rows(portion, few_rows(portion, rng)))
        with stepping(adam, rate * pace(step, steps)):
            for some in student.passes(student.unedited(drawn)):
                losses = [negative_log_likelihood(given.portion, after) for given, after in some]
                torch.autograd.backward(
                    torch.stack(losses).sum() / (TEMPLATE_CONTEXTS + MODEL_CONTEXTS)
                )
    return student.update


def negative_log_likelihood(
    portion: Portion, log_probs: Float[Tensor, "read vocab"]
) -> Float[Tensor, ""]:
    """Of the tokens after the person, nats per token."""
    row, column = portion.at
    own = log_probs.view(len(portion.ids), portion.reads, -1)[:, :-1]
    at = (part.view(-1, portion.reads)[:, :-1] for part in (row, column + 1))
    following = portion.ids[tuple(at)].to(own.device)
    return -own.gather(2, following[..., None]).mean()
