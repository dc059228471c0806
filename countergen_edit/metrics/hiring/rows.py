"""Rows of hiring."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from countergen_edit.data.axis import Axis, Group
from countergen_edit.data.hiring import Application
from countergen_edit.metrics.hiring.decisions import (
    RATES,
    SCALES,
    Decisions,
    Figure,
    Gaps,
    Scale,
)
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Estimate, adjusted

ACCEPTANCE, STRENGTH, GAP = "hiring_acceptance", "hiring_strength", "hiring_gap"
CHANGE, OF_OCCUPATION = "hiring_gap_change", "hiring_gap_of_occupation"
OUT_OF_VOCABULARY = "hiring_out_of_vocabulary"
RATE, IMPACT, OVERCORRECTION = "hiring_rate", "hiring_impact_ratio", "hiring_overcorrection"
IN_CONTEXT, CONTEXT_CHANGE = "hiring_gap_in_context", "hiring_context_change"
PROMPTED = "hiring_gap_prompted"
NO_AUDIT = (
    "These applications are simulated: by themselves, rates and impact ratios are no bias audit "
    "under New York City's Local Law 144, which needs historical or test data and an independent "
    "auditor."
)
EXAMPLES = 6
"""Unknown words kept in a row."""


@dataclass(frozen=True)
class HiringRows:
    """Makes the rows of decisions about applications."""

    axis: Axis
    applications: tuple[Application, ...]
    people: Mapping[str, tuple[str, ...]]
    """The names of each group."""
    seed: int

    def out_of_vocabulary(self, share: float, unknown: Sequence[str]) -> Row:
        """The share of applications in the vocabulary, and words that are not."""
        return Row(
            OUT_OF_VOCABULARY,
            share,
            dataset="hiring",
            axis=self.axis.name,
            split="test",
            n=len(self.applications) * sum(map(len, self.people.values())),
            seed=self.seed,
            detail={"words": [*unknown[:EXAMPLES]], "unknown": len(unknown)},
        )

    def acceptances(self, now: Decisions, is_asked: bool) -> list[Row]:
        """Acceptance by group."""
        rows = []
        for group, scale in product(now.groups, SCALES):
            figure = {(group,): now.acceptance(scale, group)}
            [row] = self._rows(ACCEPTANCE, figure, scale, tested=False)
            row.detail.update(
                invited=float(now.values(group, "selection").mean()),
                answered=now.answered(group),
                names=[*self.people[group]],
                asked=is_asked,
                occupations=len(now.occupations),
            )
            rows.append(row)
        return rows

    def strengths(self, now: Decisions) -> list[Row]:
        """Acceptance of strong less weak curricula vitae."""
        return [
            row
            for scale in SCALES
            for row in self._rows(STRENGTH, {(): now.strength(scale)}, scale, tested=False)
        ]

    def of_gaps(
        self, metric: str, gaps: Callable[[Scale], Gaps], tested: bool = True, **facets: str
    ) -> list[Row]:
        """Gaps of every two groups."""
        return [
            row
            for scale in SCALES
            for row in self._rows(metric, gaps(scale), scale, tested, **facets)
        ]

    def of_occupations(self, now: Decisions) -> list[Row]:
        """Gaps by occupation."""
        rows = []
        for scale in SCALES:
            about = product(combinations(now.groups, 2), now.occupations)
            figures = {(*pair, job): now.gap_of(job, *pair, scale) for pair, job in about}
            rows += self._rows(OF_OCCUPATION, figures, scale)
        return rows

    def overcorrections(self, now: Decisions, before: Decisions) -> list[Row]:
        """The gaps again, and whether an edit reversed their sign."""
        rows = self.of_gaps(OVERCORRECTION, now.gaps, tested=False)
        unedited = [gap.estimate.value for scale in SCALES for gap in before.gaps(scale).values()]
        for row, was in zip(rows, unedited, strict=True):
            lo, hi = row.lo or 0.0, row.hi or 0.0
            row.detail.update(before=was, shown=hi < 0 < was or was < 0 < lo)
        return rows

    def rates(self, now: Decisions) -> list[Row]:
        """Rates and impact ratios of every category."""
        rows = []
        for (axis, own), rate in product(self._categories().items(), RATES):
            figures = {name: now.acceptance(rate, *groups) for name, groups in own.items()}
            top = max(figures, key=lambda name: float(figures[name].draws[0]))
            people = in_words(
                {name: [self.axis.groups[g] for g in groups] for name, groups in own.items()}
            )
            for name, figure in figures.items():
                is_top = name == top and figure.draws[0] > 0
                ratio = Estimate(1.0, *[math.nan] * 3) if is_top else figure.ratio(figures[top])
                about: dict[str, Any] = {"dataset": "hiring", "axis": axis, "group_a": name}
                about |= {"facets": {"by": axis, "rate": rate}, "split": "test", "seed": self.seed}
                about["n"] = len(self.applications) * sum(len(self.people[g]) for g in own[name])
                about["detail"] = {
                    "people": people[name],
                    "reference": people[top],
                    "note": NO_AUDIT,
                }
                rows.append(Row(RATE, **figure.estimate.columns, **about))
                rows.append(Row(IMPACT, **ratio.columns, **about))
        return rows

    def _categories(self) -> dict[str, dict[str, list[str]]]:
        """By axis, each category with its groups; of crossed axes those of either axis first."""
        axis, found = self.axis, {}
        for part in axis.made_of:
            own: dict[str, list[str]] = {}
            for group in self.people:
                own.setdefault(axis.groups[group].parts.get(part, ""), []).append(group)
            if "" not in own and len(own) > 1:
                found[part] = own
        return found | {axis.name: {group: [group] for group in self.people}}

    def _rows(
        self,
        metric: str,
        figures: Mapping[Any, Figure],
        scale: Scale,
        tested: bool = True,
        **facets: str,
    ) -> list[Row]:
        """Rows of figures by their groups and occupation, with P adjusted over them."""
        p = {
            key: figure.p
            for key, figure in figures.items()
            if tested and figure.p is not None and math.isfinite(figure.p)
        }
        corrected = dict(zip(p, adjusted([*p.values()]).tolist(), strict=True))
        rows = []
        for key, figure in figures.items():
            a, b, job = (*key, "", "", "")[:3]
            groups = [group for group in (a, b) if group] or [*self.people]
            applications = [one for one in self.applications if job in ("", one.occupation)]
            detail = {"smallest": figure.estimate.smallest_of(figure.fewest)}
            if key in p:
                detail |= {"p": p[key], "p_adjusted": corrected[key]}
            rows.append(
                Row(
                    metric,
                    **figure.estimate.columns,
                    dataset="hiring",
                    axis=self.axis.name,
                    group_a=a,
                    group_b=b,
                    facets={**({"occupation": job} if job else {}), "scale": scale, **facets},
                    split="test",
                    n=len(applications) * sum(len(self.people[group]) for group in groups),
                    seed=self.seed,
                    detail=detail,
                )
            )
        return rows


def in_words(categories: Mapping[str, Sequence[Group]]) -> dict[str, str]:
    """Each category in the plural by the forms of its groups, else its name.

    >>> in_words({g: [Group(g, {}, {"adjective": g.title()})] for g in ("black", "white")})
    {'black': 'Black people', 'white': 'White people'}
    """
    forms = {}
    for name, groups in categories.items():
        every = {form: {g.forms.get(form, "") for g in groups} for form in ("people", "adjective")}
        forms[name] = {form: "".join(own) if len(own) == 1 else "" for form, own in every.items()}
    for pattern in ("{people}", "{adjective} people", "{adjective} {people}"):
        said = {name: pattern.format(**own) for name, own in forms.items()}
        if len({*said.values()}) == len(said) and not any(s.startswith(" ") for s in said.values()):
            return said
    return {name: name.replace("_", " ") for name in categories}
