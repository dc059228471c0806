"""The fit cache of a task on a model: each candidate is fitted once and kept in the run."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from typing import Any

from sklearn.base import clone

from countergen_edit.core.seeds import unit_seed
from countergen_edit.core.writing import digest
from countergen_edit.data.task import Task
from countergen_edit.edits import UNCHANGED, WEIGHTS, Edit, NamedEdit, applied
from countergen_edit.edits.record import edit_id
from countergen_edit.erasers import ERASERS, BaseEraser, Distilled, RandomDirections, run_parallel
from countergen_edit.metrics.base import Cost
from countergen_edit.models import LanguageModel, resuming
from countergen_edit.models.capture import EVERYWHERE, HEAD, depth, has_layers
from countergen_edit.runs.distillation import Distillation, limits_of
from countergen_edit.runs.files import DISTILLATION
from countergen_edit.runs.fit_data import FitData, capture_sites
from countergen_edit.runs.folder import RunFolder
from countergen_edit.runs.plan import Plan


@dataclass(frozen=True)
class Candidate:
    """An eraser at one place.

    At `everywhere`, the projection fitted after block `layer` acts at every point of the residual
    stream, about the origin: the mean after a block would drown the token embeddings, of norm 3 in
    SmolLM2, against 50 after the first block and 800 after the last.
    """

    site: str
    layer: int | None
    name: str
    """The eraser's name in the run."""
    eraser: BaseEraser
    after: tuple[Candidate, ...] = ()
    """Those before it in the pass, under whose edits it is fitted."""

    @property
    def params(self) -> dict[str, Any]:
        """The eraser's parameters that differ from its defaults."""
        default = type(self.eraser)().get_params()
        return {k: v for k, v in self.eraser.get_params().items() if v != default[k]}

    @property
    def chain(self) -> list[Candidate]:
        return [*self.after, self]

    @property
    def trains_weights(self) -> bool:
        """Whether it updates weights, at no site."""
        return self.eraser.trains_weights

    @property
    def label(self) -> str:
        settings = ",".join(f"{k}={v}" for k, v in sorted(self.params.items()))
        place = self.site if self.layer is None else f"{self.site}.{self.layer}"
        return f"{place}/{self.name}({settings})"

    def scaled(self, scale: float) -> Candidate:
        """The same update of weights, times another factor."""
        return replace(self, eraser=clone(self.eraser).set_params(scale=scale))


def sequential(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Updates of weights, then maps in the order of the forward pass, each after all before it.

    On SmolLM2 an update that was trained under a gated edit removed no more than that edit alone.
    """
    chain: list[Candidate] = []
    maps = sorted(
        (c for c in candidates if not c.trains_weights), key=lambda c: depth(c.site, c.layer)
    )
    for candidate in (*(c for c in candidates if c.trains_weights), *maps):
        chain.append(replace(candidate, after=tuple(chain)))
    return chain


class FitCache:
    """The fits of one task on a model, which is unedited whenever a method has returned."""

    def __init__(self, model: LanguageModel, task: Task, folder: RunFolder, plan: Plan) -> None:
        self.model = model
        self.task = task
        self.folder = folder
        self.plan = plan
        self._fits: dict[str, Future[BaseEraser]] = {}
        self._ahead: Sequence[Candidate] = ()
        self._latest: tuple[str, FitData] | None = None
        self.heads: Sequence[tuple[int, int]] = ()
        """Layers and numbers of the candidates' heads, if heads are the site."""

    def layers(self, site: str) -> tuple[int | None, ...]:
        """The layers at which erasers can be fitted; (None,) for a site without layers."""
        if not has_layers(site):
            return (None,)
        layers = self.plan.layers
        return tuple(range(self.model.n_layers) if layers is None else layers)

    @cached_property
    def _captured(self) -> dict[str, FitData]:
        """Fitting data of every site and layer, from one pass."""
        sites, layers = self.plan.sites, self.plan.layers
        if self.heads:
            sites = tuple(dict.fromkeys(f"{HEAD}.{head}" for _, head in self.heads))
            layers = tuple(sorted({layer for layer, _ in self.heads}))
        return self._capture(sites, layers, UNCHANGED)

    def _capture(
        self, sites: Sequence[str], layers: Sequence[int] | None, before: Edit
    ) -> dict[str, FitData]:
        with applied(self.model, before) as model:
            return capture_sites(
                model,
                self.task.fit,
                self.task.keep,
                self.task.weighed,
                sites=sites,
                layers=layers,
                positions=self.plan.positions,
                skip_attention_sinks=self.plan.skip_attention_sinks,
                scratch=self.plan.scratch,
            )

    def data(self, candidate: Candidate) -> FitData:
        """The fitting data of a candidate; of those after others the latest are kept."""
        if not candidate.after:
            return self._captured[candidate.site]
        key = digest([*map(self.id_of, candidate.after), candidate.site])
        latest = self._latest
        if latest is None or latest[0] != key or candidate.layer not in latest[1].layers:
            layers = {c.layer for c in self._alongside(candidate) if c.layer is not None}
            before = self.edit_before(candidate)
            captured = self._capture([candidate.site], sorted(layers) or None, before)
            self._latest = latest = key, captured[candidate.site]
        return latest[1]

    def _alongside(self, candidate: Candidate) -> list[Candidate]:
        """The candidate and those of `fit_ahead` that share its capture."""
        return [
            c
            for c in (candidate, *self._ahead)
            if c.after == candidate.after and (not c.after or c.site == candidate.site)
        ]

    def edit_before(self, candidate: Candidate) -> Edit:
        """The edit under which a candidate is fitted."""
        return reduce(Edit.then, (self.part(c).edit for c in candidate.after), UNCHANGED)

    def resuming(self, layers: Sequence[int | None], share: float = 1.0) -> LanguageModel:
        """The model that keeps activations below edits at layers, in a share of the memory."""
        scratch = self.plan.scratch
        if share < 1:
            scratch = replace(scratch, budget=int(share * scratch.budget))
        places = {layer for layer in layers if layer is not None}
        if self.plan.sites == (EVERYWHERE,):  # no block is below such an edit
            places = set()
        elif self.plan.sites != ("resid_post",):  # an edit inside a block changes its output
            places |= {layer - 1 for layer in places}
        return resuming(self.model, sorted(places), scratch)

    @cached_property
    def _basis(self) -> str:
        neutral = self.task.neutral.get("fit", ())
        task = [self.task.fingerprint, self.task.groups, neutral]
        model = [self.model.fingerprint, self.model.adds_bos, self.model.conversation]
        # These words name an edit, by which a random map is drawn.
        sinks = "leave" if self.plan.skip_attention_sinks else "edit"
        return digest([task, model, self.plan.positions, sinks])

    def basis(self, candidate: Candidate) -> list[object]:
        """Everything that the fit of a candidate depends on."""
        place: list[object] = [candidate.site, candidate.layer]
        if candidate.trains_weights:
            held_out = self.task.neutral.get("validation", ())
            place = [candidate.site, self.plan.layers, self.limits, held_out]
        alone = [self._basis, ERASERS.name_of(candidate.eraser), candidate.params, place]
        return [*alone, *map(self.id_of, candidate.after)]

    def id_of(self, candidate: Candidate) -> str:
        """The id of a candidate's edit, known before it is fitted."""
        return edit_id(candidate.name, self.basis(candidate))

    def fit(self, candidate: Candidate) -> BaseEraser:
        """The fitted eraser of a candidate; those of `fit_ahead` are fitted too."""
        key = self.id_of(candidate)
        if key not in self._fits:
            by_id = {self.id_of(c): c for c in self._alongside(candidate)}
            fitted = {k for k in by_id if k in self._fits or self.folder.has_edit(k)} - {key}
            missing = {k: c for k, c in by_id.items() if k not in fitted}
            data = self.data(candidate)
            calls = [partial(self.data(c).fit, c.eraser, c.layer) for c in missing.values()]
            futures = run_parallel(calls, data.at(candidate.layer))
            for (k, c), future in zip(missing.items(), futures, strict=True):
                self._fits[k] = future
                if future.exception() is None:
                    self.part(c)  # kept at once: a killed run repeats no finished fit
        return self._fits[key].result()

    def fit_ahead(self, candidates: Sequence[Candidate]) -> None:
        """Let these be fitted in parallel, on one capture, when the first is needed."""
        self._ahead = candidates

    def part(self, candidate: Candidate) -> NamedEdit:
        """The edit of a candidate alone, from the run, else fitted and kept."""
        key = self.id_of(candidate)
        if self.folder.has_edit(key):
            return self.folder.edit(key)
        scale = candidate.params.get("scale")
        named = NamedEdit.of(
            self._edit(candidate),
            candidate.name,
            candidate.params,
            basis=self.basis(candidate),
            baseline=candidate.eraser.is_baseline,
            task=self.task.name,
            variant="" if scale is None else f"× {scale:g}",
            after=[p for c in candidate.after for p in self.part(c).record.places],
        )
        self.folder.keep(named, made_for=self.model.fingerprint)
        return named

    def _edit(self, candidate: Candidate) -> Edit:
        if candidate.trains_weights:
            if (scale := candidate.params.get("scale")) is None:
                return Edit((), update=self.distillation(candidate).run())
            whole = self.part(candidate.scaled(1.0)).edit.update
            assert whole is not None
            return Edit((), update=whole.scaled(scale))
        erasure = self.fit(candidate).erasure_
        return Edit((self.data(candidate).placement(candidate.layer, erasure),))

    def distillation(self, candidate: Candidate) -> Distillation:
        """The training of an update of weights, resumed from the folder of the run."""
        settings = candidate.eraser
        assert isinstance(settings, Distilled)
        path = self.folder.path / DISTILLATION / self.id_of(candidate.scaled(1.0))
        return Distillation(self.model, self.task, settings, self.limits, path, self.plan.layers)

    @property
    def limits(self) -> dict[str, float]:
        """The limits of a distillation, from the budgets of the costs."""
        costs = (metric for metric in self.plan.metrics if isinstance(metric, Cost))
        return limits_of({cost.counts: cost.budget for cost in costs})

    def together(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The candidates of one edit, as they are fitted."""
        return sequential(candidates) if self.plan.fitted == "sequential" else [*candidates]

    def joined(self, candidates: Sequence[Candidate]) -> NamedEdit:
        """Candidates as one edit, kept in the run."""
        named = NamedEdit.combined([*map(self.part, candidates)])
        if not self.folder.has_edit(named.id):
            self.folder.keep(named, made_for=self.model.fingerprint)
        return named

    @staticmethod
    def has_control(edit: NamedEdit) -> bool:
        """Whether random directions are a control of an edit; not of an update."""
        return all(place.site != WEIGHTS for place in edit.record.places)

    def control(self, edit: NamedEdit) -> NamedEdit:
        """Random directions of equal rank at the places of an edit."""
        drawn = []
        for place in edit.record.places:
            state = unit_seed(self.plan.seed, "random directions", place.rank, place.layer) % 2**32
            eraser = RandomDirections(rank=place.rank, random_state=state)
            drawn.append(Candidate(place.site, place.layer, ERASERS.name_of(eraser), eraser))
        return self.joined(drawn)
