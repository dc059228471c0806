"""Activation patching: the share of a group difference that moves with an activation.

Two people of two groups, a and b, stand in one template. An activation of the run on a replaces
that of the run on b, at one place and at tokens that are aligned to the person:

    moved = log P(output | b, patched) - log P(output | b)       (Vig et al. 2020, arXiv 2004.12265)

With d_j = log P(output | a_j) - log P(output | b_j) of another pair of people j,

    share = Σ moved_i d_j / Σ d_i d_j        over outputs, templates and pairs i ≠ j.

The sums estimate products of group differences without those of names. All that follows the place
is recomputed.

Attribution patching (Syed et al. 2023, arXiv 2310.10348) estimates all heads, or all neurons, from
one forward and one backward pass: moved ≈ (a's activation - b's) · gradient, the mean gradient of
both runs; the largest are verified by patching.

The null patches between two people of one group, whose order has no meaning: its sum has a random
sign in every template. P is the share of draws in which the largest standardised null of a map
reaches the cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from typing import Annotated, Any, ClassVar, cast

import numpy as np
import torch
from annotated_types import Ge
from jaxtyping import Float64, Int
from torch import Tensor

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.core.seeds import generator
from countergen_edit.data.counterfactual import CounterfactualSet, Variation
from countergen_edit.data.subsets import few_prompts
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.r.people import numbered
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import RESAMPLES, Clusters, Estimate, estimate
from countergen_edit.models import LanguageModel, resuming
from countergen_edit.models.batching import (
    Batch,
    Tree,
    batch_reads,
    batch_tokens,
    padded_trees,
    runs_trees,
)
from countergen_edit.models.capture import UNITS, hook_name, sink_limit, unit_width
from countergen_edit.models.progress import track
from countergen_edit.models.scoring import SCORES, read_log_probs
from countergen_edit.models.tokens import encode

STEPS = 3
"""Tokens after the person that have a column each."""
_PERSON, BETWEEN, LAST, EVERY = "person", "between", "last", "every"
POSITIONS = (_PERSON, *(f"+{k}" for k in range(1, STEPS + 1)), BETWEEN, LAST)
"""The person's last token, those after it, the others, and those from which outputs are predicted:
the last token of the prompt and the tokens of an output."""
_LEAST_SHARE = 1e-6
"""Smallest share whose sign is more than rounding."""
HEAD_COUNTS = (1, 4, 12, 24)
"""Numbers of heads of an edit."""
MOVED, DIFFERENCE, CORRELATION = "moved", "moved_difference", "moved_correlation"
BIAS, AGREEMENT, _LEGITIMATE = "biased sets", "agreement", "legitimate differences"
PEOPLE_PER_GROUP = 2
"""Most people of a group in a template, where one pair weighs the changes in another."""

BatchCell = tuple[int, int]
"""Row and column in a batch."""
Outputs = Float64[np.ndarray, " _output"]
PairDifferences = Float64[np.ndarray, "_pair _output"]


@dataclass(frozen=True)
class PatchPlace:
    """A site of a block, or one unit there, and the tokens that are patched."""

    site: str
    layer: int
    unit: int | None = None
    position: str = EVERY

    @property
    def facets(self) -> dict[str, str | float]:
        where = {"position": self.position} if self.unit is None else {"unit": float(self.unit)}
        return {"activation": self.site, "layer": float(self.layer), **where}


@dataclass(frozen=True)
class PatchText:
    """A person's prompt, once with each output."""

    ids: tuple[tuple[int, ...], ...]
    """Token ids by output, without the last token, which is never an input."""
    targets: tuple[tuple[int, ...], ...]
    """The tokens of each output, which the last tokens of `ids` predict."""
    person: int
    """Index of the person's last token."""

    @classmethod
    def of(cls, lm: LanguageModel, variation: Variation, outputs: Sequence[str]) -> PatchText:
        """A prompt and its outputs, tokenised together."""
        prompt, stop = variation.text, variation.start
        if variation.person and prompt.startswith(variation.person, stop):
            stop += len(variation.person)
        while stop < len(prompt) and prompt[stop].isalnum():
            stop += 1
        encodings = encode(lm, [prompt + output for output in outputs])
        ids, targets = [], []
        for encoding in encodings:  # some tokenizers end a text with a token of their own
            span = encoding.after(len(prompt))
            ids.append(tuple(encoding.ids[: span[-1]]))
            targets.append(tuple(encoding.ids[k] for k in span))
        return cls(tuple(ids), tuple(targets), encodings[0].after(stop)[0] - 1)

    def beyond(self, output: int) -> tuple[int, int]:
        """Numbers of tokens from the person to the prompt's last, exclusive, and of all."""
        length = len(self.ids[output]) - self.person
        return length - len(self.targets[output]), length

    def is_aligned(self, other: PatchText) -> bool:
        """Whether both have as many tokens after the person."""
        return all(self.beyond(i) == other.beyond(i) for i in range(len(self.ids)))


def offsets(position: str, last: int, length: int) -> range:
    """The tokens of a position, counted from the person's last one.

    >>> [[*offsets(position, 6, 8)] for position in ("person", "+2", "between", "last")]
    [[0], [2], [4, 5], [6, 7]]
    """
    if position in (EVERY, LAST):
        return range(0 if position == EVERY else last, length)
    if position == BETWEEN:
        return range(min(STEPS + 1, last), last)
    step = POSITIONS.index(position)
    return range(step, min(step + 1, last))


@dataclass
class BatchRows:
    """Rows of a batch. A branch of a text repeats its tokens from the first patched one on."""

    in_trees: bool
    """Whether a text with all branches is one row; else each sequence is a row."""
    trees: dict[object, tuple[int, Tree]] = field(default_factory=dict)
    _column: dict[object, int] = field(default_factory=dict)

    def add(self, text: int, branch: object, ids: tuple[int, ...], start: int) -> list[BatchCell]:
        """The cells of a sequence; branches of a text share those before `start`."""
        key = text if self.in_trees else (text, branch, ids)
        row, tree = self.trees.setdefault(key, (len(self.trees), Tree()))
        cells, column = list[BatchCell](), -1
        for k, token in enumerate(ids):
            prefix = row, branch if k >= start else None, ids[: k + 1]
            if prefix not in self._column:
                self._column[prefix] = len(tree.ids)
                tree.ids.append(token)
                tree.follows.append(column)
            column = self._column[prefix]
            cells.append((row, column))
        return cells


class Patching:
    """A batch of texts, with a patch of every pair (source, base) at every position."""

    def __init__(
        self,
        lm: LanguageModel,
        texts: Sequence[PatchText],
        pairs: Sequence[tuple[int, int]],
        positions: Sequence[str] = (),
    ) -> None:
        self.lm = lm
        self.texts = texts
        self.pairs = pairs
        self.positions = positions
        longest = max(len(ids) for text in texts for ids in text.ids)
        rows = BatchRows(runs_trees(lm, longest))
        # A source without branches shares the row of its base, which pads less.
        row_of = {n: n for n in range(len(texts))} | dict(pairs)
        row_of |= {base: base for _, base in pairs}
        cells_of = [
            [rows.add(row_of[number], None, ids, len(ids)) for ids in text.ids]
            for number, text in enumerate(texts)
        ]
        sequences = [*zip(chain(*cells_of), chain(*(text.targets for text in texts)), strict=True)]
        patched: dict[BatchCell, BatchCell] = {}
        self.aligned: list[Int[Tensor, "_cell 2 2"]] = []
        """Of each pair the cells from the person on: of the source, and of the base."""
        for number, (source, base) in enumerate(pairs):
            a, b = texts[source], texts[base]
            aligned = [
                [*zip(x[a.person :], y[b.person :], strict=True)]
                for x, y in zip(cells_of[source], cells_of[base], strict=True)
            ]
            self.aligned.append(_tensor(dict.fromkeys(chain(*aligned))))
            for position in positions:
                for output, ids in enumerate(b.ids):
                    where = offsets(position, *b.beyond(output))
                    start = b.person + where[0] if where else len(ids)
                    cells = rows.add(base, (number, position), ids, start)
                    patched |= {cells[b.person + k]: aligned[output][k][0] for k in where}
                    sequences.append((cells, b.targets[output]))
        self.patched: Int[Tensor, "_cell 2 2"] = _tensor(patched.items())
        """Each patched cell with its source."""
        reads = [
            (*cell, target, number)
            for number, (cells, targets) in enumerate(sequences)
            for cell, target in zip(cells[-len(targets) :], targets, strict=True)
        ]
        row, column, self.targets, self.sequence = np.array(reads).T  # of every read
        at = torch.from_numpy(row), torch.from_numpy(column)
        tokens = padded_trees([tree for _, tree in rows.trees.values()], rows.in_trees)
        self.batch = Batch(*tokens, *at, np.arange(len(reads)))

    @property
    def size(self) -> tuple[int, int]:
        """Numbers of tokens, and of positions that are read."""
        cells = {*zip(self.batch.row.tolist(), self.batch.position.tolist(), strict=True)}
        return self.batch.ids.numel(), len(cells)

    def log_p(self) -> tuple[list[Outputs], list[Float64[np.ndarray, "position _output"]]]:
        """log P of the outputs of every text, and of every pair by position."""
        read = read_log_probs(self.lm, self.targets, self.batch)
        flat = np.bincount(self.sequence, read)
        sizes = [len(text.ids) for text in self.texts]
        patches = [len(self.texts[base].ids) * len(self.positions) for _, base in self.pairs]
        parts = np.split(flat, np.cumsum([*sizes, *patches])[:-1])
        shape = len(self.positions), -1 if self.positions else 0
        return parts[: len(sizes)], [part.reshape(shape) for part in parts[len(sizes) :]]

    def moved(self, place: PatchPlace) -> list[Float64[np.ndarray, "position _output"]]:
        """The change of log P of the outputs by each patch, for every pair."""
        with self.lm.bridge.hooks(fwd_hooks=[self._hook(place)]):
            before, patched = self.log_p()
        return [after - before[base] for after, (_, base) in zip(patched, self.pairs, strict=True)]

    def _hook(self, place: PatchPlace) -> tuple[str, Any]:
        mask = self.batch.mask
        to, source = ((c[:, 0], c[:, 1]) for c in self.patched.unbind(1))
        real = (mask.diagonal(dim1=1, dim2=2) if mask.ndim == 3 else mask).bool()

        def patch(x: Tensor, hook: Any) -> Tensor:
            flat, features = x.flatten(2).clone(), slice(None)
            if place.unit is not None:
                width = unit_width(self.lm, place.site, flat.shape[-1])
                features = slice(place.unit * width, (place.unit + 1) * width)
            size = torch.linalg.vector_norm(flat.float(), dim=-1)
            limit = sink_limit(size[real.to(x.device)].cpu().numpy())
            values = flat[source][:, features]
            if limit is not None:  # attention sinks are left alone
                is_sink = torch.maximum(size[to], size[source]) > limit
                values = torch.where(is_sink[:, None], flat[to][:, features], values)
            flat[(*to, features)] = values
            return flat.view_as(x)

        return hook_name(self.lm, place.site, place.layer), patch

    def attributed(
        self, site: str, weights: Sequence[Outputs]
    ) -> Float64[np.ndarray, "pair layer unit"]:
        """Estimates of Σ weight · moved of every unit at all tokens; pairs share no text."""
        activations = list[Tensor]()

        def keep(x: Tensor, hook: Any) -> Tensor:
            activations.append(x if x.requires_grad else x.detach().requires_grad_())
            return activations[-1]

        of_text = [np.zeros(len(text.ids)) for text in self.texts]
        for w, (source, base) in zip(weights, self.pairs, strict=True):
            of_text[source] = of_text[base] = w
        hooks = [(hook_name(self.lm, site, layer), keep) for layer in range(self.lm.n_layers)]
        batch, unique = self.batch, cast(Any, torch.unique)
        cells, cell = unique(torch.stack([batch.row, batch.position]), dim=1, return_inverse=True)
        with torch.enable_grad(), self.lm.bridge.hooks(fwd_hooks=hooks):
            logits = self.lm.differentiable_logits(batch.ids, batch.mask, (cells[0], cells[1]))
            log_p = logits.float().log_softmax(-1)[cell, torch.from_numpy(self.targets)]
            weight = torch.from_numpy(np.concatenate(of_text)[self.sequence]).to(log_p)
            gradients = torch.autograd.grad((log_p * weight).sum(), activations)
        sums = []
        for x, gradient in zip(activations, gradients, strict=True):
            x, gradient = (t.detach().flatten(2).double() for t in (x, gradient))
            width = unit_width(self.lm, site, x.shape[-1])
            for aligned in self.aligned:
                a, b = ((c[:, 0], c[:, 1]) for c in aligned.unbind(1))
                change = ((x[a] - x[b]) * (gradient[a] + gradient[b]) / 2).sum(0)
                sums.append(change.view(-1, width).sum(1).cpu().numpy())
        return np.array(sums).reshape(len(activations), len(self.pairs), -1).swapaxes(0, 1)


def _tensor(cells: Iterable[Sequence[BatchCell]]) -> Int[Tensor, "_cell 2 2"]:
    return torch.tensor([*cells], dtype=torch.long).view(-1, 2, 2)


@dataclass(frozen=True)
class PatchTemplate:
    """A template with the people of both groups, whose prompts are tokenised."""

    label: str
    people: tuple[str, ...]
    """The name of each pair: equal names are one cluster."""
    texts: tuple[PatchText, ...]
    """Those of the first group, then those of the second."""
    null_pairs: tuple[tuple[int, int], ...]
    """Source and base of a pair of one group, if there is one."""
    differences: PairDifferences = field(default_factory=lambda: np.zeros((0, 0)), compare=False)
    """log P after the first person of a pair less that after the second, unedited."""

    @property
    def weights(self) -> PairDifferences:
        """The weights of the changes in each pair: the differences of the others."""
        d = self.differences
        return d if len(d) == 1 else d.sum(axis=0) - d

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Source and base of each pair of two groups, in turn in either direction."""
        n = len(self.people)
        return [(i, n + i) if i % 2 == 0 else (n + i, i) for i in range(n)]

    def words(self, lm: LanguageModel) -> dict[str, str]:
        """Its first person, and the tokens of every position after it, as text."""
        text, words = self.texts[0], {_PERSON: self.people[0].partition(" / ")[0]}
        last, _ = text.beyond(0)
        for position in POSITIONS[1:]:
            ids = [text.ids[0][text.person + k] for k in offsets(position, last, last + 1)]
            words[position] = lm.tokenizer.decode(ids).strip()
        return words


def templates_of(
    lm: LanguageModel, sets: Sequence[CounterfactualSet], pairs: int, seed: int
) -> list[PatchTemplate]:
    """About `pairs` pairs of people, in templates that are drawn evenly from the sets.

    Templates whose prompts are not aligned after the person are left out, and those that begin
    with the person, whose token is an attention sink in many models.
    """
    templates: list[PatchTemplate] = []
    for data in sets:
        size = min(PEOPLE_PER_GROUP, len(data.samples[0].of(data.groups[0])))
        missing = max(1, round(pairs / size / len(sets)))
        for sample in few_prompts(data, len(data.samples), seed).samples:
            sides = [sample.of(group)[:size] for group in data.groups[:2]]
            texts = [PatchText.of(lm, v, sample.outputs) for side in sides for v in side]
            first = texts[0]
            if missing and first.person > 0 and all(map(first.is_aligned, texts)):
                label = sample.template
                people = [
                    f"{a.person or label} / {b.person or ''}" for a, b in zip(*sides, strict=True)
                ]
                null = [(1, 0), (size, size + 1)][len(templates) % 2]  # bases of no other pair
                null_pairs = (null,) if size > 1 else ()
                templates.append(PatchTemplate(label, tuple(people), tuple(texts), null_pairs))
                missing -= 1
    return sorted(templates, key=lambda template: len(template.texts[0].ids[0]))


@dataclass(frozen=True)
class Moved:
    """Sums over outputs for every pair of people, nats²: the cells of a map."""

    templates: Sequence[PatchTemplate]
    places: Sequence[PatchPlace]
    moved: Float64[np.ndarray, "pair place"]
    null: Float64[np.ndarray, "template place"]
    """Of pairs of one group; empty where each group has one person."""
    total: Float64[np.ndarray, " pair"]
    details: Sequence[Mapping[str, Any]] = ()
    """The details of the row of each cell."""
    verified: int = 0
    """The number of estimated cells that were patched."""
    correlation: float = math.nan
    """Of the estimates with the patches."""

    def draws(self, seed: int, kind: str) -> tuple[Float64[np.ndarray, "resample place"], Clusters]:
        """The shares of the data, then of resampled templates, and of people in several templates.

        Linearised, as a ratio's resamples have no variance where its denominator comes near 0.
        """
        labels = [(t.label, person) for t in self.templates for person in t.people]
        template, person = (numbered(units) for units in zip(*labels, strict=True))
        clusters = [template, person] if person.max() + 1 < len(labels) else [template]
        drawn = Clusters(seed, {("locate", kind, n): units for n, units in enumerate(clusters)})
        total = self.total.sum()
        with np.errstate(divide="ignore", invalid="ignore"):
            share = self.moved.sum(axis=0) / total
            residual = self.moved - self.total[:, None] * share
            return share + (drawn.of_units @ residual) / total, drawn

    def estimates(self, seed: int, kind: str) -> list[Estimate]:
        draws, drawn = self.draws(seed, kind)
        return [drawn.estimate(values) for values in draws.T]

    def p_values(self, seed: int) -> Float64[np.ndarray, " place"] | None:
        """P of every place, adjusted for all; None without a null."""
        if not self.null.size:
            return None
        rng = generator(seed, "locate", "null")
        signs = rng.choice([-1.0, 1.0], (RESAMPLES, len(self.null)))
        scale = np.sqrt((self.null**2).sum(axis=0))
        scale = np.maximum(scale, _LEAST_SHARE * abs(self.total.sum()))
        largest = np.abs(signs @ self.null / scale).max(axis=1)
        reached = np.abs(self.moved.sum(axis=0) / scale)
        p: Float64[np.ndarray, " place"] = (largest[:, None] >= reached).sum(axis=0)
        return (1 + p) / (1 + RESAMPLES)

    def rows(
        self, kind: str, seed: int, bias: Moved | None, columns: Mapping[str, Any]
    ) -> list[Row]:
        """A row for each cell, its difference from `bias`, and a row of the correlation."""
        p, rows = self.p_values(seed), []
        cells = zip(self.places, self.estimates(seed, kind), self.details, strict=True)
        for i, (place, share, more) in enumerate(cells):
            detail = {**({} if p is None else {"p_adjusted": float(p[i])}), **more}
            cell: dict[str, Any] = {"n": len(self.total), "facets": place.facets, "detail": detail}
            rows.append(Row.of(MOVED, share, **columns, **cell))
        if self.verified:
            cell = {"n": self.verified, "facets": {"activation": self.places[0].site}}
            rows.append(Row.of(CORRELATION, self.correlation, **columns, **cell))
        if bias is not None:
            (first, of_first), (second, of_second) = bias.draws(seed, BIAS), self.draws(seed, kind)
            for place, x in zip(bias.places, (first - second).T, strict=True):
                difference = estimate(x, *of_first.weights, *of_second.weights)
                cell = {"n": len(self.total), "facets": place.facets}
                rows.append(Row.of(DIFFERENCE, difference, **columns, **cell))
        return rows


@dataclass(frozen=True)
class Patcher:
    """Patches of templates in a model."""

    lm: LanguageModel
    templates: Sequence[PatchTemplate]

    def with_differences(self) -> list[PatchTemplate]:
        """The templates with the differences of their pairs."""
        templates = []
        for batch in self._batches():
            log_p, _ = _patching(self._resuming(), batch).log_p()
            of_text = iter(log_p)
            for template in batch:
                first, second = np.split(np.array([next(of_text) for _ in template.texts]), 2)
                templates.append(replace(template, differences=first - second))
        return templates

    def patched(
        self,
        places: Sequence[PatchPlace],
        positions: Sequence[str] = (EVERY,),
        progress: str | None = None,
    ) -> Moved:
        """Patch every place at every position."""
        by_pair, null = list[Any](), list[Any]()
        for batch in self._batches(positions):
            patching = _patching(self._resuming(), batch, positions)
            by_place = [patching.moved(place) for place in track(places, progress)]
            of_pair = map(np.concatenate, zip(*by_place, strict=True))
            for template in batch:
                for (source, base), w in zip(template.pairs, template.weights, strict=True):
                    moved = next(of_pair)
                    by_pair.append((moved if source < base else -moved) @ w)
                mean = template.differences.mean(axis=0)
                null += [next(of_pair) @ mean for _ in template.null_pairs]
        cells = [replace(place, position=position) for place in places for position in positions]
        return self._summed(cells, by_pair, null)

    def attributed(self, site: str, progress: str | None = None) -> Moved:
        """Estimates for every unit of a site at all tokens."""
        by_pair, null = list[Any](), list[Any]()
        for batch in track(self._batches(), progress):
            model = self._resuming()
            forward = _patching(model, batch, of=lambda t: [(min(p), max(p)) for p in t.pairs])
            by_pair += [*forward.attributed(site, [w for t in batch for w in t.weights])]
            if means := [t.differences.mean(axis=0) for t in batch for _ in t.null_pairs]:
                of_null = _patching(model, batch, of=lambda t: t.null_pairs)
                null += [*of_null.attributed(site, means)]
        places = [PatchPlace(site, layer, unit) for layer, unit in np.ndindex(by_pair[0].shape)]
        return self._summed(places, by_pair, null)

    def _summed(
        self, places: Sequence[PatchPlace], by_pair: Sequence[Any], null: Sequence[Any]
    ) -> Moved:
        moved, null_sums = (np.array(sums).reshape(-1, len(places)) for sums in (by_pair, null))
        total = [
            d @ w for t in self.templates for d, w in zip(t.differences, t.weights, strict=True)
        ]
        return Moved(self.templates, places, moved, null_sums, np.array(total))

    def _resuming(self) -> LanguageModel:
        """The model with states below a patch kept, where a pass resumes."""
        return resuming(self.lm, range(self.lm.n_layers))

    def _batches(self, positions: Sequence[str] = ()) -> list[list[PatchTemplate]]:
        """Templates that fit into one pass together."""
        tokens = batch_tokens(self.lm, SCORES)
        tokens = tokens if positions else tokens // 8  # gradients keep all activations
        limits = tokens, batch_reads(self.lm, SCORES, 4)
        batches: list[list[PatchTemplate]] = []
        size = np.full(2, np.inf)
        for template in self.templates:
            more = np.array(_patching(self.lm, [template], positions).size)
            if (size + more > limits).any():
                batches.append([])
                size = np.zeros(2)
            batches[-1].append(template)
            size += more
        return batches


def _patching(
    lm: LanguageModel,
    templates: Sequence[PatchTemplate],
    positions: Sequence[str] = (),
    of: Callable[[PatchTemplate], Sequence[tuple[int, int]]] = (
        lambda template: [*template.pairs, *template.null_pairs]
    ),
) -> Patching:
    texts: list[PatchText] = []
    pairs: list[tuple[int, int]] = []
    for template in templates:
        pairs += [(len(texts) + a, len(texts) + b) for a, b in of(template)]
        texts += template.texts
    return Patching(lm, texts, pairs, positions)


class Locate(Metric):
    """The share of the group difference that moves with activations, by layer, token and head.

    Parameters
    ----------
    pairs : of people, for the biased sets together, agreement, and legitimate differences.
    sites : patched at every layer and position.
    units : `head` and `neuron`, estimated for all, the largest patched.
    verified : units that are patched, those with the largest estimates.
    """

    title = "Where it lives"
    unit = "share of the group difference"
    percent = True
    is_slow = True
    reads_logits = True
    measures: ClassVar[tuple[str, ...]] = (MOVED, DIFFERENCE)

    def __init__(
        self,
        pairs: int = 48,
        sites: Sequence[str] = ("resid_post", "attn_out", "mlp_out"),
        units: Sequence[str] = ("head",),
        verified: Annotated[int, Ge(0)] = 20,
    ) -> None:
        self.pairs = pairs
        self.sites = sites
        self.units = units
        self.verified = verified
        if pairs < PEOPLE_PER_GROUP:
            raise UserError(f"metric.locate.pairs={pairs} is below {PEOPLE_PER_GROUP}")
        for site in sites:
            require_known("site of metric=locate", site, ("resid_post", *UNITS.values()))
        for unit in units:
            require_known("unit of metric=locate", unit, UNITS)

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """Rows `moved` by place and kind of sets, `moved_difference` and `moved_correlation`."""
        task, seed = self.task, context.seed
        agreement = (task.agreement[split],) if split in task.agreement else ()
        legitimate = task.legitimate_differences.get(split, ())
        sets = {BIAS: task.sets(split), AGREEMENT: agreement, _LEGITIMATE: legitimate}
        by_kind: dict[str, list[Moved]] = {}
        for kind, of_kind in sets.items():
            if templates := templates_of(context.model, of_kind, self.pairs, seed):
                templates = Patcher(context.model, templates).with_differences()
                longest = max(templates, key=lambda template: template.texts[0].beyond(0))
                words = longest.words(context.model)
                with context.under(edit) as model:
                    by_kind[kind] = [*self._maps(Patcher(model, templates), kind, words)]
        groups = dict(zip(("group_a", "group_b"), task.pair, strict=True))
        rows: list[Row] = []
        for kind, maps in by_kind.items():
            columns = {"dataset": kind, "axis": task.axis.name, **groups}
            biased = by_kind.get(BIAS, []) if kind != BIAS else []
            for shares, bias in zip_longest(maps, biased):
                rows += shares.rows(kind, seed, bias, columns)
        return rows

    def _maps(self, patcher: Patcher, kind: str, words: Mapping[str, str]) -> Iterator[Moved]:
        """The shares of every site by layer and position, then of its units by layer."""
        for site in self.sites:
            places = [PatchPlace(site, layer) for layer in range(patcher.lm.n_layers)]
            shares = patcher.patched(places, POSITIONS, f"Patching {site}, {kind}")
            details = [{"example": words[place.position]} for place in shares.places]
            yield replace(shares, details=details)
        for unit in self.units:
            estimated = patcher.attributed(unit, f"Attributing {unit}s, {kind}")
            sums = estimated.moved.sum(axis=0)
            top = np.argsort(-np.abs(sums), kind="stable")[: self.verified]
            if not len(top):
                yield replace(estimated, details=[{"estimated": True}] * len(sums))
                continue
            places = [estimated.places[i] for i in top]
            exact = patcher.patched(places, progress=f"Patching {unit}s, {kind}")
            moved, null = estimated.moved.copy(), estimated.null.copy()
            moved[:, top] = exact.moved
            if null.size:
                null[:, top] = exact.null
            yield replace(
                estimated,
                moved=moved,
                null=null,
                details=[{"estimated": i not in top} for i in range(len(sums))],
                verified=len(top),
                correlation=float(np.corrcoef(sums[top], exact.moved.sum(axis=0))[0, 1]),
            )


def carriers(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """The heads (layer, head) that carry more of the bias than of legitimate differences.

    By the share of the bias less those of agreement and of legitimate differences, largest first.
    """
    margins: dict[tuple[int, int], float] = {}
    for row in rows:
        if row.metric == MOVED:
            head = int(row.facets["layer"]), int(row.facets["unit"])
            sign = 1 if row.dataset == BIAS else -1
            margins[head] = margins.get(head, 0.0) + sign * max(0.0, row.value or 0.0)
    heads = [head for head, margin in margins.items() if margin > 0]
    return sorted(heads, key=lambda head: -margins[head])[: HEAD_COUNTS[-1]]
