"""Who forgets one of the three lines is told which one, before anything trains."""

import copy
import pickle
from typing import Any

import pytest
import yaml
from datasets import DatasetDict
from transformers import HfArgumentParser
from trl import GRPOConfig, GRPOTrainer

from podsrl.errors import InvalidInputError, RewardError
from podsrl.trl import PODSConfig, PODSTrainer
from support.trl_runs import COMMON, digits

MISSING = r"from podsrl.trl import PODSTrainer"


class OwnConfig(PODSConfig):
    """A user's subclass."""


def construct(trainer: type, args: Any, model: Any, dataset: Any) -> Any:
    return trainer(model=str(model), reward_funcs=digits, args=args, train_dataset=dataset)


@pytest.mark.parametrize("kind", [PODSConfig, OwnConfig])
@pytest.mark.parametrize(
    "fields",
    [{}, {"num_rollouts": 4}, {"num_generations": 1, "downsampling_rule": "max_contrast"}],
)
def test_trls_trainer_refuses_our_config_with_the_missing_line(
    tiny_model, dataset, tmp_path, kind, fields
):
    args = kind(**{**COMMON, "output_dir": str(tmp_path), **fields})
    with pytest.raises(InvalidInputError, match=MISSING):
        construct(GRPOTrainer, args, tiny_model, dataset)
    # the same object is good for ours, twice, and still not for TRL's afterwards
    for _ in range(2):
        assert construct(PODSTrainer, args, tiny_model, dataset).args is args
    with pytest.raises(InvalidInputError, match=MISSING):
        construct(GRPOTrainer, args, tiny_model, dataset)


def test_a_trainer_that_failed_to_be_constructed_leaves_the_config_as_it_was(
    tiny_model, dataset, tmp_path
):
    args = PODSConfig(**{**COMMON, "output_dir": str(tmp_path), "reward_weights": [1.0, 2.0]})
    with pytest.raises(ValueError, match="reward weights"):
        construct(PODSTrainer, args, tiny_model, dataset)
    args.reward_weights = None
    with pytest.raises(InvalidInputError, match=MISSING):
        construct(GRPOTrainer, args, tiny_model, dataset)


def test_trls_config_in_our_trainer_is_refused_too(tiny_model, dataset, tmp_path):
    args = GRPOConfig(**{**COMMON, "output_dir": str(tmp_path)})
    with pytest.raises(InvalidInputError, match=r"needs args=podsrl.trl.PODSConfig"):
        construct(PODSTrainer, args, tiny_model, dataset)


def test_the_config_is_still_copied_saved_and_printed(tmp_path):
    args = PODSConfig(**{**COMMON, "output_dir": str(tmp_path)})
    fields = args.to_dict()
    for same in (copy.deepcopy(args), pickle.loads(pickle.dumps(args)), PODSConfig(**COMMON)):
        same.output_dir = args.output_dir
        same.logging_dir = getattr(args, "logging_dir", None)
        assert same.to_dict() == fields
    assert yaml.safe_load(yaml.safe_dump(args.settings()))["num_rollouts"] == 16
    assert "num_rollouts=16" in repr(args)
    words = ["--output_dir", str(tmp_path), "--num_generations", "4", "--use_cpu", "True"]
    (parsed,) = HfArgumentParser([PODSConfig]).parse_args_into_dataclasses(words)
    assert parsed.num_rollouts == 16


def test_several_datasets_in_one_are_told_by_their_type_and_not_by_their_number(
    make_trainer, dataset
):
    with pytest.raises(InvalidInputError, match=r"is a DatasetDict of train, test; give one of"):
        make_trainer(8, data=DatasetDict(train=dataset, test=dataset))


@pytest.mark.parametrize("size", [1e39, 3e38, 1e25])
def test_rewards_that_float32_cannot_square_are_refused_and_not_trained_on_in_silence(
    make_trainer, size
):
    def large(completions: list[Any], **kwargs: Any) -> list[float]:
        return [size * (i % 2) for i in range(len(completions))]

    with pytest.raises(RewardError, match=r"large gave a reward beyond 1e\+18.* at step 1"):
        make_trainer(8, reward_funcs=large, max_steps=1).train()
