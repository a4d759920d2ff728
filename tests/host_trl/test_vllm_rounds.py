"""Rounds with vLLM: no prompt waits for another. TRL's own code on a recording engine."""

import json
from pathlib import Path
from threading import Event, Lock
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("trl")
pytest.importorskip("requests")  # TRL's client of a vLLM server

from podsrl.errors import RewardError
from podsrl.trl import vllm
from support import vllm_stand_in
from support.torchrun import torchrun
from support.trl_runs import logged, trained_rows

WORKER = str(Path(__file__).with_name("vllm_worker.py"))
#: Four prompts per step, all of the dataset.
IN_ROUNDS: dict[str, Any] = {
    "use_vllm": True, "rollouts_per_round": 6, "reward_range": [0, 1], "max_steps": 1,
    "per_device_train_batch_size": 16,
}  # fmt: skip


def half_of_some(known: list[Any]) -> Any:
    """A reward function: every other rollout of the known prompts is right, the others' wrong."""

    def reward(prompts: list[Any], log_metric: Any, **kwargs: Any) -> list[float]:
        rewards = [float(prompt in known and i % 2) for i, prompt in enumerate(prompts)]
        log_metric("right", sum(rewards) / len(rewards))
        return rewards

    return reward


def assert_rows_are_of_their_prompts(trainer: Any, sampler: vllm_stand_in.Sampler) -> Any:
    """Every generated row stands with the prompt that it was made for; first rounds in the log."""
    batch = trainer._batch
    ids = [batch.rollouts[name] for name in ("prompt_ids", "completion_ids")]
    rows = [(tuple(p), tuple(c)) for p, c in zip(*ids, strict=True) if c is not None]
    assert len(rows) == int(batch.generated_P_N.sum()) == len({c for _, c in rows})
    for prompt, completion in rows:
        assert sampler.prompt_of[completion] == prompt
    (entry,) = logged(trainer)
    assert entry["num_tokens"] == sum(len(p) + len(c) for p, c in rows)
    assert entry["pods/tokens_generated"] == entry["num_tokens"]
    first = [len(c) for i, c in enumerate(ids[1]) if i % batch.n < batch.first]
    assert entry["completions/mean_length"] == pytest.approx(sum(first) / len(first))
    assert entry["pods/rollouts_saved"] == pytest.approx(1 - len(rows) / (batch.groups * batch.n))
    return entry


def test_a_colocated_engine_gets_a_prompts_next_round_while_others_are_in_their_first(
    make_trainer, stand_in, dataset
):
    data = dataset.select(range(4))
    known = half_of_some([data[0]["prompt"]])
    trainer = make_trainer(
        10, vllm_mode="colocate", reward_funcs=known, data=data, vllm_enable_sleep_mode=True,
        **IN_ROUNDS,
    )  # fmt: skip
    llm = trainer.vllm_generation.llm
    llm.llm_engine.lasting = [1, 1, 1, 9]
    rows = trained_rows(trainer)
    log = llm.llm_engine.log
    prompts = [prompt for _, prompt, _ in log[:4]]
    assert [(what, n) for what, _, n in log[:4]] == [("asked", 6)] * 4
    asked_again = [prompt for what, prompt, n in log if (what, n) == ("asked", 4)]
    assert len(asked_again) == 3
    for quick in prompts[:3]:
        if quick in asked_again:
            assert log.index(("ended", quick, 4)) < log.index(("ended", prompts[3], 6))
    assert llm.calls == []
    assert llm.slept == 2  # at construction, and once after all rounds
    assert len(rows) == 16
    for ids, logprob in rows:
        assert logprob == pytest.approx(llm.logprob_of[ids], abs=1e-6)
    entry = assert_rows_are_of_their_prompts(trainer, llm)
    assert entry["reward"] == entry["right"] == pytest.approx(3 / 24)
    assert entry["pods/rollouts_saved"] == pytest.approx(4 / 40)


def waiting_for_second_rounds(server: vllm_stand_in.Server) -> list[bool]:
    """The last of four first rounds is not answered until two second ones are asked for.

    Was it, within 30 seconds? Known when it has been answered.
    """
    others_went_on = Event()
    waited: list[bool] = []
    answer = server.answer

    def one_is_slow(path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path == "/v1/completions":
            with lock:
                firsts.append(body["n"] == 6)
                last_of_first_round = firsts.count(True) == 4 and body["n"] == 6
                if firsts.count(False) == 2:
                    others_went_on.set()
            if last_of_first_round:
                waited.append(others_went_on.wait(timeout=30))
        return answer(path, body)

    lock, firsts = Lock(), []
    server.answer = one_is_slow
    return waited


def test_a_server_gets_a_prompts_next_round_while_others_are_in_their_first(
    make_trainer, server, dataset
):
    data = dataset.select(range(4))
    waited = waiting_for_second_rounds(server)
    known = half_of_some([data[0]["prompt"]])
    trainer = make_trainer(
        10, vllm_mode="server", vllm_server_base_url=server.url, reward_funcs=known, data=data,
        **IN_ROUNDS,
    )  # fmt: skip
    rows = trained_rows(trainer)
    assert waited == [True]  # its first round ended after others had asked for their second
    assert (
        sorted((len(r["prompt"]), r["n"]) for r in server.requests) == [(1, 4)] * 3 + [(1, 6)] * 4
    )
    assert len(rows) == 16
    for ids, logprob in rows:
        assert logprob == pytest.approx(server.logprob_of[ids], abs=1e-6)
    assert_rows_are_of_their_prompts(trainer, server)


def test_a_colocated_engine_stands_still_for_few_calls_of_the_reward_functions(
    make_trainer, stand_in
):
    calls: list[int] = []

    def reward(completions: list[Any], **kwargs: Any) -> list[float]:
        calls.append(len(completions))
        return [0.0] * len(completions)

    fields = {**IN_ROUNDS, "per_device_train_batch_size": 64}
    trainer = make_trainer(10, vllm_mode="colocate", reward_funcs=reward, **fields)
    trainer.vllm_generation.llm.llm_engine.lasting = [1 + i for i in range(16)]
    trainer.train()
    # a quarter of the first rounds that are left: 4 of 16, 3 of 12, ...; all second ones at the end
    assert calls == [6 * prompts for prompts in (4, 3, 3, 2, 1, 1, 1, 1)] + [4 * 16]


def test_images_are_not_sent_to_the_server_again_for_what_has_been_generated():
    sent: list[Any] = []

    class Client:
        def image_features(self, images: list[Any]) -> list[Any]:
            sent.append(images)
            return ["features"] * len(images)

        def generate(self, prompts: list[Any], n: int, features: Any = None) -> dict[str, Any]:
            assert features == ["features"]
            return {"prompt_ids": prompts, "completion_ids": [prompts[0] * 2] * n, "logprobs": None}

    def generate(prompts: list[Any], images: list[Any]) -> dict[str, Any]:
        features = client.image_features(images)
        assert features == [None if already else "features"] * len(images)
        return client.generate(prompts=prompts, n=2, features=features)

    client, already = Client(), False
    generation = SimpleNamespace(
        mode="server", vllm_client=client, generate=generate, accelerator=None
    )

    def ended(prompts: list[int], first: bool) -> list[int]:
        nonlocal already
        already = True
        found = generation.generate(prompts=[[i] for i in prompts], images=["image"] * len(prompts))
        assert found["completion_ids"] == [
            [i, i] for i in prompts for _ in range(2 if first else 3)
        ]
        return prompts if first else []

    with vllm.as_prompts_end(generation, 3, ended):
        found = generation.generate(prompts=[[0], [1]], images=["image"] * 2)
    assert found["prompt_ids"] == [[0], [1]]
    assert found["completion_ids"] == [[0, 0]] * 2 + [[1, 1]] * 2
    assert sent == [["image"] * 2]


def test_a_prompt_that_follows_itself_has_rounds_of_its_own(make_trainer, stand_in, dataset):
    data = dataset.select([0] * 4)
    trainer = make_trainer(
        10, vllm_mode="colocate", reward_funcs=half_of_some([]), data=data, **IN_ROUNDS
    )
    trainer.train()
    engine = trainer.vllm_generation.llm.llm_engine
    assert [n for what, _, n in engine.log if what == "asked"] == [6] * 4 + [4] * 4
    assert_rows_are_of_their_prompts(trainer, trainer.vllm_generation.llm)


def test_where_rewards_have_no_known_range_all_prompts_wait_for_the_first_round(
    make_trainer, stand_in
):
    fields = {**IN_ROUNDS, "reward_range": None, "stop_at": 0.9}
    trainer = make_trainer(10, vllm_mode="colocate", reward_funcs=half_of_some([]), **fields)
    trainer.train()
    llm = trainer.vllm_generation.llm
    assert [[n for _, n in call] for call in llm.calls] == [[6] * 4, [4] * 4]
    assert llm.llm_engine.log == []


def no_judge(**kwargs: Any) -> list[float]:
    raise ValueError("no judge")


def test_after_a_reward_function_failed_the_engine_has_nothing_left_to_do(make_trainer, stand_in):
    trainer = make_trainer(10, vllm_mode="colocate", reward_funcs=no_judge, **IN_ROUNDS)
    trainer.vllm_generation.llm.llm_engine.lasting = [1, 9, 9, 9]
    with pytest.raises(RewardError, match="no judge"):
        trainer.train()
    assert trainer.vllm_generation.llm.llm_engine.running == {}


def test_after_a_reward_function_failed_a_server_is_asked_for_nothing_more(
    make_trainer, server, monkeypatch
):
    monkeypatch.setattr(vllm, "MAX_POSTS", 1)
    failed, posted, answer = Event(), [], server.answer

    def only_the_first_is_quick(path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path == "/v1/completions":
            posted.append(body)
            assert len(posted) == 1 or failed.wait(timeout=60)
        return answer(path, body)

    server.answer = only_the_first_is_quick
    trainer = make_trainer(
        10, vllm_mode="server", vllm_server_base_url=server.url, reward_funcs=no_judge, **IN_ROUNDS
    )
    with pytest.raises(RewardError, match="no judge"):
        trainer.train()
    assert len(posted) <= 2  # of four prompts; and the error did not wait for the second
    failed.set()


def on_two_ranks(how: str, model: Path, folder: Path, url: str) -> tuple[str, Any, Any]:
    """Train with a server; what was said, and what each rank wrote down."""
    process = torchrun(2, folder / "said", WORKER, str(model), str(folder), url, how)
    assert process.returncode == 0, process.stderr[-3000:]
    first, second = (json.loads((folder / f"server-{rank}.json").read_text()) for rank in (0, 1))
    return process.stderr, first, second


@pytest.mark.slow
def test_on_two_ranks_no_prompt_waits_for_another_nor_for_the_other_rank(
    tiny_model, tmp_path, server
):
    """Two prompts on each rank, of which one in all needs no second round."""
    waited = waiting_for_second_rounds(server)
    on_two_ranks("rounds", tiny_model, tmp_path, server.url)
    assert waited == [True]
    posts = [(len(r["prompt"]), r["n"]) for r in server.requests]
    assert sorted(posts) == [(1, 4)] * 3 + [(1, 6)] * 4
    for mode in ("colocate", "server"):
        ranks = [json.loads((tmp_path / f"{mode}-{rank}.json").read_text()) for rank in (0, 1)]
        if mode == "colocate":
            sampled = ranks[0]["sampled"] | ranks[1]["sampled"]
            logs = [rank["log"] for rank in ranks]
            went_on = [log for log in logs if ["asked", log[0][1], 4] in log]
            assert went_on  # one of the quick prompts at least
            for log in went_on:
                quick, slow = log[0][1], log[1][1]
                assert log.index(["ended", quick, 4]) < log.index(["ended", slow, 6])
            asked = sorted(n for log in logs for what, _, n in log if what == "asked")
            assert asked == [4] * 3 + [6] * 4
        else:
            sampled = {
                str(list(ids)): [logprob, list(server.prompt_of[ids])]
                for ids, logprob in server.logprob_of.items()
            }
        assert ranks[0]["rows"] == ranks[1]["rows"]  # of the whole batch, by place
        rows = [(prompt, ids) for prompt, ids in ranks[0]["rows"] if ids is not None]
        assert len(rows) == len(sampled) == 36
        for prompt, ids in rows:
            assert sampled[str(ids)][1] == prompt
        trained = [row for rank in ranks for row in rank["trained"]]
        assert len(trained) == len({ids for ids, _ in trained}) == 16
        for ids, logprob in trained:
            assert logprob == pytest.approx(sampled[ids][0], abs=1e-6)
        assert [len(rank["trained"]) for rank in ranks] == [8, 8]
        tokens = sum(len(prompt) + len(ids) for prompt, ids in rows)
        assert [rank["tokens_seen"] for rank in ranks] == [tokens, tokens]
        assert [rank["told"] for rank in ranks] == [[[True, 1]], [[False, 1]]]
        entry = ranks[0]["logged"]
        assert entry["num_tokens"] == entry["pods/tokens_generated"] == tokens
        assert entry["reward"] == entry["right"] == pytest.approx(3 / 24)
        assert entry["pods/rollouts_saved"] == pytest.approx(4 / 40)


@pytest.mark.slow
def test_ranks_that_reach_no_server_leave_it_to_the_main_process(tiny_model, tmp_path, server):
    said, first, second = on_two_ranks("out of reach", tiny_model, tmp_path, server.url)
    assert f"processes [1] can't reach the server at {server.url}" in said
    assert [(len(r["prompt"]), r["n"]) for r in server.requests] == [(4, 6), (3, 4)]
    assert first["rows"] == second["rows"]
    assert (len(first["trained"]), len(second["trained"])) == (8, 8)


@pytest.mark.slow
def test_no_rank_asks_a_server_before_it_has_the_new_weights(tiny_model, tmp_path, server):
    happened: list[str] = []
    answer = server.answer

    def remembered(path: str, body: dict[str, Any]) -> dict[str, Any]:
        happened.append(path)
        return answer(path, body)

    server.answer = remembered
    on_two_ranks("late weights", tiny_model, tmp_path, server.url)
    updates = [i for i, path in enumerate(happened) if path == "/updated"]
    asked = [i for i, path in enumerate(happened) if path == "/v1/completions"]
    first_step = [i for i in asked if i < updates[-1]]
    assert len(updates) == 2
    assert updates[0] < asked[0]
    assert len(first_step) == 7  # and those of the second step came after the second update


@pytest.mark.slow
def test_an_error_of_one_rank_ends_all(tiny_model, tmp_path, server):
    _, first, second = on_two_ranks("bad reward", tiny_model, tmp_path, server.url)
    assert "a reward of 2 at step 1 is outside reward_range [0, 1]" in second
    assert first == f"process 1 failed: {second}"
    for rank, said in enumerate((first, second)):
        assert json.loads((tmp_path / f"colocate-{rank}.json").read_text()) == said
