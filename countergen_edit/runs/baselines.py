"""Baselines of a run's edits: prompting, steering, a random map, augmented text."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError
from countergen_edit.core.registry import Registry
from countergen_edit.core.seeds import generator
from countergen_edit.data.task import Task
from countergen_edit.edits import Edit, LowRankUpdate, NamedEdit, Placement, Shift
from countergen_edit.edits.record import PROMPTING, TEMPLATE_KEY, edit_id
from countergen_edit.erasers import AffineErasure, Distilled, MeanDifference
from countergen_edit.erasers.affine import randomly_rotated
from countergen_edit.models import LanguageModel, check_texts, preface_ids
from countergen_edit.models.progress import track
from countergen_edit.models.tokens import before_reply
from countergen_edit.runs.distillation import MODEL_CONTEXTS, TEMPLATE_CONTEXTS
from countergen_edit.runs.fits import Candidate, FitCache
from countergen_edit.runs.own_contexts import people_of, written
from countergen_edit.runs.plan import texts_of
from countergen_edit.runs.portions import Portion, some_rows
from countergen_edit.runs.student import Student, few_rows, pace, stepping

Groups = list[list[NamedEdit]]
ALONE = "template alone"
RANDOM_MAP = "random_map"
STEERING = "steering"


class Baseline(ABC):
    """Another way to reduce a bias than an eraser; settings are arguments of `__init__`."""

    def check(self, model: LanguageModel, task: Task) -> None:  # noqa: B027 (a default)
        """Find errors before a run; `UserError` names the setting."""

    @abstractmethod
    def groups(self, fits: FitCache, name: str, tested: Sequence[NamedEdit]) -> Groups:
        """Edits in groups; of each the best on validation data is measured on test data.

        `fits` holds the model, data and folder of the run; `tested` are the selected edits.
        """


def kept_edit(
    fits: FitCache, name: str, basis: Sequence[object], make: Callable[[], Edit], **entries: Any
) -> NamedEdit:
    """A baseline's edit from the run, else made and kept; `basis` identifies it."""
    key = edit_id(name, basis)
    if not fits.folder.has_edit(key):
        named = NamedEdit.of(make(), name, basis=basis, task=fits.task.name, **entries)
        fits.folder.keep(named, made_for=fits.model.fingerprint)
    return fits.folder.edit(key)


class Prompting(Baseline):
    """Prompting: a request to treat the groups alike before every text; nothing is edited.

    With a chat template the request and the model's instruction are a user's message and the text
    begins the reply; the template alone is measured too. Else the request is a line before a text.

    `UserError` if no request is given, or one has an unknown slot.

    Parameters
    ----------
    requests : by name; {a} and {b} are the first and second group in the plural, of more groups
        all but the last and the last; those of the configuration unless given
    """

    def __init__(self, requests: Mapping[str, str] | None = None) -> None:
        ours = read_config("baseline", PROMPTING)[PROMPTING]
        self.requests = dict(ours["requests"] if requests is None else requests)
        if not self.requests:
            raise UserError(
                "baseline.prompting.requests is empty: write one, such as {mine: Be fair.}"
            )
        for name, request in self.requests.items():
            try:
                request.format(a="", b="")
            except (LookupError, ValueError) as error:
                raise UserError(
                    f"request {name!r}, {request!r}: the groups are {{a}} and {{b}} ({error})"
                ) from error

    def check(self, model: LanguageModel, task: Task) -> None:
        texts = [*texts_of(task.every_set), *chain.from_iterable(task.neutral.values())]
        for words in self.messages(model, task).values():
            prefaced = model.with_preface(preface_ids(model, self.preface(model, words)), words)
            check_texts(prefaced, texts)

    def groups(self, fits: FitCache, name: str, tested: Sequence[NamedEdit]) -> Groups:
        """The template alone, then each request; none is selected."""
        return [
            [self._edit(fits, name, request, words)]
            for request, words in self.messages(fits.model, fits.task).items()
        ]

    def messages(self, model: LanguageModel, task: Task) -> dict[str, str]:
        """Messages by name, about people of the task; empty for the template alone."""
        a, b = _people(task)
        alone = {"": ""} if model.tokenizer.chat_template and not model.chat.is_on else {}
        return alone | {name: text.format(a=a, b=b) for name, text in self.requests.items()}

    def preface(self, model: LanguageModel, words: str) -> str:
        """The words before every text."""
        if model.tokenizer.chat_template:
            chat = replace(model.chat, request=words)
            return before_reply(model, chat.message(chat.instruction))
        return f"{words}\n"

    def _edit(self, fits: FitCache, name: str, request: str, words: str) -> NamedEdit:
        model = fits.model
        template = getattr(model.tokenizer, "chat_template", None)
        basis = [model.fingerprint, model.adds_bos, template, fits.task.name, words]
        return kept_edit(
            fits,
            name,
            [*basis, model.chat.instruction if template else "", model.chat.is_on],
            lambda: Edit((), self.preface(model, words), words),
            baseline_kind=PROMPTING if request else TEMPLATE_KEY,
            variant=request or ALONE,
            params={"words": words, "people": [*_people(fits.task)]},
        )


def _people(task: Task) -> tuple[str, str]:
    groups = [task.axis.groups[name] for name in task.groups]
    *people, last = (group.forms.get("people", group.name.replace("_", " ")) for group in groups)
    return ", ".join(people), last


class RandomMap(Baseline):
    """A random map: that of each tested edit, randomly rotated about the same mean.

    Random directions are mean-ablated; an edit that is not an orthogonal projection may change an
    activation more than that. This map changes it as much.
    """

    def groups(self, fits: FitCache, name: str, tested: Sequence[NamedEdit]) -> Groups:
        return [[_of(fits, name, edit)] for edit in tested]


def _of(fits: FitCache, name: str, edit: NamedEdit) -> NamedEdit:
    def turn(place: Placement) -> Placement:
        assert isinstance(place.erasure, AffineErasure)  # the edit of an eraser
        rng = generator(fits.plan.seed, "random map", edit.id, place.site, place.layer)
        return replace(place, erasure=randomly_rotated(place.erasure, rng))

    return kept_edit(
        fits,
        name,
        [edit.id, fits.plan.seed],
        lambda: Edit(tuple(map(turn, edit.edit.placements))),
        baseline_kind=RANDOM_MAP,
        variant=f"of {edit.record.eraser}",
    )


class Steering(Baseline):
    """Steering: a constant vector is subtracted at the places of each tested edit.

        π(x) = x - s v        v = μ_a - μ_b

    v is the difference of group means (contrastive activation addition, Rimsky et al. 2024, arXiv
    2312.06681). Both groups move alike: only nonlinear blocks above change their difference.

    `UserError` if no strength is given, or one is not a number other than 0.

    Parameters
    ----------
    strengths : values of s; of several one is selected on validation data
    """

    def __init__(self, strengths: Sequence[float] = (-2.0, -1.0, 1.0, 2.0)) -> None:
        self.strengths = tuple(strengths)
        if not self.strengths or not all(math.isfinite(s) and s for s in self.strengths):
            raise UserError(
                f"baseline.steering.strengths={[*strengths]}: write numbers other than 0"
            )

    def check(self, model: LanguageModel, task: Task) -> None:
        if len(task.groups) > 2:
            raise UserError(
                f"baseline.steering moves one group towards another, and {len(task.groups)} are "
                "compared: name two, such as "
                f"groups=[{','.join(task.pair)}], or leave steering out"
            )
        if len(self.strengths) > 1 and not task.validation:
            raise UserError(
                "baseline.steering chooses its strength on validation data, and there is none: "
                "name one, such as baseline.steering.strengths=[1]"
            )

    def groups(self, fits: FitCache, name: str, tested: Sequence[NamedEdit]) -> Groups:
        """For each set of places that edits act at, every strength."""
        places_of_edits = dict.fromkeys(
            tuple((place.site, place.layer) for place in edit.record.places) for edit in tested
        )
        return [
            [self._edit(fits, name, places, strength) for strength in self.strengths]
            for places in places_of_edits
        ]

    def _edit(
        self, fits: FitCache, name: str, places: Sequence[tuple[str, int | None]], strength: float
    ) -> NamedEdit:
        # A mean difference that is fitted there depends on the same as the vector.
        cells = [Candidate(site, layer, name, MeanDifference()) for site, layer in places]
        return kept_edit(
            fits,
            name,
            [[*map(fits.basis, cells)], strength],
            lambda: Edit(tuple(_placement(fits, cell, strength) for cell in cells)),
            baseline_kind=STEERING,
            variant=f"strength {strength:g}".replace("-", "−"),
            params={"strength": strength},
        )


def _placement(fits: FitCache, cell: Candidate, strength: float) -> Placement:
    data = fits.data(cell)
    rows, _ = data.used(cell.eraser, cell.layer)
    values, group = data.at(cell.layer)[rows], data.group[rows]
    a, b = (values[group == name].mean(axis=0, dtype=float) for name in fits.task.pair)
    return data.placement(cell.layer, Shift(-strength * (a - b)))


class Augmentation(Baseline):
    """Fine-tuning on counterfactually augmented text.

    Texts are repeated with people of every group (Lu et al. 2020, arXiv 1807.11714; Zmigrod et al.
    2019, arXiv 1906.04571). A low-rank update with the defaults of `eraser=distilled` is trained on
    the log-likelihood of texts that the model wrote.
    """

    def check(self, model: LanguageModel, task: Task) -> None:
        if len(people_of(task)) < 2:
            raise UserError(
                "baseline.augmentation exchanges people in texts, and the fitting prompts mention "
                "people of fewer than two groups: name other sets under data.fit, or leave it out"
            )

    def groups(self, fits: FitCache, name: str, tested: Sequence[NamedEdit]) -> Groups:
        model, task = fits.model, fits.task
        settings = Distilled(random_state=fits.plan.seed)
        of_task = [task.fingerprint, task.groups, task.weighed]
        edit = kept_edit(
            fits,
            name,
            [model.fingerprint, model.adds_bos, *of_task, settings.get_params()],
            lambda: Edit((), update=augmented(model, task, settings)),
            baseline_kind="augmentation",
        )
        return [[edit]]


def augmented(model: LanguageModel, task: Task, settings: Distilled) -> LowRankUpdate:
    """Train an update on the model's own texts about people of the groups."""
    seed, steps = settings.random_state, settings.steps
    contexts = written(model, task, settings.contexts, seed)
    student = Student(model, settings)
    rate = settings.rate(model.d_model)
    adam = torch.optim.Adam(student.parameters.values(), lr=rate)
    for step in track(range(steps), "Augmentation"):
        rng = generator(seed, "augmentation", step)
        drawn = []
        for _ in range(TEMPLATE_CONTEXTS + MODEL_CONTEXTS):
            portion = contexts.portion_to_erase(model, rng)
            if portion is not None and portion.reads > 1:
                drawn.append(some_rows(portion, few_rows(portion, rng)))
        with stepping(adam, rate * pace(step, steps)):
            for outputs in student.passes(student.unedited(drawn)):
                losses = [negative_log_likelihood(before.portion, now) for before, now in outputs]
                torch.autograd.backward(
                    torch.stack(losses).sum() / (TEMPLATE_CONTEXTS + MODEL_CONTEXTS)
                )
    return student.update


def negative_log_likelihood(
    portion: Portion, log_probs: Float[Tensor, "read vocab"]
) -> Float[Tensor, ""]:
    """The mean over the tokens after the person, nats."""
    row, column = portion.at
    before = log_probs.view(len(portion.ids), portion.reads, -1)[:, :-1]
    at = (part.view(-1, portion.reads)[:, :-1] for part in (row, column + 1))
    following = portion.ids[tuple(at)].to(before.device)
    return -before.gather(2, following[..., None]).mean()


BASELINES: Registry[type[Baseline]] = Registry(
    "baseline",
    "countergen_edit.baselines",
    {
        "prompting": "countergen_edit.runs.baselines:Prompting",
        "steering": "countergen_edit.runs.baselines:Steering",
        "augmentation": "countergen_edit.runs.baselines:Augmentation",
        "random_map": "countergen_edit.runs.baselines:RandomMap",
    },
    Baseline,
)
"""Baselines by name; a user's own enters with `@BASELINES.register("mine")`."""
