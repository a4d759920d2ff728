"""The one place where something of TRL's is changed while TRL runs."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from trl.trainer import grpo_trainer

MAX_NUM_BATCHED_TOKENS = 4096  # TRL's setting; vLLM refuses a max_num_seqs above it


@contextmanager
def swapped(thing: Any, **values: Any) -> Iterator[None]:
    """Inside, these attributes of `thing` have other values.

    It is used where TRL reads one attribute for two purposes that podsrl has to tell apart:
    * `num_generations`: while TRL's `_generate` makes the rollouts, it asks its engine for n of
      each prompt, with tools for each. Everywhere else it is m, the rows of a prompt in the update.
    * `log_multimodal`: in a batch where some processes have no images TRL would wait for all.
    * `_logs`: while TRL logs, its table of completions is made of kept and dropped rollouts.
    * `VLLMGeneration`: while TRL constructs the trainer, a colocated engine gets room for n rows.
    """
    before = {name: getattr(thing, name) for name in values}
    for name, value in values.items():
        setattr(thing, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(thing, name, value)


def engine_for_rollouts(num_rollouts: int, num_generations: int) -> AbstractContextManager[None]:
    """TRL's trainer, constructed inside, lets a colocated engine decode all n rows at once.

    TRL sets `max_num_seqs` to the rows of the update, so the others would wait for a place.
    """
    original = grpo_trainer.VLLMGeneration

    def construct(**options: Any) -> Any:
        rows = -(-options["max_num_seqs"] * num_rollouts // num_generations)
        options["max_num_seqs"] = min(rows, MAX_NUM_BATCHED_TOKENS)
        return original(**options)

    return swapped(grpo_trainer, VLLMGeneration=construct)
