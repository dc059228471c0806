"""Counterfactual self-distillation into a low-rank update of weights.

A model with a low-rank update (LoRA; Hu et al. 2021, arXiv 2106.09685) is trained towards its own
unedited output (distillation; Hinton, Vinyals and Dean 2015, arXiv 1503.02531) less the group's
part of it: half the difference of the groups' mean log-probabilities over counterfactual people,
token by token, except for words that may differ (`telling_tokens`). This target, contexts that the
model writes itself, and the constraints are ours.

The loss is minimised subject to limits on kept contexts and neutral text. The multiplier of each
follows its held-out value by exponentiated gradient ascent on the dual (Arrow, Hurwicz and Uzawa
1958; Kivinen and Warmuth 1997).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from countergen_edit.core.errors import UserError
from countergen_edit.core.seeds import generator
from countergen_edit.core.stages import stage
from countergen_edit.core.writing import whole_folder
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.subsets import few_texts, round_robin
from countergen_edit.data.task import Task
from countergen_edit.edits import LowRankUpdate
from countergen_edit.erasers import Distilled
from countergen_edit.models import LanguageModel, announce_memory, return_memory
from countergen_edit.models.progress import track
from countergen_edit.runs.objective import (
    coarse,
    erasing_terms,
    share_changes,
    squared_difference,
    with_difference,
)
from countergen_edit.runs.own_contexts import OwnContexts, written
from countergen_edit.runs.portions import (
    PASS,
    Context,
    Portion,
    mean_divergence,
    running,
    telling_tokens,
    to_erase,
    to_keep,
)
from countergen_edit.runs.student import Student, Unedited, few_rows, pace, stepping

_WEIGHTS = {"bias": 20.0, "people": 3.0}
"""Weights of the share of the group difference and of the divergence from people's targets."""
POOL = 60
"""Steps whose texts are drawn; later steps take the same in another order."""
LOOKED_AT = 7
"""One in so many portions, of each kind, is read for the plausible tokens."""
VOCABULARY = 8192
"""Plausible tokens, over which the loss and the constraints are computed."""
HELD_OUT_PEOPLE = 8
HELD_OUT_KEPT = 3
HELD_OUT_PORTIONS = 24
HELD_OUT_TEXTS = 6
DRAWN_CELLS = 240
"""Templates with contents of a redrawn fitting set; erasers take a tenth."""
KEPT_PEOPLE = 6
"""Of each group after a context to keep."""
TEMPLATE_CONTEXTS = 2
MODEL_CONTEXTS = 4
"""Contexts to erase in a step: from templates, and the model's own."""
RISE = 1.5
FALL = 0.5
"""Largest changes of a multiplier's logarithm per evaluation."""
FIRST_MULTIPLIER = 1.0
LEAST_MULTIPLIER = 0.3
LARGEST_MULTIPLIER = 20.0
FACTOR = 1.2
"""By which a trained update is scaled repeatedly, while that is better."""
SMALLEST = 0.1
"""Least share of a trained update: less removes next to nothing."""
ACTIVATIONS = 36
"""Numbers kept for gradients in a block, per token and feature of the stream."""
ADVICE = "eraser.distilled.first_layer=0.6 takes less"
LIMIT_SHARE = 0.75
"""A limit as a share of the budget: training aims below it."""
STATE = "state.pt"


def limits_of(budgets: Mapping[str, float]) -> dict[str, float]:
    """Largest changes on held-out texts, as shares of the budgets of costs by their rows.

    `agreement`: fall of the share of the form that agrees, among the forms, for each group;
    `legitimate`: mean |change| of the shares of outputs where the groups differ legitimately;
    `keep`: KL(unedited ‖ edited) of words that tell the group, all other tokens as one, nats;
    `neutral`: KL(unedited ‖ edited) at each token of neutral text, nats.
    """
    text = min(budgets.get("kl", math.inf), budgets.get("perplexity_ratio", math.inf))
    return {
        "agreement": LIMIT_SHARE * budgets.get("agreement", 0.01),
        "legitimate": LIMIT_SHARE * budgets.get("legitimate_difference_change", 0.03),
        "keep": 0.004,
        "neutral": min(0.002, LIMIT_SHARE * text),
    }


class Distillation:
    """The training of an update on one task, resumed from `folder` if that holds a part.

    `curve` has the terms of held-out texts and the multipliers at each evaluation.
    """

    def __init__(
        self,
        model: LanguageModel,
        task: Task,
        settings: Distilled,
        limits: Mapping[str, float],
        folder: Path,
        layers: Sequence[int] | None = None,
    ) -> None:
        self.model = model
        self.task = task
        self.settings = settings
        self.limits = limits
        self.layers = layers
        self._folder = folder
        self.seed = settings.random_state
        self.rate = settings.rate(model.d_model)
        self._telling = telling_tokens(model, task)
        self.multipliers = dict.fromkeys(limits, FIRST_MULTIPLIER)
        self.curve: list[dict[str, float]] = []

    @cached_property
    def contexts(self) -> OwnContexts:
        """The contexts that the model wrote."""
        task = replace(self.task, fit=tuple(larger(self.task)))
        return written(self.model, task, self.settings.contexts, self.seed)

    @cached_property
    def _portions(self) -> tuple[list[list[Context]], list[list[Portion]]]:
        """Contexts to erase, and portions to keep and of neutral text, by set."""
        model, task = self.model, self.task
        return (
            [to_erase(model, data) for data in larger(task)],
            [
                *(self._to_keep(data, KEPT_PEOPLE) for data in task.keep),
                *([running(model, task.weighed)] if task.weighed else []),
            ],
        )

    @cached_property
    def _held_out(self) -> list[Portion]:
        model, task = self.model, self.task
        sets = [round_robin(data, HELD_OUT_PEOPLE) for data in task.validation]
        contexts = [context for data in sets for context in to_erase(model, data)]
        rng = generator(self.seed, "distilled", "held out")
        most = min(HELD_OUT_PORTIONS, len(contexts))
        drawn = sorted(rng.choice(len(contexts), most, False, odds(contexts))) if contexts else []
        kept = [task.agreement.get("validation")]
        kept += task.legitimate_differences.get("validation", ())
        texts = few_texts(task.neutral.get("validation", ()), HELD_OUT_TEXTS, self.seed)
        keep = [p for data in kept if data for p in self._to_keep(data, HELD_OUT_KEPT)]
        return [*(contexts[i].portion(model) for i in drawn), *keep, *running(model, texts)]

    def _to_keep(self, data: CounterfactualSet, people: int) -> list[Portion]:
        rng = generator(self.seed, "distilled", "kept", data.name)
        return to_keep(self.model, round_robin(data, people), rng)

    def run(self) -> LowRankUpdate:
        """Train, then scale: the least held-out bias within or nearest to the budgets."""
        settings = self.settings
        steps = settings.steps
        student = Student(self.model, settings, self.layers)
        self.prepare(student)
        adam = torch.optim.Adam(student.parameters.values(), lr=self.rate)
        best, begin = self._resume(student, adam)
        for step in track(range(begin, steps + 1), "Distillation"):
            if step > begin and (step % settings.check_every == 0 or step == steps):
                terms = self._evaluate(student, step)
                stage(f"step {step}: squared group difference {terms['bias']:.3f}, held-out")
                if best is None or self._rank(terms) < best[:2]:
                    best = (*self._rank(terms), student.update)
                self._ascend(terms)
                self._keep(student, adam, best, step)
                return_memory()
            if step == steps:
                break
            with stepping(adam, self.rate * pace(step, steps)):
                self.backward(student, self.pool[self._number(step)])
        update = self._scaled(student, best)
        del self.pool, self.looks, student, adam  # measurements follow
        return_memory()
        return update

    def recorded(self) -> tuple[list[dict[str, float]], dict[str, Any]]:
        """The curve and the summary of contexts of a finished training."""
        state = torch.load(self._folder / STATE, weights_only=True)
        return state["curve"], state["own"]

    def _rank(self, terms: Mapping[str, float]) -> tuple[float, float]:
        """The order of evaluations: the excess over the budgets, then bias."""
        over = (LIMIT_SHARE * terms[name] / limit - 1 for name, limit in self.limits.items())
        return max(0.0, *over), terms["bias"]

    def _scaled(self, student: Student, best: tuple[float, float, LowRankUpdate]) -> LowRankUpdate:
        """The best update, scaled up or down within the budgets."""
        zero = dict.fromkeys(self.multipliers, 0.0)
        unscaled = best
        for factor in (FACTOR, 1 / FACTOR):
            scale = factor if best is unscaled else 0.0  # the way back is known
            while scale > SMALLEST:
                student.update = update = best[2].scaled(factor)
                rank = self._rank(zero | self.held_out(student))
                if not rank < best[:2]:
                    break
                best = (*rank, update)
                scale *= factor
        return best[2]

    def _evaluate(self, student: Student, step: int) -> dict[str, float]:
        terms = dict.fromkeys(self.multipliers, 0.0) | self.held_out(student)
        multipliers = {f"multiplier_{name}": value for name, value in self.multipliers.items()}
        # Multipliers change, so that a sum with them has no fixed scale.
        loss = sum(weight * terms[name] for name, weight in _WEIGHTS.items())
        look = {"seed": float(self.seed), "step": float(step), **terms, **multipliers}
        self.curve.append({**look, "loss": loss})
        if not np.isfinite(sum(terms.values())):
            raise UserError(
                f"the loss is not finite after {step} steps: use a learning_rate below "
                f"{self.rate:g}"
            )
        return terms

    def _resume(self, student: Student, adam: torch.optim.Adam) -> tuple[Any, int]:
        """The best update so far and the step to go on from."""
        path = self._folder / STATE
        if not path.is_file():
            return None, 0
        state = torch.load(path, weights_only=True)
        for name, parameter in student.parameters.items():
            parameter.data.copy_(state["parameters"][name])
        adam.load_state_dict(state["adam"])
        self.multipliers |= state["multipliers"]
        self.curve = state["curve"]
        over, bias, factors = state["best"]
        update = {name: (a.numpy(), b.numpy()) for name, (a, b) in factors.items()}
        return (over, bias, LowRankUpdate(update)), state["step"]

    def _keep(self, student: Student, adam: torch.optim.Adam, best: Any, step: int) -> None:
        over, bias, update = best
        factors = {
            name: tuple(torch.from_numpy(part) for part in parts)
            for name, parts in update.factors.items()
        }
        state = {
            "parameters": {name: p.detach() for name, p in student.parameters.items()},
            "adam": adam.state_dict(),
            "multipliers": self.multipliers,
            "curve": self.curve,
            "own": self.contexts.summary,
            "best": (over, bias, factors),
            "step": step,
        }
        with whole_folder(self._folder) as folder:
            torch.save(state, folder / STATE)

    def prepare(self, student: Student) -> None:
        """Compute the unedited output of all texts, once, among the plausible tokens."""
        return_memory()
        steps = [self.drawn(step) for step in range(min(POOL, self.settings.steps))]
        student.restrict(self._plausible(student, [*chain.from_iterable(steps)]))
        announce_memory("Training", self._gibibytes(student, steps), ADVICE)
        self._kept = student.numbers(self._telling)
        self.pool = [self._unedited(student, step) for step in track(steps, "Unedited model")]
        self.looks = self._unedited(student, dict.fromkeys(self._held_out))
        return_memory()

    def _gibibytes(self, student: Student, steps: Sequence[Mapping[Portion, Any]]) -> float:
        """Memory of the unedited output and the activations of a pass, GiB."""
        width = self.model.d_model
        above = self.model.n_layers - student.first
        size = 4.0 * ACTIVATIONS * PASS * width * above
        for portion, rows in chain.from_iterable(step.items() for step in steps):
            share = 1 if rows is None else len(rows) / len(portion.ids)
            size += share * len(portion.at[0]) * 2 * student.vocab_size
            size += share * portion.ids.numel() * 4 * width * bool(student.first)
        return size / 2**30

    def _plausible(self, student: Student, portions: Sequence[Portion]) -> Int[Tensor, " token"]:
        """Outputs of portions, words that tell the group, and the likeliest other tokens."""
        p = torch.zeros(student.vocab_size)
        if len(p) > VOCABULARY:
            for portion in track(portions[::LOOKED_AT], "Plausible tokens"):
                [given] = student.unedited([portion])
                p += given.log_probs.exp().mean(0).cpu()
        parts = [self._telling]
        for portion in [*portions, *self._held_out]:
            parts += [x.flatten() for x in (portion.outputs, portion.choices) if x is not None]
        required = torch.tensor(sorted({*torch.cat(parts).tolist()}))
        p[required] = 1.0 + len(portions)
        return p.topk(min(max(VOCABULARY, len(required)), len(p))).indices.sort().values

    def _number(self, step: int) -> int:
        """The index of a step's texts in the pool, which every round shuffles."""
        turn, number = divmod(step, len(self.pool))
        rng = generator(self.seed, "distilled", "round", turn)
        return int(rng.permutation(len(self.pool))[number])

    def held_out(self, student: Student) -> dict[str, float]:
        """The terms on validation people, templates and texts."""
        sums = defaultdict[str, list[float]](list)
        falls = defaultdict[int, list[float]](list)
        with torch.no_grad():
            for given, after in chain.from_iterable(student.passes(self.looks)):
                portion = given.portion
                terms = self._terms(given, after)
                if given.half is not None:
                    terms["bias"] = squared_difference(portion, after)
                if portion.side is not None:
                    change = share_changes(portion, given.log_probs, after)[:, 0].tolist()
                    for side, value in zip(portion.side.tolist(), change, strict=True):
                        falls[side].append(-value)
                for name, value in terms.items():
                    sums[name].append(float(value))
        means = {name: float(np.mean(values)) for name, values in sums.items()}
        if falls:  # the budget holds for each group
            means["agreement"] = float(max(np.mean(values) for values in falls.values()))
        return means

    def _unedited(
        self, student: Student, portions: Mapping[Portion, Int[Tensor, " row"] | None]
    ) -> list[Unedited]:
        """Portions, or their rows, with the unedited output, in half the memory."""
        unedited = list[Unedited]()
        for before, rows in zip(student.unedited([*portions]), portions.values(), strict=True):
            if before.portion.kind == "erase":
                before = with_difference(before, self._kept)
            before = before if rows is None else before.of_rows(rows)
            unedited.append(before.cast(torch.float16))
        return unedited

    def backward(self, student: Student, drawn: Sequence[Unedited]) -> None:
        """Accumulate the gradient of the Lagrangian on a step's portions."""
        counts = Counter(name for given in drawn for name in given.portion.terms)
        for outputs in student.passes(drawn):
            losses = [
                self._weight(name) / counts[name] * value
                for given, after in outputs
                for name, value in self._terms(given, after).items()
            ]
            torch.autograd.backward(torch.stack(losses).sum())

    def _ascend(self, terms: Mapping[str, float]) -> None:
        """A step of the multipliers, by held-out constraints."""
        for name, limit in self.limits.items():
            surplus = np.clip(terms[name] / limit - 1, -1, 1)
            factor = np.exp((RISE if surplus > 0 else FALL) * surplus)
            changed = self.multipliers[name] * float(factor)
            self.multipliers[name] = min(max(changed, LEAST_MULTIPLIER), LARGEST_MULTIPLIER)

    def _weight(self, term: str) -> float:
        if term in self.multipliers:
            return self.multipliers[term] / self.limits[term]
        return _WEIGHTS[term]

    def drawn(self, step: int) -> dict[Portion, Int[Tensor, " row"] | None]:
        """The portions of a step by seed and step, each with its rows; None takes all."""
        rng = generator(self.seed, "distilled", step)
        erase, keep = self._portions
        rows: dict[Portion, Int[Tensor, " row"] | None] = {}
        families = [erase[int(rng.integers(len(erase)))] for _ in range(TEMPLATE_CONTEXTS) if erase]
        for contexts in families:
            context = contexts[int(rng.choice(len(contexts), p=odds(contexts)))]
            portion = context.portion(self.model)
            rows[portion] = few_rows(portion, rng)
        for portions in keep:
            rows[portions[int(rng.choice(len(portions), p=odds(portions)))]] = None
        for _ in range(MODEL_CONTEXTS):
            if drawn := self.contexts.portion_to_erase(self.model, rng):
                rows[drawn] = few_rows(drawn, rng)
        if drawn := self.contexts.portion_to_keep(self.model, rng):
            rows[drawn] = None
        return rows

    def _terms(self, given: Unedited, after: Float[Tensor, "read vocab"]) -> dict[str, Tensor]:
        """Terms of the loss and of the constraints on one portion."""
        portion, before = given.portion, given.log_probs
        if given.half is not None:
            return erasing_terms(given, after)
        if portion.kind == "keep":
            # Other words after such a context may lose the group's part of their probability.
            p, q = (coarse(log_probs, self._kept) for log_probs in (before, after))
            terms = {"keep": mean_divergence(p, q)}
            if portion.choices is not None:
                change = share_changes(portion, before, after)
                if portion.side is None:
                    terms["legitimate"] = change.abs().mean()
                else:
                    terms["agreement"] = (-change[:, 0]).clamp(min=0.0).mean()
            return terms
        return {portion.kind: mean_divergence(before, after)}


def larger(task: Task) -> list[CounterfactualSet]:
    """The fitting sets, drawn anew with more templates and contents, but for a quick try."""
    return [
        task.drawable[data.name].draw("fit", DRAWN_CELLS, data.widest)
        if data.name in task.drawable and task.limit is None
        else data
        for data in task.fit
    ]


def odds(portions: Sequence[Context | Portion]) -> Float[np.ndarray, " portion"]:
    """Probabilities in proportion to outputs, over which the group effect is a mean."""
    outputs = np.array([1.0 if p.outputs is None else len(p.outputs) for p in portions])
    return np.asarray(outputs / outputs.sum())
