"""The questions of `podsrl.hosts`, put to `PODSTrainer` on the tiny model."""

import math
from collections import Counter
from typing import Any

import pytest
from datasets import Dataset

from support.host_suite import HostSuite, SeenStep
from support.trl_runs import count_passed_rows, logged, table_of


class TestTRL(HostSuite):
    spares_passes = True
    least_passes = 1
    eps = 1e-4

    @pytest.fixture(autouse=True)
    def parts(self, make_trainer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.make_trainer = make_trainer
        self.monkeypatch = monkeypatch
        self.runs = 0

    def step(
        self, rewards: Any, m: int, rule: str = "max_variance", baseline: str = "kept"
    ) -> SeenStep:
        order: list[int] = []  # of the prompts, which TRL shuffles

        def given(completions: list[Any], place: list[int], **columns: Any) -> list[float | None]:
            scored: Counter[int] = Counter()
            found: list[float | None] = []
            for prompt in place:
                reward = rewards[prompt][scored[prompt]]
                scored[prompt] += 1
                found.append(None if math.isnan(reward) else reward)
            order.extend(scored)
            return found

        prompts = [
            {"prompt": [{"role": "user", "content": f"{place} + {place}"}], "place": place}
            for place in range(len(rewards))
        ]
        rows = count_passed_rows(self.monkeypatch)
        self.runs += 1
        trainer = self.make_trainer(
            len(rewards[0]),
            name=f"run-{self.runs}",
            reward_funcs=given,
            data=Dataset.from_list(prompts),
            num_generations=m,
            per_device_train_batch_size=m * len(rewards),
            downsampling_rule=rule,
            advantage_baseline=baseline,
            max_completion_length=4,
            max_steps=1,
        )
        trainer.train()

        table = table_of(trainer)
        rows_out: list[dict[int, float]] = [{} for _ in rewards]
        n = len(rewards[0])
        for at, (kept, advantage) in enumerate(zip(table["kept"], table["advantage"], strict=True)):
            if kept:
                rows_out[order[at // n]][at % n] = advantage
        (metrics,) = logged(trainer)
        return SeenStep(rows_out=rows_out, passes=sum(rows), logged=metrics)
