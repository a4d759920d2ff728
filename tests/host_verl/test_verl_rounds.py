"""Rounds in verl: what a prompt's later rollouts wait for, without Ray or an engine."""

import asyncio
from types import SimpleNamespace

import pytest

pytest.importorskip("verl", reason="verl is not installed; run `make test-verl`")

from omegaconf import OmegaConf
from verl.trainer.ppo.v1 import agent_loop_tq

from podsrl.errors import UnsupportedError
from podsrl.verl import rounds
from podsrl.verl.settings import read_options

OURS = (
    "trainer.v1.trainer_mode=pods_sync",
    "+trainer.v1.pods_sync.m=2",
    "+trainer.v1.pods_sync.rollouts_per_round=4",
    "+trainer.v1.pods_sync.reward_range=[0,1]",
)


class Bed:
    """A worker whose rollouts end when they are told to, with the reward that they are told.

    began: prompt and session of each rollout that was asked of the engine, in order.
    status: of each prompt, as verl published it last.
    """

    def __init__(self, config, patch):
        self.began, self.status, self.told = [], {}, {}
        self.worker = object.__new__(rounds.RoundsWorker)
        self.worker.config = config
        self.worker._pods_options = read_options(config, "pods_sync")
        self.worker._pods_rounds = {}
        patch.setattr(rounds._OfVerl, "_run_agent_loop", self.run_agent_loop)
        patch.setattr(rounds._OfVerl, "_compute_score", self.compute_score)
        patch.setattr(agent_loop_tq.tq, "async_kv_put", self.put)

    async def run_agent_loop(self, sampling_params, trajectory, **kwargs):
        rollout = kwargs["uid"], kwargs["session_id"]
        self.began.append(rollout)
        output = SimpleNamespace(extra_fields={}, reward_score=None)
        output.told = await self.told.setdefault(rollout, asyncio.Future())
        await self.worker._compute_score([output], kwargs=kwargs)

    async def compute_score(self, outputs, kwargs):
        for output in outputs:
            if output.told == "fails":
                raise OSError("the engine is gone")
            output.reward_score = 0.0 if output.told is None else output.told
            output.extra_fields["reward_extra_info"] = {"unscorable": output.told is None}

    async def put(self, key, partition_id, tag):
        self.status[key] = tag["status"]

    async def end(self, uid, **rewards):
        """End rollouts, such as s0=1.0, and let everything run that can."""
        for name, reward in rewards.items():
            self.told.setdefault((uid, int(name[1:])), asyncio.Future()).set_result(reward)
        for _ in range(50):
            await asyncio.sleep(0)

    def run(self, uid, validate=False):
        prompt, trajectory = {"uid": uid}, {"validate": validate}
        return asyncio.ensure_future(self.worker._run_prompt(prompt, {}, trajectory))


@pytest.fixture
def bed(compose, monkeypatch):
    return Bed(compose(*OURS), monkeypatch)


def test_each_prompt_goes_on_by_its_own_first_round_and_waits_for_no_other(bed):
    async def scenario():
        one, other, slow = bed.run("one"), bed.run("other"), bed.run("slow")
        await bed.end("none")
        assert bed.began == [(uid, i) for uid in ("one", "other", "slow") for i in range(4)]
        await bed.end("one", s2=0.0, s0=1.0)
        assert len(bed.began) == 12  # one right and one wrong: the round has not ended yet
        await bed.end("one", s1=1.0, s3=1.0)
        await one
        assert (len(bed.began), bed.status["one"]) == (12, "finished")
        await bed.end("other", s0=0.0, s1=None, s2=0.0, s3=0.0)
        assert bed.began[12:] == [("other", i) for i in range(4, 8)]
        await bed.end("other", s4=0.0, s5=0.0, s6=0.0, s7=0.0)
        await other
        assert not slow.done()
        await bed.end("slow", s0=0.0, s1=1.0, s2=1.0, s3=1.0)
        await slow
        assert (len(bed.began), bed.worker._pods_rounds) == (16, {})

    asyncio.run(scenario())


def test_a_rollout_that_fails_is_no_evidence_and_the_prompt_is_published_as_failed(bed):
    async def scenario():
        prompt = bed.run("one")
        await bed.end("one", s0="fails", s1=0.0, s2=0.0, s3=0.0)
        assert bed.began[4:] == [("one", i) for i in range(4, 8)]
        await bed.end("one", s4=1.0, s5=1.0, s6=1.0, s7=1.0)
        await prompt
        assert bed.status["one"] == "failure"

    asyncio.run(scenario())


def test_an_infinite_reward_leaves_no_rollout_waiting(compose, monkeypatch):
    bed = Bed(compose(*OURS, "+trainer.v1.pods_sync.stop_at=0.95"), monkeypatch)

    async def scenario():
        prompt = bed.run("one")
        await bed.end("one", s0=float("inf"), s1=0.0, s2=0.0, s3=0.0)
        assert bed.began[4:] == [("one", i) for i in range(4, 8)]
        await bed.end("one", s4=1.0, s5=1.0, s6=1.0, s7=1.0)
        await asyncio.wait_for(prompt, 60)  # the update then refuses it

    asyncio.run(scenario())


def test_validation_generates_at_once(bed):
    async def scenario():
        OmegaConf.update(bed.worker.config, "actor_rollout_ref.rollout.val_kwargs.n", 6)
        prompt = bed.run("one", validate=True)
        await bed.end("one", **{f"s{i}": 1.0 for i in range(6)})
        await prompt
        assert len(bed.began) == 6

    asyncio.run(scenario())


def test_the_trainer_gives_verl_the_manager_and_its_workers_the_section(compose):
    config = compose(*OURS)
    rounds.in_rounds(config, "pods_sync")
    found = config.actor_rollout_ref.rollout.agent.agent_loop_manager_class
    assert found == "podsrl.verl.rounds.RoundsManager"
    assert read_options(config, config.trainer.v1[rounds._MODE]).rollouts_per_round == 4


@pytest.mark.parametrize(
    ("mode", "override", "says"),
    [
        ("pods_colocate_async", "trainer.device=cpu", "use pods_sync, or leave it out"),
        ("pods_sync", "reward.reward_model.enable=True", "reward_model.enable_resource_pool=True"),
        (
            "pods_sync",
            "+actor_rollout_ref.rollout.agent.agent_loop_manager_class=mine.Manager",
            "agent_loop_manager_class out",
        ),
    ],
)
def test_where_a_round_has_no_rewards_or_weights_of_its_own_it_is_refused(
    compose, mode, override, says
):
    with pytest.raises(UnsupportedError, match=says):
        rounds.in_rounds(compose(*OURS, override), mode)
