"""From checked settings to the real objects that experiments take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from countergen_edit.checkpoints import is_checkpoint, load_checkpoint
from countergen_edit.cli.settings import AuditSettings, ModelSettings
from countergen_edit.conf_path import read_config
from countergen_edit.data.axis import Axis, Split
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.sources.loading import fingerprint, load_set
from countergen_edit.data.text.substitution import Substitution
from countergen_edit.erasers import make_eraser
from countergen_edit.errors import UserError
from countergen_edit.experiments.audit import AuditPlan
from countergen_edit.metrics import Subject, make_metric
from countergen_edit.models import LanguageModel, load
from countergen_edit.testbed import directory, load_axis, load_truth

TESTBED = "testbed"
NEUTRAL_FIT_EVERY = 5
"""One neutral sentence in so many is for fitting, the others for measuring."""


def load_model(settings: ModelSettings) -> LanguageModel:
    """The model under audit; `testbed` names the shipped one, and a checkpoint brings its edit."""
    where: dict[str, Any] = {
        "device": settings.device,
        "dtype": settings.dtype,
        "device_map": settings.device_map,
    }
    if is_checkpoint(settings.name):
        return load_checkpoint(settings.name, **where)
    name = directory() if settings.name == TESTBED else settings.name
    return load(name, revision=settings.revision, **where)


def build_audit(settings: AuditSettings, model: LanguageModel) -> tuple[AuditPlan, str]:
    """The plan of an audit, and the hash of all the data it uses.

    Raises:
        UserError: a set cannot be made, is called as another is, leaks from fitting into test data,
            or holds a name of several tokens where one is asked for.
    """
    axis = Axis.from_config(settings.axis)
    entries: dict[Split, tuple[Mapping[str, Any], ...]] = {
        "fit": settings.data.fit,
        "validation": settings.data.validation,
        "test": settings.data.test,
    }
    told = told_apart(
        [_load(entry, settings, axis, split) for split, found in entries.items() for entry in found]
    )
    sets = {split: tuple(one.data for one in told if one.split == split) for split in entries}
    if settings.data.single_token_names:
        require_single_token_names(model, sets["fit"])
    truth = load_truth()
    gender = load_axis("gender")
    neutral = truth.neutral_texts()
    a, b = (group.name for group in axis.pair(settings.groups))
    subject = Subject(
        axis=axis,
        groups=(a, b),
        seed=settings.seed,
        substitution=_substitution(settings, axis),
        measured=(("test", sets["test"]), ("fit", sets["fit"])),
        planted=truth.planted_r((a, b)) if settings.model.name == TESTBED else {},
    )
    plan = AuditPlan(
        fit=sets["fit"],
        keep=tuple(_load(entry, settings, axis, "fit").data for entry in settings.data.keep),
        validation=sets["validation"],
        test=sets["test"],
        agreement_validation=truth.agreement_set("validation", gender),
        agreement_test=truth.agreement_set("test", gender),
        neutral_fit=tuple(neutral[::NEUTRAL_FIT_EVERY]),
        neutral=tuple(t for i, t in enumerate(neutral) if i % NEUTRAL_FIT_EVERY),
        erasers={name: make_eraser(name, **params) for name, params in settings.eraser.items()},
        metrics=tuple(make_metric(name, subject, **s) for name, s in settings.metric.items()),
        site=settings.edit.site,
        layers=settings.edit.layers,
        positions=settings.edit.positions,
        seed=settings.seed,
    )
    used = [s for group in sets.values() for s in group] + [*plan.keep]
    return plan, fingerprint([*used, plan.agreement_validation, plan.agreement_test])


def _load(entry: Mapping[str, Any], settings: AuditSettings, axis: Axis, split: Split) -> Given:
    content = dict(entry)
    if "dataset" in content:
        content = read_config("dataset", content.pop("dataset")) | content
    if settings.groups is not None:
        content.setdefault("groups", list(settings.groups))
    data = load_set(content, axis, _substitution(settings, axis), split)
    path = content.get("path")
    return Given(split, data, path if isinstance(path, str) and not content.get("name") else None)


def _substitution(settings: AuditSettings, axis: Axis) -> Substitution | None:
    words = settings.axis.get("substitution")
    return Substitution.from_config(axis, words) if words else None


def require_single_token_names(model: LanguageModel, sets: Sequence[CounterfactualSet]) -> None:
    """Refuse a name that the tokenizer splits.

    Raises:
        UserError: naming the name and its tokens.
    """
    for data in sets:
        for name in data.names:
            tokens = model.tokenizer.tokenize(f" {name}")
            if len(tokens) != 1:
                raise UserError(
                    f"name {name!r} of set {data.name!r} is {len(tokens)} tokens for model "
                    f"{model.name!r} ({' '.join(tokens)}); choose another name, or set "
                    "data.single_token_names=false"
                )
