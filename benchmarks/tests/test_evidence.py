"""benchmarks/evidence: the fit on gradients whose variances are known, and its page."""

import numpy as np
import pytest

from podsrl.errors import InvalidInputError


def gradients_with(between, within, prompts, weights, right, wrong):
    """Gradients of two halves of each prompt, which share a direction of length 1.

    Beside it a prompt has a part of its own of this variance, in both halves, and each half has
    noise, of `within` times 1 / right rows + 1 / wrong rows.
    """
    random = np.random.default_rng(0)
    shared_D = random.normal(size=weights) / weights**0.5
    own_P_1_D = random.normal(size=(prompts, 1, weights)) * (between / weights) ** 0.5
    noise_P_2_D = random.normal(size=(prompts, 2, weights)) * (within / weights) ** 0.5
    scale_P_2_1 = ((1 / right + 1 / wrong) ** 0.5)[..., None]
    return shared_D + own_P_1_D + noise_P_2_D * scale_P_2_1


def test_the_fit_recovers_what_prompts_share_and_what_they_do_not():
    pytest.importorskip("trl")
    from benchmarks.evidence.variances import fit_variances

    prompts = 250
    right, wrong = np.random.default_rng(1).integers(1, 8, size=(2, prompts, 2))
    rows = np.stack([right, wrong], axis=2)
    gradients = gradients_with(6.0, 20.0, prompts, 500, right, wrong)

    found = fit_variances(3.0 * gradients, rows, resamples=200)  # their length does not matter
    for name, truth in (("between", 6.0), ("within", 20.0)):
        fitted, low, high = found[name]
        assert fitted == pytest.approx(truth, rel=0.1)
        assert low < truth < high


def test_prompts_that_share_no_direction_and_single_prompts_have_no_variances():
    pytest.importorskip("trl")
    from benchmarks.evidence.variances import fit_variances

    rows = np.ones((2, 2, 2), dtype=int)
    gradient_2_D = np.ones((2, 50))
    with pytest.raises(InvalidInputError, match="share no direction"):
        fit_variances(np.array([gradient_2_D, -gradient_2_D]), rows)
    with pytest.raises(InvalidInputError, match="at least 2"):
        fit_variances(np.array([gradient_2_D]), rows[:1])


def test_the_page_of_predictions_is_what_its_command_writes():
    from benchmarks.evidence import foreseen

    assert foreseen.page() == foreseen.PAGE.read_text(encoding="utf-8")
