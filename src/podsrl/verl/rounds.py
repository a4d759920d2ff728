"""Rounds in verl: a prompt's later rollouts wait for the rewards of its first ones.

verl's worker runs the n sessions of a prompt as tasks. The first r run at once. The others wait
until these have their rewards, and then run too, or end without a row where they can't help. No
prompt waits for another, so the engine stays full.
"""

import asyncio
import math
from typing import Any

import numpy as np
import ray
from omegaconf import OmegaConf, open_dict
from verl.trainer.ppo.v1 import AgentLoopManagerTQ, AgentLoopWorkerTQ

from podsrl.downsampling import can_improve
from podsrl.errors import UnsupportedError
from podsrl.options import Options
from podsrl.verl.settings import read_options

_MANAGER = "actor_rollout_ref.rollout.agent.agent_loop_manager_class"
_MODE = "pods_mode"  # under trainer.v1: the section that workers read


def in_rounds(config: Any, mode: str) -> None:
    """Let verl generate in rounds, as the section of this mode says.

    Raises:
        UnsupportedError: a mode or a setting of verl's with which a round has no rewards, or
            weights of its own.
    """
    name = f"trainer.v1.{mode}.rollouts_per_round"
    if mode != "pods_sync":
        raise UnsupportedError(
            f"{name}: in this mode the weights may change between two rounds of a prompt, whose"
            " rollouts are then not alike; use pods_sync, or leave it out"
        )
    model = config.reward.reward_model
    if model.enable and not model.enable_resource_pool:
        raise UnsupportedError(
            f"{name} needs rewards while others generate; a colocated reward model gives them"
            " afterwards. Set reward.reward_model.enable_resource_pool=True, or leave it out"
        )
    if OmegaConf.select(config, _MANAGER):
        raise UnsupportedError(f"{name} has a manager of its own; leave {_MANAGER} out")
    with open_dict(config):
        OmegaConf.update(config, _MANAGER, f"{__name__}.RoundsManager")
        config.trainer.v1[_MODE] = mode


# verl's worker, without the actor that Ray makes of it
_OfVerl: Any = AgentLoopWorkerTQ.__ray_metadata__.modified_class.__ray_actor_class__


class FirstRound:
    """The rewards of a prompt's first r rollouts, and whether the others are needed.

    Args:
        options: of the selection.
        n: rollouts at most.
    """

    def __init__(self, options: Options, n: int) -> None:
        self.options = options
        self.size = int(options.rollouts_per_round or n)
        self.scores_N = np.full(n, math.nan)
        self._running = self.size
        self._decided: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def score(self, session: int, reward: float, parts: dict[str, Any]) -> None:
        """Note the reward of a rollout; NaN where it could not be scored."""
        reward = math.nan if parts.get("unscorable") else float(reward)
        self.scores_N[session] = self.options.selected_by(reward, parts)

    def end(self) -> None:
        """One of the first r has ended, with a reward or without; the last one decides."""
        self._running -= 1
        if self._running == 0:
            options = self.options
            low, high = options.reward_range or ()
            # an infinite reward is refused where the update is made, not in this process
            scores_1_N = np.where(np.isinf(self.scores_N), math.nan, self.scores_N)[None]
            open_P = can_improve(scores_1_N, options.m, (low, high), options.stop_at)
            self._decided.set_result(bool(open_P[0]))

    async def goes_on(self) -> bool:
        """Whether the other rollouts can help, once that is known."""
        return await asyncio.shield(self._decided)


class RoundsWorker(_OfVerl):
    """verl's worker of agent loops, for prompts in rounds; validation is left as it is."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._pods_options = read_options(self.config, self.config.trainer.v1[_MODE])
        self._pods_rounds: dict[str, FirstRound] = {}

    async def _run_prompt(
        self, prompt: dict[str, Any], sampling_params: Any, trajectory: Any, trace: bool = False
    ) -> None:
        uid = prompt["uid"]
        if not trajectory["validate"]:
            n = self.config.actor_rollout_ref.rollout.n
            self._pods_rounds[uid] = FirstRound(self._pods_options, n)
        try:
            await super()._run_prompt(prompt, sampling_params, trajectory, trace)
        finally:
            self._pods_rounds.pop(uid, None)

    async def _run_agent_loop(self, *args: Any, **kwargs: Any) -> Any:
        first = self._pods_rounds.get(kwargs["uid"])
        if first is None:
            return await super()._run_agent_loop(*args, **kwargs)
        if kwargs["session_id"] >= first.size:
            if await first.goes_on():
                return await super()._run_agent_loop(*args, **kwargs)
            return None
        try:
            return await super()._run_agent_loop(*args, **kwargs)
        finally:
            first.end()

    async def _compute_score(self, outputs: list[Any], kwargs: dict[str, Any]) -> None:
        await super()._compute_score(outputs, kwargs=kwargs)
        first = self._pods_rounds.get(kwargs["uid"])
        if first is not None:
            fields = outputs[-1].extra_fields or {}
            parts = dict(fields.get("reward_extra_info") or {})
            first.score(kwargs["session_id"], outputs[-1].reward_score, parts)


class RoundsManager(AgentLoopManagerTQ):
    """verl's manager of agent loops with `RoundsWorker`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = ray.remote(RoundsWorker)
