"""What people override on TRL's trainer, and what they set on it, as their public code shows them.

Each class is put in front of TRL's trainer or of podsrl's.
"""

from typing import Any

import torch
from transformers import TrainerCallback


class NegatedRewards:
    """The place that TRL's maintainers name for rewards of one's own (TRL#3620, #4343)."""

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        return -super()._calculate_rewards(*args, **kwargs)  # type: ignore[misc]


class RankedRewards:
    """Rewards of a whole group: each rollout's rank among those of its prompt."""

    def _calculate_rewards(self, inputs: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        rewards = super()._calculate_rewards(inputs, *args, **kwargs)  # type: ignore[misc]
        prompts = [str(row["prompt"]) for row in inputs]
        ranked = torch.empty_like(rewards)
        for prompt in set(prompts):
            own = [i for i, other in enumerate(prompts) if other == prompt]
            ranked[own] = rewards[own].argsort(dim=0).argsort(dim=0).to(rewards)
        return ranked


class AdvantagesByLength:
    """CoRPO and others (TRL#5126): advantages of one's own, also where all rewards are equal."""

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)  # type: ignore[misc]
        lengths = output["completion_mask"].sum(dim=1).float()
        output["advantages"] = lengths / 20 - 0.87  # 0 of none
        return output  # type: ignore[no-any-return]


class DoubledAdvantages:
    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)  # type: ignore[misc]
        assert len(inputs) == len(output["advantages"])  # a row of the dataset for each
        output["advantages"] = output["advantages"] * 2
        return output  # type: ignore[no-any-return]


class AdvantagesOfTokens:
    """One for each token, which differ in their number between processes."""

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)  # type: ignore[misc]
        mask = output["completion_mask"]
        output["advantages"] = output["advantages"].unsqueeze(1) * mask
        return output  # type: ignore[no-any-return]


class DoubledInputs:
    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        inputs = super()._prepare_inputs(generation_batch)  # type: ignore[misc]
        return {**inputs, "advantages": inputs["advantages"] * 2}


class DoubledLoss:
    def _compute_loss(self, model: Any, inputs: Any) -> torch.Tensor:
        return 2 * super()._compute_loss(model, inputs)  # type: ignore[misc, no-any-return]


class DoubledLossOutside:
    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        loss = super().compute_loss(model, inputs, *args, **kwargs)  # type: ignore[misc]
        return 2 * loss  # type: ignore[no-any-return]


class LongerTexts:
    """What the model wrote is changed before it is scored."""

    def _generate(self, prompts: Any) -> tuple[Any, ...]:
        output = list(super()._generate(prompts))  # type: ignore[misc]
        output[3] = [[{**m, "content": m["content"] + "777"} for m in c] for c in output[3]]
        return tuple(output)


class Untouched:
    """Methods that look on: nothing may change by them, and each must be called."""

    called: set[str]

    def _look(self, name: str) -> None:
        self.called = getattr(self, "called", set()) | {name}

    def _generate_single_turn(self, *args: Any, **kwargs: Any) -> Any:
        self._look("_generate_single_turn")
        return super()._generate_single_turn(*args, **kwargs)  # type: ignore[misc]

    def _tokenize_prompts(self, *args: Any, **kwargs: Any) -> Any:
        self._look("_tokenize_prompts")
        return super()._tokenize_prompts(*args, **kwargs)  # type: ignore[misc]

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        self._look("_get_per_token_logps_and_entropies")
        return super()._get_per_token_logps_and_entropies(*args, **kwargs)  # type: ignore[misc]

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        self._look("training_step")
        return super().training_step(*args, **kwargs)  # type: ignore[misc]

    def _get_train_sampler(self, *args: Any, **kwargs: Any) -> Any:
        self._look("_get_train_sampler")
        return super()._get_train_sampler(*args, **kwargs)  # type: ignore[misc]

    def create_optimizer(self, *args: Any, **kwargs: Any) -> Any:
        self._look("create_optimizer")
        return super().create_optimizer(*args, **kwargs)  # type: ignore[misc]

    def log(self, logs: Any, *args: Any, **kwargs: Any) -> None:
        self._look("log")
        logs["mine"] = 1.0
        super().log(logs, *args, **kwargs)  # type: ignore[misc]


#: All of them, and what does the same without overriding anything: another reward function by its
#: name, or the factor of the learning rate of plain SGD.
MIXINS: dict[type, dict[str, Any]] = {
    NegatedRewards: {"reward": "negated"},
    RankedRewards: {"reward": "ranked"},
    AdvantagesByLength: {},  # by no setting
    DoubledAdvantages: {"rate": 2.0},
    DoubledInputs: {"rate": 2.0},
    DoubledLoss: {"rate": 2.0},
    DoubledLossOutside: {"rate": 2.0},
    LongerTexts: {"reward": "longer"},
    Untouched: {"rate": 1.0},
}


class SetInTheRun(TrainerCallback):
    """Sets attributes of the trainer, or of its args, at the end of a step.

    Args:
        after: The step.
        values: By the attribute's name; "args.seed" is one of the args.
    """

    def __init__(self, after: int, values: dict[str, Any]) -> None:
        self.after = after
        self.values = values
        self.trainer: Any = None  # set once it is constructed

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step != self.after:
            return
        for name, value in self.values.items():
            owner, _, attribute = name.rpartition(".")
            setattr(self.trainer.args if owner else self.trainer, attribute, value)
