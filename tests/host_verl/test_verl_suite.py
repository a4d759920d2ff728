"""The questions of `podsrl.hosts`, put to verl's trainer on a real TransferQueue."""

import pytest

pytest.importorskip("verl", reason="verl is not installed; run `nox -s verl`")

from podsrl.verl.groups import parse_key
from support.host_suite import HostSuite, SeenStep


class TestVerl(HostSuite):
    spares_passes = True
    least_passes = 1

    @pytest.fixture(autouse=True)
    def parts(self, make_trainer, put, transfer_queue):
        self.make_trainer = make_trainer
        self.put = put
        self.queue = transfer_queue

    def step(self, rewards, **options):
        trainer = self.make_trainer(
            "trainer.v1.trainer_mode=pods_sync",
            "actor_rollout_ref.actor.use_dynamic_bsz=True",
            *(f"+trainer.v1.pods_sync.{name}={value}" for name, value in options.items()),
        )
        reward_of = {
            f"{prompt}_{place}_0": reward
            for prompt, group in enumerate(rewards)
            for place, reward in enumerate(group)
        }
        batch = trainer._balance_batch(self.put(reward_of), metrics := {})
        passes = len(batch)
        trainer._compute_advantage(batch, {})

        rows_out = [{} for _ in rewards]
        for key, advantage in self.advantages(trainer, batch).items():
            prompt, place, _ = parse_key(key)
            rows_out[int(prompt)][place] = advantage
        return SeenStep(rows_out=rows_out, passes=passes, logged=metrics)

    def advantages(self, trainer, batch):
        """Of every kept row; those of the queue are scaled where passes are spared."""
        if passes := trainer._pods_passes():
            return {row.key: row.advantage for row in passes.rows}
        data = self.queue.kv_batch_get(
            keys=batch.keys, partition_id="train", select_fields=["advantages"]
        )
        return {
            key: row[0].item()
            for key, row in zip(batch.keys, data["advantages"].unbind(), strict=True)
        }
