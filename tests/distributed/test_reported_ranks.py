"""Settings of several processes that people reported as failing, tried with ours.

Of more processes than this machine has cores the plan is checked in one, as it is the same on all:
`test_exchange.py` goes through all sizes up to some size. One process that keeps nothing, with LoRA
and vLLM, is in `host_trl/test_vllm.py`.
"""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("trl")

from podsrl.errors import InvalidInputError
from podsrl.rollout_log.run_folder import RunFolder
from podsrl.trl import PODSConfig
from podsrl.trl.exchange import moves_of, n_of_each, share_of
from support.torchrun import torchrun

WORKER = str(Path(__file__).parent / "worker.py")


@pytest.mark.parametrize(
    ("world", "rows", "m", "n"),
    [
        (8, 4 * 4, 16, 64),  # 8 processes x 4 rows, accumulated 4 times: 128 rows, 8 prompts
        (8, 4 * 4, 16, 17),
        (8, 1, 8, 9),  # one prompt over all of them
        (3, 8, 8, 32),
        (6, 5, 10, 12),  # each prompt on two of them
        (16, 3, 4, 5),
    ],
)
def test_of_many_processes_each_prompt_is_generated_n_times_and_rows_are_as_many(world, rows, m, n):
    prompts = world * rows // m
    of_all = [({"row": i // m}, i // m) for i in range(world * rows)]  # as TRL lays them out
    times_generated: Counter[int] = Counter()
    for process in range(world):
        own = of_all[process * rows : (process + 1) * rows]
        pairs = n_of_each(own, m=m, n=n, process=process, world=world)
        share = share_of(prompts * n, process, world)
        generated = [prompt for _, prompt in pairs[: len(share)]]  # a shorter share is filled up
        assert generated == [place // n for place in share]
        times_generated.update(generated)
    assert times_generated == dict.fromkeys(range(prompts), n)

    rng = np.random.default_rng(world)
    first_m_of_each = np.tile(np.arange(n) < m, (prompts, 1))
    kept_P_N = rng.permuted(first_m_of_each, axis=1)
    trained = moves_of(kept_P_N, world)
    assert {len(places) for places in trained.by_process} == {rows}
    assert sorted(trained.places) == np.flatnonzero(kept_P_N).tolist()


@pytest.mark.slow
def test_two_processes_that_accumulate_log_every_rollout_of_each_prompt_once(tiny_model, tmp_path):
    """2 processes x 4 rows, accumulated 4 times, are 32 rows: 2 prompts of m = 16, n = 24."""
    run = {
        "out": str(tmp_path / "run"),
        "model": str(tiny_model),
        "n": 24,
        "num_generations": 16,
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 4,
        "max_steps": 2,
        "max_completion_length": 48,
        "learning_rate": 1e-3,
        "save_strategy": "no",
    }
    process = torchrun(2, tmp_path / "said", WORKER, json.dumps([run]))
    assert process.returncode == 0, process.stderr[-3000:]

    log = RunFolder(tmp_path / "run")
    for step in (1, 2):
        table = log.rollouts(step).to_pandas()
        groups = table.groupby("group")
        assert groups.size().tolist() == [24, 24]
        assert groups["kept"].sum().tolist() == [16, 16]
        assert groups["prompt"].nunique().tolist() == [1, 1]
        assert table["prompt"].nunique() == 2
        assert not table.duplicated(["group", "rollout"]).any()


def test_three_processes_of_one_row_refuse_8_rows_of_a_prompt_and_say_what_m_may_be(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(PODSConfig, "world_size", 3)
    one_row = {"per_device_train_batch_size": 1, "use_cpu": True, "bf16": False}
    with pytest.raises(InvalidInputError, match=r"got 3 rows: .* = 1 x 1 x 3.* allowed here: 3$"):
        PODSConfig(str(tmp_path), num_generations=8, **one_row)
    assert PODSConfig(str(tmp_path), num_generations=3, **one_row).num_rollouts == 12
