"""What `PODSTrainer` is given is checked before TRL constructs anything."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podsrl.errors import InvalidInputError
from podsrl.trl.check_data import check_prompts
from podsrl.trl.config import PODSConfig


def check_arguments(args: Any, reward_funcs: Any, environments: Any, dataset: Any) -> None:
    """Refuse arguments of `PODSTrainer` that would fail later, or train on something else.

    Args:
        args: The config.
        reward_funcs: A reward function or a list of them; environments may add their own.
        environments: TRL's `environment_factory`, or None.
        dataset: The training dataset, or None.

    Raises:
        InvalidInputError: What is wrong, what is allowed, and what to do.
    """
    if not isinstance(args, PODSConfig):
        raise InvalidInputError(
            f"PODSTrainer needs args=podsrl.trl.PODSConfig(...), got {type(args).__name__};"
            " PODSConfig takes every field of GRPOConfig"
        )
    if isinstance(dataset, Mapping):
        raise InvalidInputError(
            f"train_dataset is a {type(dataset).__name__} of {', '.join(map(str, dataset))}; give"
            " one of its datasets, such as train_dataset=dataset['train']"
        )
    _check_are_functions(reward_funcs, environments)
    _check_dataset_has_prompts(dataset, environments)
    _check_number_of_prompts(args, dataset)
    _check_stream(args, dataset)
    if environments is None:
        _check_selection_weights(args, reward_funcs)


def _check_are_functions(reward_funcs: Any, environments: Any) -> None:
    """Functions, or reward models, which TRL loads where it is given a name."""
    if isinstance(reward_funcs, tuple | Mapping):
        raise InvalidInputError(
            f"reward_funcs is a {type(reward_funcs).__name__}; give a function, or a list of them"
        )
    functions = reward_funcs if isinstance(reward_funcs, list) else [reward_funcs]
    if environments is None and (reward_funcs is None or not functions):
        raise InvalidInputError("there is no reward function: give reward_funcs one, or a list")

    for function in functions if reward_funcs is not None else ():
        if isinstance(function, str):
            if "/" not in function and not Path(function).is_dir():
                raise InvalidInputError(
                    f"reward_funcs has the text {function!r}, which is the name of a reward model"
                    " to TRL, and such a name is 'owner/model' or a folder that is there; of a"
                    " function give the function itself: import it"
                )
        elif not callable(function):
            raise InvalidInputError(
                f"reward_funcs has {function!r:.80}, and must have functions: give the function"
                " itself, not what it returns"
            )


def _check_dataset_has_prompts(dataset: Any, environments: Any) -> None:
    """Without a column of prompts, environments have them: `reset` returns each."""
    columns = getattr(dataset, "column_names", None) or ()
    if environments is None or "prompt" in columns:
        check_prompts(dataset, "train_dataset")


def _check_number_of_prompts(args: PODSConfig, dataset: Any) -> None:
    prompts = int(args.generation_batch_size or 0) // int(args.num_generations or 1)
    if not hasattr(dataset, "__len__") or len(dataset) >= prompts:
        return
    raise InvalidInputError(
        f"train_dataset has {len(dataset)} prompts, and one generation takes {prompts} (rows /"
        " num_generations): TRL would train on nothing. Give more prompts, lower"
        " per_device_train_batch_size or gradient_accumulation_steps, or raise num_generations"
    )


def _check_stream(args: PODSConfig, dataset: Any) -> None:
    """Refuse a stream of which TRL would train on some prompts several times, and never on others.

    With a part or more for each process, each one reads parts of its own, so they must be as many
    for each, and a group must lie within what a process reads at once.

    What it reads are blocks of as many batches as there are processes, and each block is repeated
    R = num_iterations x steps_per_generation times. TRL generates for every R-th batch. Of a block
    these are all batches, each once, where R and the number of processes have no common divisor.
    """
    parts = getattr(dataset, "num_shards", 0)
    if hasattr(dataset, "__len__") or not 1 < args.world_size <= parts:
        return

    steps = int(args.steps_per_generation or 1)
    rows_of_process = args.per_device_train_batch_size * steps
    repeats_some = math.gcd(args.num_iterations * steps, args.world_size) > 1
    cuts_groups = rows_of_process % int(args.num_generations or 1) != 0
    if repeats_some or cuts_groups or parts % args.world_size:
        raise InvalidInputError(
            f"train_dataset is streamed in {parts} parts to {args.world_size} processes: TRL would"
            " train on some of its prompts several times and never see others. Load it whole, or"
            " stream it in fewer parts than processes"
        )


def _check_selection_weights(args: PODSConfig, reward_funcs: Any) -> None:
    functions = len(reward_funcs) if isinstance(reward_funcs, list) else 1
    weights = args.selection_weights
    if weights is not None and len(weights) != functions:
        raise InvalidInputError(
            f"selection_weights has {len(weights)} numbers for {functions} reward functions;"
            " give one for each, in their order, environments' own rewards last"
        )
