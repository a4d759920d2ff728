"""Arms whose prompts get different numbers of rollouts, which no host gives: for `launch`.

`screen`: two rollouts of each prompt first, the other six where these differ (SPEED-RL, arXiv
2506.09016), for as many prompts as there are rows for.
"""

import runpy
import sys
from typing import Any

import numpy as np
import torch

from podslab.training import run
from podslab.training.lab_trainer import LabTrainer
from podsrl.trl.rollouts import weighted_sums


class UnevenTrainer(LabTrainer):
    """Generates some of the P x N rollouts; the others have no reward, one token, and no cost."""

    def _generate_rollouts(self, groups: int, rows: list[Any], prompts: list[Any]) -> Any:
        self._rows, self._prompts = rows, prompts
        self._made_P_N = np.zeros((groups, len(rows) // groups), dtype=bool)
        return super()._generate_rollouts(groups, rows, prompts)

    def _generate_single_turn(self, prompt_ids: Any, *rest: Any) -> tuple[Any, Any]:
        if self._asked is None:
            return super()._generate_single_turn(prompt_ids, *rest)
        ids: list[Any] = [[self._tokenizer.eos_token_id] for _ in prompt_ids]

        def make(wanted_P_N: Any) -> None:
            places = np.flatnonzero(wanted_P_N & ~self._made_P_N)
            if len(places):
                found, _ = super(UnevenTrainer, self)._generate_single_turn(
                    [prompt_ids[place] for place in places], *rest
                )
                for place, own in zip(places, found, strict=True):
                    ids[place] = own
                self._made_P_N.flat[places] = True

        groups, n = self._made_P_N.shape
        first_P_N = np.broadcast_to(np.arange(n) < 2, (groups, n))
        make(first_P_N)
        texts = self._tokenizer.batch_decode(ids, skip_special_tokens=True)
        said = [[{"role": "assistant", "content": text}] for text in texts]
        rewards_R_F = self._calculate_rewards(self._rows, self._prompts, said, ids).cpu()
        rewards_P_N = weighted_sums(rewards_R_F, self.reward_weights.cpu()).view(groups, n).numpy()
        mixed_P = np.flatnonzero(rewards_P_N[:, 0] != rewards_P_N[:, 1])
        going = mixed_P[: groups * self.selection.num_kept // n]
        self._counted_P_N = np.isin(np.arange(groups), going)[:, None] & np.ones(n, dtype=bool)
        make(self._counted_P_N)
        return ids, None

    def _gathered(self, groups: int, columns: Any, rewards_R_F: torch.Tensor) -> Any:
        left_out_R_1 = torch.from_numpy(~self._counted_P_N.reshape(-1, 1))
        rewards_R_F = rewards_R_F.masked_fill(left_out_R_1, torch.nan)
        return super()._gathered(groups, columns, rewards_R_F)

    def _finish(self, output: dict[str, Any]) -> None:
        super()._finish(output)
        self.rollouts_generated -= int((~self._made_P_N).sum())


def main() -> None:
    """Run the module that follows -m, with this trainer for the arms that name it."""
    if sys.argv[-2].endswith("-screen"):  # the arm
        run.LabTrainer = UnevenTrainer  # type: ignore[misc]
    sys.argv = sys.argv[2:]  # after this file and -m
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
