"""What vLLM is asked for, colocated and as a server: TRL's own code on a recording engine."""

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Lock
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("trl")
pytest.importorskip("requests")  # TRL's client of a vLLM server

from podsrl.errors import RewardError
from podsrl.trl import vllm
from podsrl.trl.vllm import MAX_NUM_BATCHED_TOKENS
from support import vllm_stand_in
from support.torchrun import torchrun
from support.trl_runs import logged

WORKER = str(Path(__file__).with_name("vllm_worker.py"))
COLOCATE = {"use_vllm": True, "vllm_mode": "colocate", "max_steps": 1}


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    vllm_stand_in.install(monkeypatch)
    for variable in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(variable, "")  # TRL sets them for vLLM; undone after the test
        monkeypatch.delenv(variable)


@pytest.fixture
def server(stand_in: None) -> Iterator[vllm_stand_in.Server]:
    with vllm_stand_in.serving() as server:
        yield server


def trained_rows(trainer: Any) -> list[tuple[tuple[int, ...], float]]:
    """Train; the completions that the update saw, each with its sampling log-prob."""
    rows: list[tuple[tuple[int, ...], float]] = []
    finish = trainer._finish

    def remember(batch: Any, output: dict[str, Any]) -> None:
        finish(batch, output)
        columns = (output[k] for k in ("completion_ids", "completion_mask"))
        for ids, mask, logps in zip(*columns, output["sampling_per_token_logps"], strict=True):
            kept = mask.bool()
            assert len(set(logps[kept].tolist())) == 1
            rows.append((tuple(ids[kept].tolist()), logps[kept][0].item()))

    trainer._finish = remember
    trainer.train()
    return rows


@pytest.mark.parametrize("sleep", [False, True])
def test_a_colocated_engine_is_asked_once_for_all_rollouts_of_each_prompt(
    make_trainer, stand_in, sleep
):
    trainer = make_trainer(10, vllm_enable_sleep_mode=sleep, **COLOCATE)
    rows = trained_rows(trainer)
    engine = trainer.vllm_generation.llm
    assert len(engine.calls) == 1
    assert [n for _, n in engine.calls[0]] == [10, 10]  # 8 kept rows of m = 4: two prompts
    assert engine.calls[0][0][0] != engine.calls[0][1][0]
    assert len(rows) == 8
    for ids, logprob in rows:
        assert logprob == pytest.approx(engine.logprob_of[ids], abs=1e-6)
    assert engine.slept == (2 if sleep else 0)  # at construction, and once after generating


@pytest.mark.parametrize(
    ("n", "accumulation", "rows"),
    [
        (4, 1, 8),  # n = m: TRL's
        (10, 1, 20),
        (7, 2, 28),  # 16 kept rows of m = 4: 4 prompts
        (256, 16, MAX_NUM_BATCHED_TOKENS),  # 32 prompts: not 8192
        ("auto", 1, 256),  # 2 prompts, and max_num_rollouts is 128
    ],
)
def test_a_colocated_engine_has_room_for_all_generated_rows_at_once(
    make_trainer, stand_in, n, accumulation, rows
):
    trainer = make_trainer(n, gradient_accumulation_steps=accumulation, **COLOCATE)
    options = trainer.vllm_generation.llm.options
    assert options["max_num_seqs"] == rows
    assert options["max_num_batched_tokens"] == MAX_NUM_BATCHED_TOKENS


def test_with_a_mean_of_one_row_it_is_asked_for_all_rollouts_of_as_many_prompts_as_rows(
    make_trainer, stand_in
):
    mean = {"num_generations": 1, "selection_scope": "batch"}
    trainer = make_trainer(3, **mean, **COLOCATE)
    rows = trained_rows(trainer)
    engine = trainer.vllm_generation.llm
    assert engine.options["max_num_seqs"] == 24
    assert [[n for _, n in call] for call in engine.calls] == [[3] * 8]
    assert [logprob for _, logprob in rows] == [
        pytest.approx(engine.logprob_of[ids], abs=1e-6) for ids, _ in rows
    ]
    assert len(rows) == 8


def test_trl_alone_asks_a_colocated_engine_for_every_row(make_trainer, stand_in):
    """If this fails, TRL has learnt it: `one_request_per_prompt` may go."""
    trainer = make_trainer(None, **COLOCATE)
    trainer.train()
    assert [n for _, n in trainer.vllm_generation.llm.calls[0]] == [1] * 8
    assert trainer.vllm_generation.llm.options["max_num_seqs"] == 8


def test_evaluation_with_a_colocated_engine_is_left_to_trl(make_trainer, stand_in, dataset):
    trainer = make_trainer(
        10, eval_dataset=dataset.select(range(4)), per_device_eval_batch_size=4, **COLOCATE
    )
    trainer.evaluate()
    assert {n for call in trainer.vllm_generation.llm.calls for _, n in call} == {1}


def test_a_server_is_asked_in_one_request_for_all_rollouts_of_each_prompt(make_trainer, server):
    trainer = make_trainer(
        10, use_vllm=True, vllm_mode="server", vllm_server_base_url=server.url, max_steps=1
    )
    rows = trained_rows(trainer)
    assert [(len(r["prompt"]), r["n"]) for r in server.requests] == [(2, 10)]
    assert len(rows) == 8
    for ids, logprob in rows:
        assert logprob == pytest.approx(server.logprob_of[ids], abs=1e-6)


# ---- rounds --------------------------------------------------------------------------------------

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


def test_a_server_gets_a_prompts_next_round_while_others_are_in_their_first(
    make_trainer, server, dataset
):
    data = dataset.select(range(4))
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

    client = Client()
    generation = SimpleNamespace(mode="server", vllm_client=client)

    def ended(prompts: list[int], first: bool) -> list[int]:
        assert client.image_features(["image"] * len(prompts)) == [None] * len(prompts)
        found = client.generate(prompts=[[i] for i in prompts], n=2)
        assert found["completion_ids"] == [
            [i, i] for i in prompts for _ in range(2 if first else 3)
        ]
        return prompts if first else []

    with vllm.as_prompts_end(generation, 3, ended):
        features = client.image_features(["image"] * 2)
        found = client.generate(prompts=[[0], [1]], n=2, features=features)
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


@pytest.mark.slow
def test_on_two_ranks_both_modes_ask_once_for_each_prompt_and_keep_rows_aligned(
    tiny_model, tmp_path, server
):
    """3 groups of n = 7 on 2 ranks: 11 rows each, the second group on both, one row of padding."""
    process = torchrun(2, tmp_path / "said", WORKER, str(tiny_model), str(tmp_path), server.url)
    assert process.returncode == 0, process.stderr[-3000:]
    by_mode = {
        mode: [json.loads((tmp_path / f"{mode}-{rank}.json").read_text()) for rank in (0, 1)]
        for mode in ("colocate", "server")
    }
    assert [rank["asked"] for rank in by_mode["colocate"]] == [[7, 4], [3, 8]]
    assert [(len(r["prompt"]), r["n"]) for r in server.requests] == [(3, 7)]
    in_process = by_mode["colocate"][0]["sampled"] | by_mode["colocate"][1]["sampled"]
    on_server = {str(list(ids)): logprob for ids, logprob in server.logprob_of.items()}
    assert (len(in_process), len(on_server)) == (22, 21)
    for mode, sampled in (("colocate", in_process), ("server", on_server)):
        ranks = by_mode[mode]
        trained = [row for rank in ranks for row in rank["trained"]]
        assert len(trained) == len({ids for ids, _ in trained}) == 12  # 3 groups of m = 4
        for ids, logprob in trained:
            assert logprob == pytest.approx(sampled[ids], abs=1e-6)
        for rank in ranks:
            assert len(rank["trained"]) == 6
