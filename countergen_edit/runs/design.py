"""Designs from a pilot: cells and people for intervals of a given width at least cost.

The pilot scores validation prompts of each family of the test sets. Its variance components
(`Components`) foresee the interval of any design; the test sets are then drawn anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from itertools import product

from countergen_edit.core.errors import UserError
from countergen_edit.data.task import SetDesign, Task
from countergen_edit.metrics.r.components import Components, pooled
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.scores import score
from countergen_edit.models import LanguageModel

PILOT_CELLS = 24
PILOT_PEOPLE = 2
DESIGN_CELLS = (48, 60, 84, 108, 132, 192, 264)
DESIGN_PEOPLE = (4, 6, 8)
_MOST_PEOPLE = 800
"""Of each group in a set."""
PRECISION = 0.2
"""Default half-width, as a share of the effect."""
_SMALL = 0.5
"""Nats of half-width per unit of precision that do for small effects."""
MOST_CONTENTS = 10_000
_NEAR = 1.1
"""Half-width, in units of the narrowest, that does where no design reaches the target."""
_POWER = 4
"""Of half-widths in units of their targets: the widest count most."""
_MARGIN = 0.85
"""Expected half-width in units of the target: pilots often overestimate an effect."""


def designed(
    model: LanguageModel,
    task: Task,
    precision: float | None = PRECISION,
    passes: int | None = None,
) -> Task:
    """The task with its test sets drawn by a pilot; sets that cannot be drawn stay as they are.

    `precision` is the half-width of the 95 % interval of each group effect: a share of it, or half
    of that in nats for small effects. `passes` is the most prompts of all test sets together, spent
    first on the sets farthest from `precision`. `UserError` if no design has either.
    """
    if precision is not None and not 0 < precision <= 1:
        raise UserError(f"precision={precision}: a share of the effect, such as {PRECISION}")
    names = [data.name for data in task.test if data.name in task.drawable]
    if not names or (precision is None and passes is None):
        return task
    groups = len(task.groups)
    pools = {name: task.drawable[name].sizes("test", DESIGN_PEOPLE[-1]) for name in names}
    sizes = {name: _sizes(pool) for name, pool in pools.items()}
    if small := [name for name in names if not sizes[name]]:
        raise UserError(
            f"no design for {small[0]}: it has {math.prod(pools[small[0]][:2])} templates with a "
            f"content, and the smallest takes {DESIGN_CELLS[0]}; give it templates and people"
        )
    least = groups * sum(min(map(math.prod, of_set)) for of_set in sizes.values())
    if passes is not None and passes < least:
        raise UserError(f"passes={passes} are too few: the smallest designs need {least}")
    texts: dict[str, int] = {}
    variances: dict[str, Components] = {}
    for name in names:
        pilot = task.drawable[name].draw("validation", PILOT_CELLS, PILOT_PEOPLE)
        scores = score(model, pilot, f"Pilot of {name}")
        variances[name] = Components.of(GroupEffect(scores.pairs[0]))
        texts[name] = len(pilot.texts)
    options = {}
    for name, components in pooled(variances).items():
        templates, contents, _ = pools[name]
        target = (precision or 0.0) * max(components.squared**0.5, _SMALL)
        needed = _contents_needed(components, pools[name], target)
        options[name] = [
            SetDesign(
                dataset=name,
                cells=cells,
                templates=min(cells, templates),
                contents=min(cells, contents),
                people=people,
                passes=groups * cells * people,
                pilot=texts[name],
                half_width=components.half_width(cells, templates, contents, people),
                target=target,
                contents_needed=needed,
                components=asdict(components),
            )
            for cells, people in sorted(sizes[name], key=math.prod)
        ]
    if passes is not None:
        return drawn(task, within_passes(options, passes).values())
    return drawn(task, map(_cheapest, options.values()))


def drawn(task: Task, designs: Iterable[SetDesign]) -> Task:
    """The task with test sets of given designs, such as those of another model."""
    by_name = {design.dataset: design for design in designs}
    test = [
        task.drawable[data.name].draw("test", design.cells, design.people)
        if (design := by_name.get(data.name))
        else data
        for data in task.test
    ]
    return replace(task, test=tuple(test), design=tuple(by_name.values()))


def _sizes(pool: tuple[int, int, int]) -> list[tuple[int, int]]:
    """Possible numbers of cells of a set, and of people in each."""
    templates, contents, most = pool
    counts = sorted({min(count, most) for count in DESIGN_PEOPLE})
    return [
        (cells, people)
        for cells, people in product(DESIGN_CELLS, counts)
        if cells <= templates * contents and cells * people <= _MOST_PEOPLE
    ]


def _cheapest(options: list[SetDesign]) -> SetDesign:
    """The fewest passes that reach the target, or are near the narrowest where none does."""
    best = min(design.half_width for design in options)
    most = max(_MARGIN * options[0].target, _NEAR * best)
    return min((d for d in options if d.half_width <= most), key=lambda d: d.passes)


def _contents_needed(
    components: Components, pool: tuple[int, int, int], target: float
) -> int | None:
    """Number of contents that reaches the target; None where the present one does."""
    templates, contents, people = pool
    most = max(cells for cells in DESIGN_CELLS if cells <= templates * contents)
    if components.half_width(most, templates, contents, people) <= target:
        return None
    for count in range(contents, MOST_CONTENTS, max(1, contents // 8)):
        cells = max(most, count)
        if components.half_width(cells, max(templates, count), count, people) <= target:
            return count
    return MOST_CONTENTS


def within_passes(options: Mapping[str, list[SetDesign]], passes: int) -> dict[str, SetDesign]:
    """Designs whose passes sum to no more than `passes`.

    Each step lowers the sum over sets of (half-width / target)⁴ most per pass, in nats without
    targets. `passes` are enough for the smallest designs.
    """
    chosen = {name: min(designs, key=lambda d: d.passes) for name, designs in options.items()}
    left = passes - sum(design.passes for design in chosen.values())

    def loss(design: SetDesign) -> float:
        return (design.half_width / (design.target or 1.0)) ** _POWER

    def gain(design: SetDesign) -> float:
        now = chosen[design.dataset]
        return (loss(now) - loss(design)) / max(design.passes - now.passes, 0.5)

    while steps := [
        design
        for name, designs in options.items()
        for design in designs
        if design.half_width < chosen[name].half_width
        and design.passes - chosen[name].passes <= left
    ]:
        step = max(steps, key=gain)
        left -= step.passes - chosen[step.dataset].passes
        chosen[step.dataset] = step
    return chosen
