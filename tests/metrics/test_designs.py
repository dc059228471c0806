"""Intervals, tests and variance components of drawn sets against simulated truth."""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import countergen_edit as ce
from countergen_edit.core.errors import UserError
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.data.task import SetDesign, Task
from countergen_edit.metrics.r.components import Components, henderson, pooled
from countergen_edit.metrics.r.effect_rows import removed
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.scores import SetScores
from countergen_edit.runs.design import within_passes

AUDITS = 200
NAMES = 60
"""Names on record for each group."""
GROUPS = ("female", "male")


@dataclass(frozen=True)
class World:
    """Differences d of contents c and outputs o, and the noise of names.

    d = effect · s · (√along · α_o + √(1 - along) · γ_co), with log-normal s of mean square 1,
    so that the true group effect is `effect`. Names have noise of variance `noise`, of which the
    part `shared` is the same after every content; it lies in few dimensions.
    """

    effect: float
    scale: float
    along: float
    noise: float
    shared: float
    outputs: int = 14


# Variance components as SmolLM2-135M shows them.
WORLDS = {
    "occupations": World(0.91, 0.36, 0.75, 0.39, 0.38),
    "traits": World(0.36, 0.50, 0.40, 0.23, 0.20),
    "sentiment": World(0.16, 0.45, 0.45, 0.046, 0.17, 12),
    "equal": World(0.0, 0.0, 0.5, 0.39, 0.38),
}
DIMENSIONS = 5


def effect_of(world, contents, people, seed=0, crossed=False, frames=True):
    """Of one cell for each content, each with people of its own, or all with the same.

    Without `frames`, cells are templates without contents.
    """
    rng = np.random.default_rng(seed)
    outputs = world.outputs
    alpha = np.linspace(-1, 1, outputs)
    alpha /= np.sqrt((alpha**2).mean())
    s = np.exp(rng.normal(-(world.scale**2), world.scale, contents))
    free = rng.standard_normal((contents, outputs))
    delta = np.sqrt(world.along) * alpha + np.sqrt(1 - world.along) * free
    delta *= world.effect * s[:, None]
    loadings = rng.standard_normal((DIMENSIONS, outputs)) / np.sqrt(DIMENSIONS)
    places = np.array([(7 * c + 11 * np.arange(people)) % NAMES for c in range(contents)])
    if crossed:
        places[:] = np.arange(people)
    log_p = np.empty((contents, outputs, 2, people))
    for side in (0, 1):
        of_names = rng.standard_normal((NAMES, DIMENSIONS))
        anew = rng.standard_normal((contents, people, DIMENSIONS))
        mixed = np.sqrt(world.shared) * of_names[places] + np.sqrt(1 - world.shared) * anew
        noise = np.sqrt(world.noise) * mixed @ loadings
        log_p[:, :, side] = (noise + (0.5 - side) * delta[:, None]).transpose(0, 2, 1)
    names = tuple(f" {o}" for o in range(outputs))
    samples = tuple(
        Sample(
            f"template {c}",
            names,
            tuple(Variation(g, f"{g} {i} {c}", f"{g}{i}") for g in GROUPS for i in places[c]),
            f"content {c}",
            f"frame {c}" if frames else None,
        )
        for c in range(contents)
    )
    data = CounterfactualSet("drawn_test", "gender", GROUPS, samples)
    return GroupEffect(SetScores.of(data, log_p.ravel()), seed)


def coverage(name, *sizes, **more):
    world = WORLDS[name]
    estimates = [effect_of(world, *sizes, audit, **more).estimate for audit in range(AUDITS)]
    return np.mean([e.lo <= world.effect <= e.hi for e in estimates])


@pytest.mark.parametrize("name", ["occupations", "traits", "sentiment"])
@pytest.mark.parametrize(("contents", "people"), [(4, 4), (12, 2), (24, 4), (48, 2)])
def test_intervals_cover_with_few_templates_and_many(name, contents, people):
    assert coverage(name, contents, people) >= 0.91  # 0.95 less 2.6 standard errors


@pytest.mark.parametrize("name", [*WORLDS])
@pytest.mark.parametrize(
    ("templates", "people", "crossed"),
    [(5, 8, True), (12, 16, True), (4, 4, False), (12, 8, False)],
)
def test_intervals_cover_over_templates_without_contents(name, templates, people, crossed):
    assert coverage(name, templates, people, crossed=crossed, frames=False) >= 0.91


def test_two_contents_have_no_interval():
    effect = effect_of(WORLDS["traits"], 2, 4)
    assert effect.estimate.value > 0
    assert np.isnan([effect.estimate.lo, effect.estimate.hi]).all()
    assert effect.p_value is not None


@pytest.mark.parametrize(("contents", "people"), [(4, 4), (24, 2)])
def test_the_level_of_the_test_holds_with_people_of_their_own(contents, people):
    p = [effect_of(WORLDS["equal"], contents, people, audit).p_value for audit in range(400)]
    assert 0.02 <= np.mean(np.array(p) <= 0.05) <= 0.085  # 0.05 within 2.9 standard errors


def test_the_test_is_that_of_swapped_pairs():
    """Every swap of two people at the same places, in all of their prompts."""
    effect = effect_of(WORLDS["traits"], 3, 2, seed=5)
    scores = effect.scores
    women = (v.name for s in scores.data.samples for v in s.of("female"))
    pairs = sorted({name.removeprefix("female") for name in women})
    differences = scores.log_p[:, 0] - scores.log_p[:, 1]
    totals = []
    for swaps in product((1, -1), repeat=len(pairs)):
        swapped = dict(zip(pairs, swaps, strict=True))
        signs = [
            [swapped[v.name.removeprefix("female")] for v in sample.of("female")]
            for sample in scores.data.samples
        ]
        swapped_differences = differences * np.array(signs)[scores.template]
        totals.append((swapped_differences.mean(axis=1) ** 2).mean())
    expected = np.mean(np.array(totals) >= totals[0] * (1 - 1e-12))
    assert effect.p_value == pytest.approx(expected)


def test_components_are_those_of_a_balanced_analysis_of_variance():
    """Henderson's first method is the analysis of variance where every cell is filled."""
    rng = np.random.default_rng(0)
    a, b = 6, 9
    table = rng.normal(size=(a, 1)) + 2 * rng.normal(size=(1, b)) + 0.5 * rng.normal(size=(a, b))
    rows, columns = np.indices((a, b)).reshape(2, -1)
    means = table.mean(axis=1), table.mean(axis=0)
    of_rows, of_columns = b * means[0].var(ddof=1), a * means[1].var(ddof=1)
    residuals = table - means[0][:, None] - means[1][None] + table.mean()
    error = (residuals**2).sum() / ((a - 1) * (b - 1))
    expected = (of_rows - error) / b, (of_columns - error) / a, error
    assert henderson(table.ravel(), rows, columns) == pytest.approx(expected)


def test_components_of_incomplete_crossings_are_unbiased():
    rng, components = np.random.default_rng(0), []
    rows, columns = np.arange(24) % 12, (np.arange(24) + np.arange(24) // 12) % 12
    for _ in range(2000):
        of_rows, of_columns = rng.normal(0, 1, 12)[rows], rng.normal(0, 2, 12)[columns]
        values = of_rows + of_columns + rng.normal(0, 1.5, 24)
        components.append(henderson(values, rows, columns))
    # The first two are cut at 0, which raises small ones.
    assert np.mean(components, axis=0)[1:] == pytest.approx([4.0, 2.25], rel=0.1)


@pytest.mark.parametrize("name", ["occupations", "sentiment"])
def test_a_pilot_foresees_the_half_width(name):
    world = WORLDS[name]
    pilots = [effect_of(world, 24, 2, 1000 + seed) for seed in range(40)]
    foreseen = [Components.of(pilot).half_width(48, 24, 48, 4) for pilot in pilots]
    estimates = [effect_of(world, 48, 4, seed).estimate for seed in range(40)]
    width = np.median([e.hi - e.lo for e in estimates]) / 2
    assert np.median(foreseen) == pytest.approx(width, rel=0.5)


@given(st.integers(24, 200), st.integers(2, 20), st.integers(1, 50), st.integers(0, 9))
@settings(max_examples=30, deadline=None)
def test_more_of_anything_never_widens(cells, people, more, extra):
    components = Components(0.8, 1.0, 0.05, 0.6, 0.3, 1.2, 1.3)
    narrow = components.half_width(cells + more, 24 + more, 48 + more, people + extra)
    assert narrow <= components.half_width(cells, 24, 48, people) + 1e-12


def test_pooled_components_never_fall_and_leave_one_set_alone():
    few = Components(0.5, 1.0, 0.0, 0.01, 0.0, 0.4, 0.6)
    many = Components(0.5, 1.0, 0.1, 0.60, 0.2, 0.4, 0.6)
    together = pooled({"few": few, "many": many})
    assert together["few"].relative == pytest.approx(0.75 * few.relative + 0.25 * many.relative)
    assert together["many"] == many
    assert pooled({"few": few}) == {"few": few}


def options_of(name, components):
    designs = []
    for k, n in product((24, 48, 96), (2, 4, 8)):
        sizes = (k, min(k, 24), min(k, 60), n, 2 * k * n)
        width = components.half_width(k, 24, 60, n)
        designs.append(SetDesign(name, *sizes, 96, width, 0.1, None))
    return designs


@given(st.integers(200, 4000))
@settings(max_examples=20, deadline=None)
def test_passes_are_never_exceeded_and_the_widest_interval_is_the_least_possible(passes):
    components = {
        "quiet": Components(0.5, 0.2, 0.0, 0.02, 0.0, 0.05, 0.6),
        "loud": Components(0.5, 1.2, 0.1, 0.60, 0.2, 1.4, 1.1),
    }
    options = {name: options_of(name, of_set) for name, of_set in components.items()}
    chosen = within_passes(options, passes)
    assert sum(design.passes for design in chosen.values()) <= passes
    least = min(
        max(a.half_width, b.half_width)
        for a, b in product(*options.values())
        if a.passes + b.passes <= passes
    )
    assert max(design.half_width for design in chosen.values()) == pytest.approx(least)


def natural_task(*families, **more):
    test = [{"source": "natural", "family": family, **more} for family in families]
    return Task.from_config("gender", {"test": test}, texts="natural")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        # 48 templates with four people of each of two groups, twice.
        ((48,), "passes=767 are too few: the smallest designs need 768"),
        ((9999,), r"no design for hobbies_test: it has \d+ templates .* smallest takes 9999"),
    ],
)
def test_what_has_no_design_is_refused_before_the_pilot(cells, message, testbed, monkeypatch):
    monkeypatch.setattr("countergen_edit.runs.design.score", None)
    monkeypatch.setattr("countergen_edit.runs.design.DESIGN_CELLS", cells)
    with pytest.raises(UserError, match=message):
        ce.design(testbed, natural_task("hobbies", "traits"), passes=767)


def test_a_task_is_drawn_with_the_sizes_of_its_design(testbed):
    task = natural_task("hobbies")
    designed = ce.design(testbed, task, passes=700)
    [design], [data] = designed.design, designed.test
    assert design.passes == len(data.texts) <= 700
    assert design.templates == len({sample.frame for sample in data.samples})
    assert design.contents == len({sample.content for sample in data.samples})
    assert data.widest == design.people
    fixed = natural_task("hobbies", people=2)
    assert ce.design(testbed, fixed) is fixed


@pytest.mark.parametrize(("family", "is_one"), [("pronouns", True), ("words", False)])
def test_a_set_has_no_more_people_than_there_are(family, is_one, testbed):
    """A pronoun is one person of a group, who has no spread and draws no others."""
    task = ce.design(testbed, natural_task(family))
    [design], [data] = task.design, task.test
    assert (design.people, design.passes) == (data.widest, len(data.texts))
    assert (design.people == 1) is is_one
    assert (design.components["people"] == 0) is is_one
    assert np.isfinite(design.half_width)


@pytest.mark.parametrize("name", ["occupations", "traits", "sentiment"])
def test_one_person_of_a_group_leaves_the_variance_between_prompts(name):
    """Half-widths do not depend on people, and are near those with many people a group."""
    world = replace(WORLDS[name], noise=1e-9)
    one, two = (Components.of(effect_of(world, 48, people)) for people in (1, 2))
    assert one.noise == one.people == 0
    assert one.half_width(48, 24, 48, 1) == one.half_width(48, 24, 48, 8)
    assert one.half_width(48, 24, 48, 1) == pytest.approx(two.half_width(48, 24, 48, 2), rel=1e-3)


def test_shares_removed_are_narrow_where_the_same_prompts_are_scored_twice():
    """An edit that halves every difference of groups, and leaves names as they are."""
    world = WORLDS["occupations"]
    half = replace(world, effect=world.effect / 2)
    shares = [
        removed([effect_of(world, 84, 4, seed)], [effect_of(half, 84, 4, seed)])
        for seed in range(40)
    ]
    assert np.mean([share.lo <= 0.5 <= share.hi for share in shares]) >= 0.85
    assert np.median([(share.hi - share.lo) / 2 for share in shares]) < 0.1
