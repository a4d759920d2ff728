"""Which prompts TRL's next generation is for, where the config asks for a choice by history."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import broadcast_object_list

from podsrl.errors import InvalidInputError
from podsrl.prompts import PromptHistory, choose, resolve_prompt_rule

#: A prompt counts as solved from this posterior mean of its pass rate on.
_SOLVED = 0.9


class PromptChooser:
    """Puts chosen prompts in the place of those that TRL's sampler drew, alike on every rank.

    TRL draws a batch before the rewards of the last one are known, and so its sampler could not
    choose by them. Everything else stays as the sampler laid it out: rows over ranks, gradient
    accumulation, `num_iterations`. An epoch is as many steps as ever, and no pass over the data.
    """

    def __init__(self, rule: str, dataset: Any, seed: int) -> None:
        if not hasattr(dataset, "__len__"):
            raise InvalidInputError(
                f"prompt_selection={rule!r} chooses prompts by their number, and an iterable"
                " dataset has none: load it whole, or leave prompt_selection out"
            )
        self.rule, self.dataset, self.seed = resolve_prompt_rule(rule), dataset, seed
        self.history = PromptHistory.of(len(dataset))
        self._chosen_P = np.zeros(0, dtype=np.int64)

    def rows(self, groups: int, places: range, m: int) -> list[dict[str, Any]]:
        """The rows at these places of a batch that has m of each of so many chosen prompts."""
        chosen = [choose(self.history, groups, self.rule, [self.seed, self.history.step])]
        self._chosen_P = broadcast_object_list(chosen)[0]  # a user's own may differ by rank
        return [dict(self.dataset[int(self._chosen_P[place // m])]) for place in places]

    def count(self, rewards_P_N: torch.Tensor) -> dict[str, float]:
        """Count what the chosen prompts gave; the metrics of it."""
        history, visits = self.history, self.history.visits_D
        predicted = history.expected_rewards()[self._chosen_P].mean()
        history.update(self._chosen_P, rewards_P_N.cpu().double().numpy())
        return {
            "pods/predicted_reward": float(predicted),
            "pods/visits_min": float(visits.min()),
            "pods/visits_median": float(np.median(visits)),
            "pods/visits_max": float(visits.max()),
            "pods/solved_prompts": float(((history.rates() >= _SOLVED) & (visits > 0)).mean()),
        }

    def state_dict(self) -> dict[str, Any]:
        """The history, as a checkpoint keeps it."""
        state = vars(self.history).items()
        return {k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with what `state_dict` gave."""
        given: Any = {k: v.cpu().numpy() if torch.is_tensor(v) else v for k, v in state.items()}
        known, now = len(given["seen_D"]), len(self.dataset)
        if known != now:
            raise InvalidInputError(f"the checkpoint is of {known} prompts, the dataset has {now}")
        self.history = PromptHistory(**given)

    def write(self, folder: Path) -> None:
        """Write prompts.parquet: what is known of each prompt that was visited."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table(self.history.table()), folder / "prompts.parquet")
