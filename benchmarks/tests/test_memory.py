"""The formula of a step's memory, and the page of what was measured."""

import pytest

from benchmarks.speed.memory import Formula, Measured, all_settings, errors, formulas, page


def made(n: int, m: int, length: int, *, lora: bool = False, scorer: bool = False) -> Measured:
    """A step whose memory follows the formula: 100 + n (1 + t), 50 + m (20 + 4 t)."""
    tokens = 32 + length
    return Measured(
        n=n,
        m=m,
        length=length,
        lora=lora,
        reward_model=scorer,
        generating=100.0 + n * (1 + tokens),
        updating=50.0 + m * (20 + 4 * tokens),
    )


MEASURED = [
    made(
        setting["n"],
        setting["m"],
        setting["length"],
        lora=setting["lora"],
        scorer=setting["reward_model"],
    )
    for setting in all_settings()
]


def test_the_formula_is_found_in_grpos_steps_and_foresees_those_of_pods():
    generating, updating = formulas(MEASURED, lora=False)
    for found, known in ((generating, Formula(100, 1, 1)), (updating, Formula(50, 20, 4))):
        assert vars(found) == pytest.approx(vars(known))
    assert abs(errors(MEASURED)).max() < 1e-9


def test_a_step_of_another_size_is_told_by_its_error():
    other = [*MEASURED, made(64, 8, 64)]
    other[-1] = Measured(**{**vars(other[-1]), "generating": 2 * other[-1].generating})
    assert abs(errors(other)).max() == pytest.approx(0.5)


def test_the_page_has_each_step_and_what_it_saves():
    text = page(MEASURED)
    assert "64 → 8" in text
    assert "within 0.0 %, and GRPO" in text
    assert text.count("| LoRA |") == 7
