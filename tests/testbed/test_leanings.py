"""Name leanings: drawn as they are said to be, and integrated over exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax

from countergen_edit.core.errors import UserError
from countergen_edit.testbed import Truth, load_axis, load_truth
from countergen_edit.testbed.truth import NameLeanings

GROUPS = ("female", "male")


@pytest.fixture(scope="module")
def truth() -> Truth:
    return load_truth()


@given(seed=st.integers(0, 10**9), outputs=st.integers(2, 70))
@settings(deadline=None, max_examples=50)
def test_directions_have_mean_0_and_mean_square_1_and_are_orthogonal(
    seed: int, outputs: int
) -> None:
    u, w = NameLeanings(seed, 0.4, 0.3, ("f",)).directions("f", outputs)
    for direction in (u, w):
        assert direction.mean() == pytest.approx(0, abs=1e-9)
        assert np.mean(direction**2) == pytest.approx(1)
    assert u @ w == pytest.approx(0 if outputs > 2 else 2, abs=1e-6)


def test_a_name_brings_one_leaning_to_all_families_and_one_to_each() -> None:
    leanings = NameLeanings(7, 0.4, 0.3, ("f", "g"))
    sizes = {"f": 12, "g": 5}
    strengths = {
        family: np.array(
            [
                leanings.directions(family, size) @ leanings.of(f"name {i}", family, size) / size
                for i in range(1500)
            ]
        )
        for family, size in sizes.items()
    }
    across, within = strengths["f"].T
    np.testing.assert_allclose(across, strengths["g"][:, 0])
    assert across.std() == pytest.approx(0.4, rel=0.05)
    assert within.std() == pytest.approx(0.3, rel=0.05)
    assert abs(np.corrcoef(within, strengths["g"][:, 1])[0, 1]) < 0.05
    assert abs(np.corrcoef(across, within)[0, 1]) < 0.05
    assert abs(across.mean()) < 0.02


def test_a_leaning_depends_on_seed_and_name_only(truth: Truth) -> None:
    again = NameLeanings(truth.seed, 0.4, 0.3, ("traits",))
    np.testing.assert_array_equal(again.of("Jane", "traits", 22), truth.leaning("Jane", "traits"))
    other = NameLeanings(truth.seed + 1, 0.4, 0.3, ("traits",))
    assert not np.allclose(other.of("Jane", "traits", 22), truth.leaning("Jane", "traits"))
    assert not truth.leaning("Jane", "voices").any()
    with pytest.raises(UserError, match="did you mean 'traits'"):
        truth.leaning("Jane", "trait")


def test_the_mean_over_all_names_is_that_of_very_many(truth: Truth) -> None:
    """Planted R and effect by quadrature, against a draw of people by the definition."""
    r, effect = truth.planted_r(GROUPS), truth.planted_effect(GROUPS)
    for family in ("drinks", "double_bind_success", "questions"):
        prompt = truth.of(family, "test")[0]
        u, w = truth.leanings.directions(family, len(prompt.outputs))
        a, b = np.random.default_rng(0).normal(size=(2, 50_000, 1)) * [[[0.4]], [[0.3]]]
        mean_p, mean_log_p = [], []
        for group in GROUPS:
            log_p = log_softmax(np.log(prompt.probability(group)) + a * u + b * w, axis=1)
            mean_p.append(np.exp(log_p).mean(0))
            mean_log_p.append(log_p.mean(0))
        p_a, p_b = mean_p
        items = [(prompt.template, output) for output in prompt.outputs]
        expected = (p_a - p_b) / np.maximum(p_a, p_b)
        np.testing.assert_allclose([r[i] for i in items], expected, atol=4e-3)
        np.testing.assert_allclose(
            [effect[i] for i in items], mean_log_p[0] - mean_log_p[1], atol=4e-3
        )


def test_quadrature_has_converged() -> None:
    leanings = NameLeanings(3, 0.4, 0.3, ("f",))
    log_p = np.log(np.random.default_rng(0).dirichlet(np.ones(20)))
    weights, at_nodes = leanings.population("f", log_p)
    nodes, fine = np.polynomial.hermite_e.hermegauss(80)
    u, w = leanings.directions("f", 20)
    shifts = 0.4 * nodes[:, None, None] * u + 0.3 * nodes[None, :, None] * w
    oracle = np.einsum("i,j,ijk->k", fine, fine, log_softmax(log_p + shifts, axis=2))
    np.testing.assert_allclose(weights @ at_nodes, oracle / fine.sum() ** 2, atol=1e-9)


def test_drinks_differ_between_people_and_not_between_groups(truth: Truth) -> None:
    prompt = truth.of("drinks", "test")[0]
    for planted in (truth.planted_r(GROUPS), truth.planted_effect(GROUPS)):
        assert [planted[prompt.template, o] for o in prompt.outputs] == pytest.approx(
            [0] * len(prompt.outputs)
        )
    spread = np.std([truth.log_p(prompt, "female", f"name {i}") for i in range(1000)], axis=0)
    assert np.sqrt(np.mean(spread**2)) == pytest.approx(0.5, rel=0.05)


def test_the_scores_of_a_set_are_those_of_its_people(truth: Truth) -> None:
    data = truth.counterfactual_set("sentiment", "test", load_axis("gender"))
    scores = truth.scores(data)
    outputs = truth.of("sentiment", "test")[0].outputs
    assert scores.shape == (2 * len(outputs), 2, 60)
    np.testing.assert_allclose(np.exp(scores[: len(outputs)]).sum(axis=0), 1)
    prompt = truth.of("sentiment", "test")[1]
    name = data.samples[1].of("male")[5].name
    np.testing.assert_allclose(
        scores[len(outputs) :, 1, 5], truth.log_p(prompt, "male", name), atol=1e-12
    )
