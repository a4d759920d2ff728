"""`prompt_selection`: TRL generates for the prompts that a rule chooses by their history."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from podsrl.errors import InvalidInputError, UnknownNameError
from podsrl.trl import PODSConfig
from podsrl.trl.prompts import PromptChooser
from support.trl_runs import equal, logged, straight_and_resumed, table_of, weights

FIELDS = {"downsampling_rule": "max_contrast", "num_generations": 1, "prompt_selection": "thompson"}


def some_differ(completions: list[Any], prompts: list[Any], **_: Any) -> list[float]:
    """Only prompts of an odd first digit have rollouts that differ in their reward."""
    texts = [prompt[-1]["content"] for prompt in prompts]
    firsts = [next(ch for ch in text if ch.isdigit()) for text in texts]
    return [float(i % 2) if first in "13579" else 0.0 for i, first in enumerate(firsts)]


@pytest.mark.slow
def test_prompts_with_contrast_are_generated_for_and_the_others_are_not_forgotten(
    make_trainer, dataset
):
    data = dataset.select(range(16))
    fields = {**FIELDS, "per_device_train_batch_size": 4, "max_steps": 16, "data": data}
    trainer = make_trainer(4, reward_funcs=some_differ, **fields)
    trainer.train()
    log = logged(trainer)
    texts = [str(prompt[-1]["content"]) for prompt in data["prompt"]]
    odd = np.array([next(c for c in text if c.isdigit()) in "13579" for text in texts])
    visits = trainer.prompts.history.visits_D
    assert visits.sum() == 16 * 4
    assert visits.min() >= 1
    assert visits[odd].mean() > 1.5 * visits[~odd].mean()
    late = [table_of(trainer, step) for step in (14, 15, 16)]
    spread = [t.groupby("group").reward.std().gt(0).mean() for t in late]
    assert np.mean(spread) > odd.mean()
    assert log[-1]["pods/visits_max"] == visits.max()
    assert 0 < log[-1]["pods/predicted_reward"] < 1
    table = pq.read_table(Path(trainer.args.output_dir) / "prompts.parquet").to_pydict()
    assert table["visits"] == visits.tolist()
    assert table["prompt"] == list(range(16))


@pytest.mark.slow
@pytest.mark.parametrize("more", [{"num_iterations": 2}, {"gradient_accumulation_steps": 2}])
def test_a_resumed_run_chooses_as_an_uninterrupted_one(make_trainer, more):
    straight, second = straight_and_resumed(make_trainer, 4, **FIELDS, **more)
    assert equal(weights(straight), weights(second))
    for name, value in vars(straight.prompts.history).items():
        assert np.array_equal(value, getattr(second.prompts.history, name)), name


def test_a_run_does_not_go_on_with_other_prompts(dataset):
    state = PromptChooser("thompson", dataset, seed=0).state_dict()
    with pytest.raises(InvalidInputError, match="of 64 prompts, the dataset has 16"):
        PromptChooser("thompson", dataset.select(range(16)), seed=0).load_state_dict(state)


def test_what_can_not_be_chosen_from_is_refused_in_one_line(make_trainer, dataset):
    stream = dataset.to_iterable_dataset()
    with pytest.raises(InvalidInputError, match="iterable dataset has none: load it whole"):
        make_trainer(4, data=stream, **FIELDS)
    with pytest.raises(UnknownNameError, match="did you mean 'thompson'"):
        PODSConfig(output_dir="out", prompt_selection="tompson", use_cpu=True, bf16=False)
