"""Which settings a resumed run has otherwise than before, and what follows from that."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

#: Beginnings of the settings that say where a run writes, what it shows or where it runs, and
#: change nothing that is learned.
_WITHOUT_EFFECT = (
    "arm",
    "ddp_",
    "dataloader_",
    "disable_tqdm",
    "do_",
    "eval_",
    "evaluation",
    "greater_is_better",
    "hub_",
    "include_",
    "load_best_model_at_end",
    "local_rank",
    "log_",
    "logging_",
    "metric_for_best_model",
    "num_completions_to_print",
    "num_generations_eval",
    "output_dir",
    "per_device_eval_batch_size",
    "prediction_loss_only",
    "project",
    "push_to_hub",
    "report_to",
    "restore_callback_states_from_checkpoint",
    "resume",
    "rollout_log",
    "run_name",
    "save_",
    "skip_memory_metrics",
    "torch_empty_cache_steps",
    "trackio_",
    "use_cpu",
    "vllm_gpu_memory_utilization",
    "vllm_server_",
)
#: The length of a run, which matters where the learning rate follows it.
_LENGTH = ("max_steps", "max_training_seconds", "num_train_epochs")
#: Beginnings of the settings that are about the optimiser's step, and not about rollouts.
_OF_THE_OPTIMISER = (
    *_LENGTH,
    "adam_",
    "epsilon",
    "learning_rate",
    "lr_scheduler_",
    "max_grad_norm",
    "optim",
    "warmup_",
    "weight_decay",
)


class Change(NamedTuple):
    """A setting that changes what is learned, before and now."""

    name: str
    before: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.name} {self.before!r} -> {self.now!r}"

    @property
    def concerns_rollouts(self) -> bool:
        """Whether rollouts that were generated before may not be what is trained on now."""
        return not self.name.startswith(_OF_THE_OPTIMISER)


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """The settings with another value now, of those that change what is learned.

    Args:
        before, now: All settings as plain values. A name that one of them lacks is of another
            version, and is left out.

    >>> before, now = {"beta": 0.0, "run_name": "a"}, {"beta": 0.1, "run_name": "b"}
    >>> [str(change) for change in changes(before, now)]
    ['beta 0.0 -> 0.1']
    """
    found = [
        Change(name, before[name], now[name])
        for name in before
        if name in now and before[name] != now[name] and not name.startswith(_WITHOUT_EFFECT)
    ]
    if _is_constant(before) and _is_constant(now):
        found = [change for change in found if change.name not in _LENGTH]
    return found


def concerning_rollouts(found: Sequence[Change]) -> list[Change]:
    """Those of the changes with which rollouts of before can't be trained on."""
    return [change for change in found if change.concerns_rollouts]


def _is_constant(settings: Mapping[str, Any]) -> bool:
    return str(settings.get("lr_scheduler_type", "")).startswith("constant")
