"""`pods compare train.py`: the user's script as it is, the plan, the runs, and the answer."""

import json
import math
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock, Timeout

pytest.importorskip("trl")

from podslab.durations import duration
from podslab.engine.folder import SCRIPT_PLAN, TUNING
from podslab.engine.run_end import error_file, lock_of
from podslab.evaluation.records import evaluations
from podslab.own_script import compare as compare_script
from podslab.own_script import script_process
from podslab.own_script.answer import Answer, Measured, ReportedRun, noise_of
from podslab.own_script.job import MINIBATCHES, REPORTED, YOURS, Arm, Probe, ScriptJob
from podslab.own_script.plan import Plan, WallSeconds, known_methods
from podslab.own_script.settings import (
    GivenSettings,
    RememberingGRPOConfig,
    RememberingPODSConfig,
    config_of,
    given_settings,
)
from podslab.recommend.known_worth import read_worths
from podslab.recommend.measured_steps import MeasuredStep, MeasuredSteps
from podslab.statistics.run_curve import RunCurve
from podslab.training import lab_trainer
from podsrl.cli import main
from podsrl.rollout_log.run_folder import RunFolder
from support.clocks import CountedSeconds
from support.forked import Forked, pods

SUPPORT = Path(__file__).parents[3] / "tests" / "support"
SCRIPT = """
import argparse
from pathlib import Path

from datasets import Dataset
from transformers import EarlyStoppingCallback, TrainerCallback, set_seed
from trl import GRPOConfig, GRPOTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--model", required=True)
parser.add_argument("--rows", type=int, default=8)
own = parser.parse_args()
set_seed(99)
with open("started.txt", "a") as file:
    file.write("once\\n")


def right(completions, answer, **columns):
    REWARD


class StopsAtOnce(TrainerCallback):
    def on_step_end(self, args, state, control, **others):
        control.should_training_stop = True


SYSTEM = (
    "Think step by step first, then give the final answer. Write exactly:\\n<think>\\nyour"
    " reasoning\\n</think>\\n<answer>\\nyour final answer, nothing else\\n</answer>"
)


def sum_of(a, b):
    chat = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": f"{a}+{b}"}]
    return {"prompt": chat, "answer": str(a + b)}


args = GRPOConfig(
    "fixed-folder",
    per_device_train_batch_size=own.rows,
    num_generations=4,
    max_completion_length=24,
    learning_rate=1e-3,
    warmup_steps=2,
    max_steps=3,
    save_steps=1,
    use_cpu=True,
    bf16=False,
    report_to="none",
)
args.temperature = 0.9
trainer = GRPOTrainer(
    own.model,
    right,
    callbacks=[EarlyStoppingCallback()],
    args=args,
    train_dataset=Dataset.from_list([sum_of(a, b) for a in range(10, 40) for b in range(10, 20)]),
)
trainer.train()
trainer.train()
trainer.save_model("fixed-folder/final")
"""
RIGHT = (
    'texts = [c[0]["content"].partition("<answer>")[2].partition("</answer>")[0] for c in'
    " completions]\n    return [float(t.strip() == a) for t, a in zip(texts, answer)]"
)

FROM_PODSRL = "from podsrl.trl import PODSConfig as GRPOConfig, PODSTrainer as GRPOTrainer"


@pytest.fixture
def run_script(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """run_script(text, field=value, ...): the process and the job of one run of a script.

    Its seconds of training are counted, so that every machine makes as many steps in them.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lab_trainer, "time", CountedSeconds())

    def run(
        text: str = SCRIPT.replace("REWARD", RIGHT), **fields: Any
    ) -> tuple[int, ScriptJob, Any]:
        script = tmp_path / "train.py"
        script.write_text(text)
        job = ScriptJob(
            **{
                "script": str(script),
                "arguments": ["--model", str(tiny_model)],
                "folder": str(tmp_path / "run"),
                "method": "pods",
                "learning_rate": 5e-4,
                "seed": 3,
                "questions": REPORTED,
                "most_questions": 8,
                "answers": 2,
                "held_out": 32,
                "clock": "cpu",
                **fields,
            }
        )
        job_file = tmp_path / "job.json"
        job.write(job_file)

        def work() -> int:
            sys.argv = ["script_process", str(job_file)]
            return script_process.main()

        process = Forked(work, tmp_path / "log.txt")
        return process, job, process

    return run


@pytest.fixture
def with_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The standard input of a test is closed, which the process would take for its parent's end."""
    monkeypatch.setattr(script_process, "end_with_parent", lambda: None)


@pytest.mark.usefixtures("with_parent")
def test_a_plain_trl_script_trains_as_an_arm_for_its_time_and_is_measured(run_script, tmp_path):
    process, _, _ = run_script(seconds=1.0, evaluations=2, from_start=True)
    assert process.wait() == 0, process.said()

    run = RunFolder(tmp_path / "run")
    config = run.config()
    assert config["method"] == "pods"
    assert (config["num_rollouts"], config["num_generations"]) == (16, 4)  # its own rows are kept
    assert (config["learning_rate"], config["seed"]) == (5e-4, 3)
    assert config["temperature"] == 0.9  # set after the config was constructed
    assert config["lr_scheduler_type"] == "constant_with_warmup"
    assert config["max_training_seconds"] == 1.0
    assert run.finished()["training_seconds"] >= 1.0

    points = evaluations(run)
    assert len(points) == 3
    assert points[0].step == 0
    for point in points:
        assert (len(point.rewards), len(point.rewards[0])) == (8, 2)
        assert len(point.greedy_rewards) == 8
    # what the script does after its first train() is not wanted
    assert (tmp_path / "started.txt").read_text() == "once\n"
    assert not (tmp_path / "fixed-folder").exists()


@pytest.mark.usefixtures("with_parent")
def test_an_answer_that_could_not_be_scored_has_no_reward_and_not_0(run_script, tmp_path):
    text = SCRIPT.replace("REWARD", "return [None, 1.0] * (len(answer) // 2)")
    process, _, _ = run_script(text, seconds=0.5)
    assert process.wait() == 0, process.said()
    (point,) = evaluations(RunFolder(tmp_path / "run"))
    assert {reward for of_question in point.rewards for reward in of_question} == {None, 1.0}


SUBCLASS = """
class Mine(GRPOTrainer):
    def _calculate_rewards(self, *args, **kwargs):
        return 3 - super()._calculate_rewards(*args, **kwargs)


trainer = Mine("""


@pytest.mark.usefixtures("with_parent")
@pytest.mark.parametrize("method", ["pods", "grpo", "max_contrast"])
def test_what_a_subclass_in_the_script_makes_of_rewards_counts_in_every_arm_and_in_the_measure(
    run_script, tmp_path, method
):
    one_for_all = SCRIPT.replace("REWARD", "return [1.0 * (i % 2) for i in range(len(answer))]")
    text = one_for_all.replace("trainer = GRPOTrainer(", SUBCLASS)
    process, _, _ = run_script(text, seconds=0.5, method=method)
    assert process.wait() == 0, process.said()

    run = RunFolder(tmp_path / "run")
    (point,) = evaluations(run)
    assert {reward for of_question in point.rewards for reward in of_question} == {2.0, 3.0}
    table = run.rollouts(1).to_pandas()
    assert set(table["reward"]) == {2.0, 3.0}
    raises = table["advantage"] > 0
    assert set(table[raises]["reward"]) == {3.0}  # and not the highest before it was turned round


@pytest.mark.usefixtures("with_parent")
@pytest.mark.parametrize(
    ("was", "now"),
    [
        # a script that evaluates before it trains
        ("trainer.train()\ntrainer.train()", "print(trainer.evaluate())\ntrainer.train()"),
        # rewards without names of their own
        ("    right,\n", "    [lambda completions, **k: [0.0] * len(completions), right],\n"),
        ("    right,\n", "    [lambda completions, **k: [1.0] * len(completions)] * 2,\n"),
        ("    right,\n", "    [functools.partial(right), functools.partial(right)],\n"),
        # rows without an end, and few rows
        ("train_dataset=Dataset.from_list(", "train_dataset=without_length("),
    ],
)
def test_what_trl_takes_is_compared(run_script, tmp_path, was, now):
    text = SCRIPT.replace("REWARD", RIGHT)
    assert was in text
    text = text.replace(was, now, 1).replace("import argparse", "import argparse\nimport functools")
    text = text.replace(
        "SYSTEM = (",
        "def without_length(rows):\n    return Dataset.from_list(rows).to_iterable_dataset()\n\n\n"
        "SYSTEM = (",
    )
    text = text.replace("    args=args,", "    args=args,\n    eval_dataset=held_out,")
    text = text.replace(
        "args = GRPOConfig(",
        "held_out = Dataset.from_list([sum_of(a, 7) for a in range(10, 40)])\nargs = GRPOConfig(",
    )
    process, _, _ = run_script(text, seconds=0.5)
    assert process.wait() == 0, process.said()
    assert len(evaluations(RunFolder(tmp_path / "run"))) == 1


@pytest.mark.usefixtures("with_parent")
def test_grpo_in_minibatches_generates_as_much_as_pods_for_as_many_updates(run_script, tmp_path):
    process, _, _ = run_script(seconds=1.5, method=MINIBATCHES)
    assert process.wait() == 0, process.said()

    run = RunFolder(tmp_path / "run")
    config = run.config()
    assert (config["method"], config["arm"]) == ("grpo", MINIBATCHES)
    assert (config["num_rollouts"], config["num_generations"]) == (4, 4)
    # eight rows a step, of two prompts: PODS generates 16 rollouts for each of two prompts
    assert config["steps_per_generation"] == 4
    generated = [row["pods/rollouts_generated"] for row in run.metrics() if "loss" in row]
    assert generated[:6] == [32, 32, 32, 32, 64, 64]


@pytest.mark.usefixtures("with_parent")
@pytest.mark.parametrize(
    ("words", "steps"),
    [
        ("gradient_accumulation_steps=3,", 12),
        ("generation_batch_size=16,", 8),
        ("steps_per_generation=2,", 8),
    ],
)
def test_minibatches_count_from_what_the_script_generates_at_once(
    run_script, tmp_path, words, steps
):
    text = SCRIPT.replace("REWARD", RIGHT).replace("use_cpu=True,", f"use_cpu=True, {words}")
    process, _, _ = run_script(
        text, method="grpo", questions=TUNING, learning_rate=None, describe=[MINIBATCHES]
    )
    assert process.wait() == 0, process.said()
    settings = Probe.read(tmp_path / "run" / "probe.json").methods[MINIBATCHES]
    assert settings["steps_per_generation"] == steps
    assert settings["generation_batch_size"] == 8 * steps


#: Rewards that are given once somebody lets the run go on from its first checkpoint.
HELD = (
    'if list(Path("run").glob("checkpoint-*")) and not Path("go-on").exists():\n'
    '        Path("held").touch()\n'
    "        threading.Event().wait()\n"
    f"    {RIGHT}"
)


@pytest.mark.usefixtures("with_parent")
def test_a_killed_run_goes_on_from_its_last_measurement(run_script, tmp_path):
    text = SCRIPT.replace("REWARD", HELD).replace("import argparse", "import argparse, threading")
    fields = {"seconds": 3.0, "evaluations": 6}
    run = RunFolder(tmp_path / "run")
    process, _, _ = run_script(text, **fields)
    process.wait_for((tmp_path / "held").exists)
    process.send(signal.SIGKILL)
    before = run.metrics()
    assert len(evaluations(run)) == 1

    (tmp_path / "go-on").touch()
    process, _, _ = run_script(text, **fields)
    assert process.wait() == 0, process.said()
    rows = run.metrics()
    assert rows[: len(before)] == before
    steps = [row["step"] for row in rows if "pods/training_seconds" in row]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) > len(before)
    assert len(evaluations(run)) == 6


def sizes_of(probe):
    """n and m of each method."""
    return {
        name: (fields["num_rollouts"], fields["num_generations"])
        for name, fields in probe.methods.items()
    }


def test_a_run_of_a_script_is_one_processes_alone(tmp_path, monkeypatch):
    """So that what clears away a killed run waits for its process to be gone."""
    job = ScriptJob("train.py", [], str(tmp_path / "run"), "pods", 0, REPORTED, 8, 2)
    job.write(tmp_path / "job.json")
    held = []

    def run_script(job: ScriptJob, began: float) -> None:
        with pytest.raises(Timeout):
            lock_of(job.run).acquire(timeout=0)
        held.append(job.folder)

    monkeypatch.setattr(script_process, "run_script", run_script)
    monkeypatch.setattr(script_process, "end_with_parent", lambda: None)
    monkeypatch.setattr(sys, "argv", ["script_process", str(tmp_path / "job.json")])
    assert script_process.main() == 0
    assert held == [job.folder]


@pytest.mark.usefixtures("with_parent")
def test_a_look_says_what_a_plan_needs(run_script, tmp_path):
    describe = ["grpo", MINIBATCHES, "pods", "max_contrast", "2-grpo"]
    process, _, _ = run_script(questions=TUNING, learning_rate=None, describe=describe)
    assert process.wait() == 0, process.said()

    probe = Probe.read(tmp_path / "run" / "probe.json")
    assert probe.learning_rate == 1e-3
    assert probe.own_method == "grpo"
    assert probe.questions == {TUNING: 16, REPORTED: 16}
    assert probe.is_held_out
    assert probe.prompts == 300 - 32
    assert probe.reward_functions == ["right"]
    assert set(probe.methods) == set(describe)
    assert sizes_of(probe) == {
        "grpo": (4, 4),
        MINIBATCHES: (4, 4),
        "pods": (16, 4),
        "max_contrast": (4, 1),
        "2-grpo": (2, 2),
    }
    assert min(probe.seconds_per_step, probe.seconds_per_answer, probe.seconds_to_start) > 0


@pytest.mark.usefixtures("with_parent")
def test_a_look_at_settings_of_ours_with_sizes_and_rate_left_to_their_defaults(
    run_script, tmp_path
):
    text = SCRIPT.replace("REWARD", RIGHT)
    text = text.replace("from trl import GRPOConfig, GRPOTrainer", FROM_PODSRL)
    text = text.replace("    num_generations=4,\n", '    method="max_contrast",\n')
    text = text.replace("    learning_rate=1e-3,\n", "")
    text = text.replace("warmup_steps=2", "warmup_steps=0.5")
    text = text.replace("for b in range(10, 20)", "for b in (*range(10, 20), 19)")
    describe = ["grpo", MINIBATCHES, "pods", "max_contrast", "yours"]
    process, _, _ = run_script(text, questions=TUNING, learning_rate=None, describe=describe)
    assert process.wait() == 0, process.said()

    probe = Probe.read(tmp_path / "run" / "probe.json")
    assert probe.own_method == "max_contrast"
    assert probe.learning_rate == 1e-6
    # one row of a prompt is a batch rule's: methods that compare rows of a prompt have their own
    assert sizes_of(probe) == {
        "grpo": (8, 8),
        MINIBATCHES: (8, 8),
        "pods": (32, 8),
        "max_contrast": (4, 1),
        "yours": (4, 1),
    }
    assert probe.problems == {}
    assert probe.warmup_share == 0.5
    # 11 rows for each of 30 first numbers, the last of them twice
    assert probe.prompts + probe.repeated_rows == 330 - 32
    assert probe.repeated_rows > 0


@pytest.mark.usefixtures("with_parent")
@pytest.mark.parametrize(
    ("change", "status", "says"),
    [
        (("trainer.train()", ""), 2, "ended without training"),
        (('"--rows"', '"--rows", required=True'), 2, "give it its own arguments within quotes"),
        (("args.temperature = 0.9", "args = 1"), 2, "construct a GRPOConfig of trl"),
        (("set_seed(99)", "raise EOFError"), 2, "asks for input, which nobody gives"),
        (("own.rows,", "6,"), 1, "must be divisible by num_generations (4)"),
        (("set_seed(99)", "import nowhere"), 1, "No module named 'nowhere'"),
        (("texts = ", "raise SystemExit(3) #"), 1, "ended by itself while it trained (3)"),
        (("texts = ", "raise ValueError(99) #"), 1, "ValueError"),
        (("range(10, 20)", "range(1)"), 2, "questions to measure on are too few"),
        (("EarlyStoppingCallback()]", "StopsAtOnce()]"), 2, "ended at step 1, before its time"),
    ],
)
def test_a_script_that_cannot_be_compared_gets_one_plain_sentence(
    run_script, tmp_path, change, status, says
):
    text = SCRIPT.replace("REWARD", RIGHT)
    assert change[0] in text
    process, _, _ = run_script(text.replace(*change), seconds=1.0)
    assert process.wait() == status, process.said()
    assert says in process.said().strip().splitlines()[-1]
    told = json.loads(error_file(tmp_path / "run").read_text())
    assert told["status"] == status
    assert says in told["message"]


@pytest.mark.slow
@pytest.mark.usefixtures("with_parent")
def test_two_processes_of_another_seed_measure_the_same_questions_in_order(run_script, tmp_path):
    """Each reward is the question's own answer, and the last batch of two processes is not full."""
    text = SCRIPT.replace("REWARD", "return [float(a) for a in answer]")
    fields = {"seconds": 0.01, "from_start": True, "most_questions": 7, "folder": "one"}
    process, _, _ = run_script(text, **fields)
    assert process.wait() == 0, process.said()

    job_file = tmp_path / "job.json"
    # Another seed, as TRL would ask the questions in another order then.
    replace(ScriptJob.read(job_file), folder="two", seed=4).write(job_file)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"]
    module = ["-m", "podslab.own_script.script_process"]
    # Its standard input stays open, which says that the process that started it is there.
    with subprocess.Popen([*launcher, *module, str(job_file)], stdin=subprocess.PIPE) as ranks:
        ranks.wait(timeout=240)
    assert ranks.returncode == 0

    alone, of_two = (evaluations(RunFolder(tmp_path / name)) for name in ("one", "two"))
    assert [len(row) for row in alone[0].rewards] == [2] * 7
    assert len({row[0] for row in alone[0].rewards}) > 3
    assert all(first == second for first, second in alone[0].rewards)
    assert of_two[0].rewards == alone[0].rewards
    assert of_two[0].greedy_rewards == alone[0].greedy_rewards
    assert RunFolder(tmp_path / "two").finished() is not None


# ---- the plan and the answer, by processes that train nothing (support/script_worker.py)


@pytest.fixture
def compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
    """compare(word, ..., behave={}): the exit status and what `pods compare` printed.

    It has an hour, of which its processes, which train nothing, take seconds.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")

    def run(*words: str, **behave: Any) -> tuple[int, str, str]:
        rewards = {"grpo": 0.4, "pods": 0.8, "max_contrast": 0.8, "cppo": 0.4}
        (tmp_path / "behave.json").write_text(json.dumps({"reward": rewards, **behave}))
        worker = [sys.executable, str(SUPPORT / "script_worker.py")]
        status = main(["compare", "train.py", "--hours", "1", *words, "--", *worker])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def started(folder: Path) -> list[list[str]]:
    return [line.split() for line in (folder / "started.txt").read_text().splitlines()]


def test_rates_are_halved_alike_and_two_seeds_decide(compare, tmp_path):
    status, out, err = compare("--methods", "grpo,pods")
    assert status == 0, err

    runs = started(tmp_path)
    seconds = max(float(run[3]) for run in runs)
    first = [run for run in runs if run[0] == TUNING and float(run[3]) < seconds / 3]
    second = [run for run in runs if run[0] == TUNING and float(run[3]) > seconds / 3]
    reported = [run for run in runs if run[0] == REPORTED]

    assert len(first) == 8  # two methods at four rates, interleaved
    assert [run[1].split("-")[0] for run in first[:4]] == ["grpo", "pods", "grpo", "pods"]
    assert len(second) == 4  # the better half of each
    assert [(run[1], run[2]) for run in reported] == [
        ("grpo-2e-05", "0"),
        ("pods-2e-05", "0"),
        ("grpo-2e-05", "1"),
        ("pods-2e-05", "1"),
    ]

    # At the end the difference is 0.4; over the run, as both began alike, it is half of that.
    assert "pods has 0.200 more reward than grpo" in out
    assert err.count("will be noise, with the 20 questions that are reported") == 1
    paste = 'method="pods", num_rollouts=8, num_generations=4, learning_rate=2e-05)'
    assert f"PODSConfig(..., {paste}" in out
    assert "held out, as the trainer has no eval_dataset" in out
    assert (tmp_path / "pods-compare" / "answer.png").is_file()


def test_it_says_what_a_step_is_worth_and_costs_and_where_it_breaks_even(compare, tmp_path):
    status, out, err = compare("--methods", "grpo,pods")
    assert status == 0, err
    (found,) = read_worths(tmp_path / "pods-compare")
    # In 4 steps rewards rise from 0.2 to 0.4 with grpo and to 0.8 with pods, three times as fast;
    # they are rounded to whole answers.
    assert (found.method, found.rollouts_per_row) == ("pods", 2.0)
    assert found.value.worth.value == pytest.approx(3.0, rel=0.05)
    assert found.value.cost.value == pytest.approx(1.0)
    assert found.value.gain.value == pytest.approx(found.value.worth.value)

    said = out.partition("What a step is worth and costs, in steps of grpo")[2]
    (line,) = [line for line in said.splitlines() if line.startswith("pods ")]
    assert str(found.value.worth) in line
    run = RunFolder(tmp_path / "pods-compare" / "grpo" / "seed-0")
    seconds = found.value.worth.value * evaluations(run)[-1].training_seconds / 4
    assert line.endswith(f"{duration(seconds)} a step")


def test_a_cost_that_was_measured_elsewhere_is_put_beside_the_worth(compare, tmp_path):
    steps = [
        MeasuredStep("grpo", 1.0, 8, {"update": 1.0}, steps=3),
        MeasuredStep("pods", 2.0, 8, {"update": 1.25}, steps=3),
    ]
    MeasuredSteps("train.py", "a large card", steps).write(tmp_path / "pods-compare")
    status, out, err = compare("--methods", "grpo,pods")
    assert status == 0, err
    (found,) = read_worths(tmp_path / "pods-compare")
    gain = f"{found.value.worth.value / 1.25:.2f}"
    assert "On a large card a step of pods costs 1.25 (steps.json), so worth / cost is" in out
    assert f"worth / cost is {gain} (" in out


def test_a_worth_that_cannot_be_told_is_told_with_its_reason(compare, tmp_path):
    rewards = {"grpo": 0.2, "pods": 0.8}
    status, out, _ = compare("--methods", "grpo,pods", reward=rewards)
    assert status == 0
    assert "pods: no worth can be told: grpo learned no more than noise" in out
    assert read_worths(tmp_path / "pods-compare")[0].value.worth is None


def test_each_gpu_has_one_run_at_a_time_and_they_work_side_by_side(compare, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)
    status, _, err = compare("--methods", "grpo,pods", "--gpus", "0,3", meets=2)
    assert status == 0, err

    by_gpu = {}
    for line in (tmp_path / "at_work.txt").read_text().splitlines():
        gpu, what = line.split()
        by_gpu.setdefault(gpu, []).append(what)
    assert sorted(by_gpu) == ["0", "3"]
    for events in by_gpu.values():
        assert events == ["begins", "ends"] * (len(events) // 2)


def test_no_difference_is_an_answer_and_seeds_are_added_until_the_last(compare, tmp_path):
    rewards = {"grpo": 0.6, "pods": 0.6}
    status, out, _ = compare("--methods", "grpo,pods", reward=rewards)
    assert status == 0
    assert "pods and grpo: no difference that these runs can show" in out
    assert "Nothing is certainly better than grpo: stay with it, at learning_rate=2e-05" in out
    seeds = {run[2] for run in started(tmp_path) if run[0] == REPORTED}
    assert seeds == {str(seed) for seed in range(8)}


def test_where_both_come_to_the_best_reward_the_sooner_one_is_better(compare):
    # Of 2.6 - 0.2 the best reward, 1, is a third: it is there in a third of the time.
    status, out, _ = compare("--methods", "grpo,pods", reward={"grpo": 1.0, "pods": 2.6})
    assert status == 0
    of_method = {line.split()[0]: line for line in out.splitlines() if " 1.000 " in line}
    assert set(of_method) == {"grpo", "pods"}
    assert "more reward than grpo" in out
    assert "stay with it" not in out


def test_seeds_that_lie_far_apart_tell_nothing_and_have_no_interval(compare, tmp_path):
    compare("--methods", "grpo,pods", "--dry-run")
    (tmp_path / "pods-compare" / "spent.json").write_text('{"hours": 1.1}')  # for two seeds alone
    rewards = {"grpo": 0.6, "pods": [1.6, -0.6]}
    status, out, _ = compare("--methods", "grpo,pods", reward=rewards)
    assert status == 0
    (line,) = [line for line in out.splitlines() if line.startswith("pods and grpo")]
    assert line.endswith("(their seeds lie so far apart that these runs tell nothing)")


def test_the_fields_of_grpo_in_minibatches_are_told_where_it_is_best(compare):
    rewards = {"grpo": 0.4, MINIBATCHES: 0.8}
    status, out, _ = compare("--methods", "grpo,grpo-minibatches", reward=rewards)
    assert status == 0
    assert "grpo-minibatches has 0.200 more reward than grpo" in out
    paste = 'method="grpo", num_rollouts=8, num_generations=4, steps_per_generation=4'
    assert f"PODSConfig(..., {paste}, skip_zero_advantage=True, learning_rate=2e-05)" in out


def test_a_reward_that_is_constant_is_said(compare):
    rewards = {"grpo": 0.0, "pods": 0.0}
    status, out, err = compare("--methods", "grpo,pods", reward=rewards, start=0.0)
    assert status == 0
    assert "can't tell answers apart" in out
    # As soon as the first run was measured, so that nobody waits for hours.
    assert "have the reward 0, and equal rewards teach nothing" in err.splitlines()[2]
    assert "will be noise" not in err


def test_arms_that_fail_are_left_out_and_told(compare):
    status, out, err = compare("--methods", "grpo,pods", fails=["pods-2e-05", "grpo-4e-05"])
    assert status == 0
    assert "failed: tuning pods-2e-05 seed 1000: ValueError: the loss is lost (all that" in err
    assert "the loss is lost" in out
    assert "learning_rate=1e-05)" in out or "learning_rate=5e-06)" in out


def test_a_method_that_fails_with_two_seeds_does_not_take_the_others_with_it(compare, tmp_path):
    rewards = {"grpo": 0.4, "pods": 0.8, "max_contrast": 0.5}
    methods = ("--methods", "grpo,pods,max_contrast")
    status, out, _ = compare(*methods, reward=rewards, fails_reported=["pods"])
    assert status == 0
    assert "max_contrast has" in out
    assert "pods has" not in out
    assert "Failed: pods seed 0: ValueError: the loss is lost" in out
    assert "seed 2" not in "".join(line for line in out.splitlines() if "Failed" in line)


def test_checkpoints_of_runs_that_failed_stay_and_others_are_deleted(compare, tmp_path):
    failing = ["tuning grpo-4e-05 seed 1000", "pods seed 0"]
    status, _, err = compare("--methods", "grpo,pods", fails_late=failing)
    assert status == 0
    assert all(f"failed: {name}: ValueError: the loss is lost" in err for name in failing)

    folder = tmp_path / "pods-compare"
    left = {path.parent.relative_to(folder).as_posix() for path in folder.rglob("checkpoint-*")}
    assert left == {"tuning/grpo-4e-05/seed-1000", "pods/seed-0"}


def test_where_all_but_one_method_fail_the_answer_says_why(compare):
    status, out, _ = compare("--methods", "grpo,pods", fails_reported=["pods"])
    assert status == 0
    assert "Fewer than two methods have a whole run of the same seed" in out
    assert "Failed: pods seed 1: ValueError: the loss is lost" in out


def test_a_run_that_lacks_a_measurement_is_compared_all_the_same(compare, tmp_path):
    status, out, _ = compare("--methods", "grpo,pods", misses_one=["pods"])
    assert status == 0
    # Its second of four measurements is missing, and the line between its neighbours stands for it.
    assert re.search(r"pods has 0\.2[01]\d more reward than grpo", out)
    assert (tmp_path / "pods-compare" / "answer.png").is_file()


def test_answers_that_could_not_be_scored_are_left_out_and_counted(compare):
    status, out, _ = compare("--methods", "grpo,pods", unscored=["pods"])
    assert status == 0
    assert "pods has 0.200 more reward than grpo" in out
    assert "25.0% of the answers could not be scored, and are left out" in out

    status, out, err = compare(
        "--methods", "grpo,pods", "--output_dir", "b", unscored=["grpo", "pods"]
    )
    assert status == 0, err


def test_of_equal_rates_the_lower_one_is_chosen(compare, tmp_path):
    # At all rates both methods come to the best reward.
    rewards = {"grpo": 1.2, "pods": 1.2}
    assert compare("--methods", "grpo,pods", reward=rewards)[0] == 0
    assert {run[1] for run in started(tmp_path) if run[0] == REPORTED} == {
        "grpo-5e-06",
        "pods-5e-06",
    }


def test_where_all_learn_in_a_quarter_of_the_time_the_runs_are_made_shorter(compare, tmp_path):
    rewards = {"grpo": 1.05, "pods": 1.05}  # 0.95 at other rates than the best one
    status, out, err = compare("--methods", "grpo,pods", reward=rewards, at_once=True)
    assert status == 0
    assert "of training all methods have the best reward already" in err
    seconds = {run[0]: float(run[3]) for run in started(tmp_path)}
    assert seconds[REPORTED] == pytest.approx(seconds[TUNING] / 2, rel=1e-3)
    run = RunFolder(tmp_path / "pods-compare" / "pods" / "seed-0")
    assert len(evaluations(run)) == 5
    _, again, err = compare("--methods", "grpo,pods", reward=rewards, at_once=True)
    assert again == out  # and a second start has the same runs


def test_a_run_that_ends_below_its_start_is_named(compare):
    rewards = {"grpo": 0.6, "pods": 0.1}
    status, out, _ = compare("--methods", "grpo,pods", reward=rewards, start=0.5)
    assert status == 0
    assert "pods collapsed with seed 0: 0.500 at first, 0.1" in out
    assert "grpo collapsed" not in out


def test_the_plan_says_that_a_script_trains_twice(compare, tmp_path):
    (tmp_path / "train.py").write_text("trainer.train()\nmodel.train(True)\ntrainer.train()\n")
    assert "train.py calls train() 2 times" in compare("--dry-run")[1]


def test_a_second_start_chooses_the_same_rates_where_the_best_one_fell_back(compare, tmp_path):
    collapses = ["pods-2e-05"]
    _, first, _ = compare("--methods", "grpo,pods", collapses=collapses)
    before = started(tmp_path)
    assert {run[1] for run in before if run[0] == REPORTED} == {"grpo-2e-05", "pods-5e-06"}
    status, second, _ = compare("--methods", "grpo,pods", collapses=collapses)
    assert status == 0
    assert started(tmp_path) == before
    assert second == first


def test_the_same_command_goes_on_where_a_method_was_left_out(compare, tmp_path):
    compare("--methods", "grpo,pods,cppo")
    before = started(tmp_path)
    status, _, err = compare("--methods", "grpo,pods,cppo")
    assert status == 0, err
    assert started(tmp_path) == before


@pytest.mark.parametrize("at_once", [1, 4, 8])
@pytest.mark.parametrize("methods", [2, 4, 5])
def test_a_plan_has_the_rounds_that_the_runs_take_on_so_many_gpus(methods, at_once):
    costs = WallSeconds(start=10.0, measuring={TUNING: 20.0, REPORTED: 30.0})
    seconds = costs.seconds_within(2.0, methods, at_once)
    assert costs.at_least(seconds, methods, at_once) == pytest.approx(2.0 * 3600)

    a_round = 10.0 + 20.0 + seconds / 4
    rounds = math.ceil(4 * methods / at_once) + math.ceil(2 * methods / at_once)
    assert costs.choosing_rates(seconds, methods, at_once) == pytest.approx(1.1 * rounds * a_round)


@pytest.fixture
def job(tmp_path: Path) -> ScriptJob:
    """A reported run of PODS."""
    return ScriptJob(
        script="train.py",
        arguments=[],
        folder=str(tmp_path),
        method="pods",
        seed=0,
        questions=REPORTED,
        most_questions=8,
        answers=2,
    )


def test_what_would_change_the_questions_of_an_evaluation_is_not_taken_over(job):
    values = {"dataloader_persistent_workers": True, "dataloader_drop_last": True}
    config = config_of(GivenSettings({**values, "use_cpu": True, "bf16": False}), job)
    assert (config.dataloader_persistent_workers, config.dataloader_drop_last) == (False, False)


def test_an_evaluation_before_training_is_the_comparison_s_own_alone(job):
    given = GivenSettings({"eval_on_start": True, "use_cpu": True, "bf16": False})
    assert not config_of(given, job).eval_on_start


ON_A_CPU = {"output_dir": "of-the-script", "use_cpu": True, "bf16": False}


@pytest.mark.parametrize("base", [RememberingGRPOConfig, RememberingPODSConfig])
def test_a_config_class_of_the_script_s_own_is_taken_over_with_its_defaults_and_fields(base, job):
    @dataclass
    class OwnConfig(base):
        learning_rate: float = 3e-5
        system_prompt: str = "think"
        benchmarks: list[str] = field(default_factory=list)

        def __post_init__(self) -> None:
            self.top_p = 0.8
            super().__post_init__()
            self.top_k = 7

    own = OwnConfig(**ON_A_CPU, num_generations=4, max_completion_length=24, system_prompt="add")
    own.temperature = 0.9
    own.shown = 3
    given = given_settings(own)
    assert given.rows_of_a_prompt == 4

    config = config_of(given, job)
    assert (config.num_rollouts, config.num_generations) == (16, 4)
    assert (config.max_completion_length, config.learning_rate) == (24, 3e-5)
    assert (config.top_p, config.top_k, config.temperature) == (0.8, 7, 0.9)
    # what its own trainer and rewards read
    assert (config.system_prompt, config.benchmarks, config.shown) == ("add", [], 3)
    assert config.output_dir == job.folder


@pytest.mark.parametrize(("warmup", "share"), [(0, 0.0), (0.25, 0.25), (10, 0.0)])
def test_a_warm_up_that_is_a_share_of_all_steps_is_told(warmup, share, job):
    given = given_settings(RememberingGRPOConfig(**ON_A_CPU, warmup_steps=warmup))
    assert given.warmup_share == share
    assert config_of(given, job).warmup_steps == (10 if warmup == 10 else 0)


@pytest.mark.parametrize(
    ("look", "says"),
    [
        ({"repeated_rows": 3}, "3 more training rows are equal to one of them"),
        (
            {"repeated_rows": 3, "is_held_out": False},
            "3 rows of your train_dataset are equal to one of your eval_dataset",
        ),
        ({"warmup_share": 0.1}, "Your warm-up of 0.1 of all steps"),
    ],
)
def test_the_plan_tells_of_repeated_rows_and_of_a_warm_up_that_is_left_out(compare, look, says):
    assert says in compare("--dry-run", "--methods", "grpo,pods", look=look)[1]


def test_a_best_rate_at_the_edge_of_those_that_were_tried_is_told(compare):
    # Of grpo the lowest two fail, and of what is left all but the highest.
    fails = ["grpo-5e-06", "grpo-1e-05", "grpo-2e-05"]
    status, out, _ = compare("--methods", "grpo,pods", fails=fails)
    assert status == 0
    assert "grpo was best at the highest rate that was tried, 4e-05: a higher one" in out
    assert "pods was best" not in out


def test_a_second_start_trains_nothing_again_and_answers_the_same(compare, tmp_path):
    _, first, _ = compare("--methods", "grpo,pods")
    before = started(tmp_path)
    status, second, _ = compare("--methods", "grpo,pods")
    assert status == 0
    assert started(tmp_path) == before
    assert second == first


def test_recommend_says_what_a_comparison_answered_and_that_one_is_not_finished(
    compare, tmp_path, capsys
):
    compare("--methods", "grpo,pods")
    answer = (tmp_path / "pods-compare" / "answer.txt").read_text()
    assert main(["recommend", "pods-compare"]) == 0
    assert answer in capsys.readouterr().out  # its columns stand as they stood

    (tmp_path / "pods-compare" / "answer.txt").unlink()
    assert main(["recommend", "pods-compare"]) == 0
    assert "nothing yet: the comparison is not finished" in capsys.readouterr().out


def test_a_dry_run_shows_the_plan_and_trains_nothing(compare, tmp_path):
    status, out, _ = compare("--dry-run", "--methods", "grpo,pods,cppo")
    assert status == 0
    assert "left out: cppo, since its sizes do not fit" in out
    assert "5e-06, 1e-05, 2e-05, 4e-05" in out
    assert not (tmp_path / "started.txt").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["compare"], "give either a training script"),
        (["compare", "no.py"], "there is no script no.py"),
        (["compare", "train.py", "--config", "demo"], "give either a training script"),
        (
            ["compare", "--config", "demo", "--hours", "2"],
            "--hours is for a script; with --config the file says it",
        ),
        (["compare", "--config", "demo", "--", "torchrun"], "a launcher after -- is for a script"),
        (["compare", "train.py", "--shard", "1/2"], "--shard is for --config, not for a script"),
        (["compare", "train.py", "--methods", ""], "--methods '' has an empty name"),
        (["compare", "train.py", "--gpus", "0,1"], "this machine has no GPU that torch can use"),
        (["compare", "train.py", "--hours", "0"], "must be a number of at least 0.001"),
        (["compare", "plan.yaml"], "run pods compare --config plan.yaml"),
        (["compare", "train.py", "--methods", "best"], "unknown method 'best'; the methods are"),
        (["compare", "train.py", "--output_dir", "."], "holds files that are no comparison's"),
        (["compare", "train.py --name 'a"], "is no command: No closing quotation"),
        (["compare", " "], "the name of the script is empty: give a file such as train.py"),
    ],
)
def test_a_wrong_command_gets_one_plain_sentence(words, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    assert main(words) == 2
    assert says in capsys.readouterr().err


def test_methods_are_taken_by_every_spelling_of_their_names_and_once():
    asked = ["2_grpo", "2-grpo", "Rejection_Sampling", YOURS, "GRPO_minibatches"]
    assert known_methods(asked) == ["2-grpo", "rejection-sampling", YOURS, MINIBATCHES]


@pytest.mark.parametrize(
    "hours", ["0.002", "0.013"]
)  # the second one: runs of less than five seconds
def test_too_few_hours_are_refused_with_those_that_are_needed(compare, capsys, hours):
    status, _, err = compare("--hours", hours)
    assert status == 2
    assert "too few steps to learn from; give at least --hours" in err


def test_another_script_in_the_same_folder_is_refused(compare, tmp_path):
    compare("--methods", "grpo,pods")
    status, _, err = compare("--methods", "grpo,max_contrast")
    assert status == 2
    assert "holds a comparison of train.py with --methods grpo,pods --questions 128" in err

    status, _, err = compare("--methods", "grpo,pods", "--questions", "32")
    assert status == 2
    assert "to go on with it, give the same" in err


def test_a_notebook_goes_on_with_a_comparison_whose_arguments_are_a_list(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "behave.json").write_text("{}")

    def stopped_at_once(running):
        running.plan.write(running.folder / SCRIPT_PLAN)

    monkeypatch.setattr("podslab.own_script.run_plan.RunningComparison.run", stopped_at_once)

    worker = [sys.executable, str(SUPPORT / "script_worker.py")]
    for _ in range(2):
        compare_script("train.py", ["--size", "3"], methods=["grpo", "pods"], launch=worker)
    assert capsys.readouterr().out.count("a look at train.py") == 1


def test_a_changed_script_is_looked_at_again_and_is_no_part_of_a_comparison_that_began(
    compare, tmp_path
):
    words = ("--methods", "grpo,pods")
    looked = "a look at train.py"
    assert looked in compare(*words, "--dry-run")[2]
    assert looked not in compare(*words, "--dry-run")[2]
    assert looked in compare("--methods", "grpo,2-grpo", "--dry-run")[2]  # nothing known of these

    (tmp_path / "train.py").write_text("rate = 2")
    status, _, err = compare(*words)
    assert status == 0
    assert looked in err

    (tmp_path / "train.py").write_text("rate = 3")
    status, _, err = compare(*words)
    assert status == 2
    assert "train.py was changed since the comparison in pods-compare began" in err
    assert (tmp_path / "pods-compare" / "look" / "train.py").read_text() == "rate = 2"


def test_more_hours_add_seeds_to_a_comparison_that_ended(compare, tmp_path):
    words = ("--methods", "grpo,pods")
    rewards = {"grpo": 0.6, "pods": 0.6}

    def seeds():
        return {int(run[2]) for run in started(tmp_path) if run[0] == REPORTED}

    compare(*words, "--dry-run")
    (tmp_path / "pods-compare" / "spent.json").write_text('{"hours": 1.1}')
    _, _, err = compare(*words, reward=rewards)
    assert seeds() == {0, 1}
    assert "the hours are over, and 2 seeds are trained all the same" in err

    status, out, _ = compare("--hours", "10", *words, reward=rewards)
    assert status == 0
    assert seeds() == set(range(8))
    assert "8 seeds" in out
    assert "With fewer hours there was one after 2 seeds" in out

    # The hours are over, and all seeds are there: none of them is left out.
    (tmp_path / "pods-compare" / "spent.json").write_text('{"hours": 20}')
    again = compare("--hours", "10", *words, reward=rewards)[1]
    assert again == out


def test_a_command_beside_one_that_looks_is_refused_and_clears_nothing_away(compare, tmp_path):
    folder = tmp_path / "pods-compare"
    RunFolder(folder / "look").write_config({"arm": "pods", "seed": 0})  # which the other one makes
    (folder / "look.json").write_text("{}")
    with FileLock(folder / ".lock"):
        status, _, err = compare("--methods", "grpo,pods")
    assert status == 2
    assert "another `pods compare` is at work on pods-compare: wait for it" in err
    assert (folder / "look" / "config.yaml").is_file()


def test_a_command_that_was_killed_before_it_looked_leaves_a_folder_to_begin_in(compare, tmp_path):
    (tmp_path / "pods-compare").mkdir()
    (tmp_path / "pods-compare" / ".lock").touch()
    assert compare("--methods", "grpo,pods", "--dry-run")[0] == 0


def test_the_command_in_a_process_of_its_own_can_be_interrupted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "slow.py").write_text("import time; time.sleep(60)")
    words = ["compare", "train.py", "--", sys.executable, str(tmp_path / "slow.py")]
    process = pods(words, tmp_path / "log.txt")
    process.wait_for(lambda: (tmp_path / "pods-compare" / "look.log").exists())
    assert process.send(signal.SIGINT) == 130


def test_the_noise_is_that_of_two_equally_good_methods():
    """Two of four questions are always right: a deviation of .577, over 16 questions."""
    rewards_P_K = np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    assert noise_of(rewards_P_K, 16) == pytest.approx(2 * 2**0.5 * (1 / 3) ** 0.5 / 4)


def answer_of(leads: dict[str, list[float]]) -> Answer:
    """The answer of runs whose rewards are 0.4, and later as much above it as their seeds lead."""
    plan = Plan(
        script="train.py",
        arguments=(),
        asked=(),
        methods=tuple(leads),
        learning_rate=1e-5,
        seconds=100.0,
        hours=2.0,
        most_questions={TUNING: 8, REPORTED: 16},
        answers=4,
        held_out=32,
        clock="cpu",
        launch=(),
        at_once=1,
    )
    places_T = np.linspace(0.0, 100.0, 5)

    def reported(lead: float) -> ReportedRun:
        rewards_T_P_K = np.full((5, 16, 4), 0.4)
        rewards_T_P_K[1:] += lead
        curve = RunCurve(*5 * [places_T], rewards_T_P_K)
        return ReportedRun(curve, {}, {"num_rollouts": 8, "num_generations": 4})

    seeds = range(len(leads["grpo"]))
    return Answer(
        plan=plan,
        seconds=100.0,
        best={method: Arm(method, 1e-5) for method in leads},
        by_seed=[
            Measured(seed, {method: reported(leads[method][seed]) for method in leads})
            for seed in seeds
        ],
        level=0.05,
        failed={},
    )


def test_the_best_of_the_methods_that_are_certainly_better_is_told_to_paste():
    # The mean of pods is the highest, 0.12, and its seeds lie between -0.3 and 0.5.
    wide = [-0.3, 0.5, -0.1, 0.4, -0.2, 0.3, 0.1, 0.26]
    narrow = [0.07, 0.08, 0.09, 0.1, 0.07, 0.08, 0.09, 0.1]
    less = [0.05, 0.06, 0.05, 0.06, 0.05, 0.06, 0.05, 0.06]
    leads = {"grpo": [0.0] * 8, "pods": wide, "max_contrast": narrow, "cppo": less}
    to_paste = answer_of(leads).to_paste()
    assert to_paste[0] == "To paste (pods may be as good):"
    assert 'method="max_contrast"' in to_paste[1]


def test_a_method_that_is_said_to_be_better_is_told_to_paste_beside_one_that_hides_it():
    # pods and grpo differ with p = 0.03. Holm leaves it as it is beside grpo, from which
    # max_contrast differs more; it doubles it beside pods, to which max_contrast is nearer.
    unsteady = [-0.03, 0.26, 0.03, 0.23, -0.01, 0.21, 0.04, 0.16]
    leads = {"grpo": [0.0] * 8, "pods": unsteady, "max_contrast": [0.08, 0.09] * 4}
    answer = answer_of(leads)
    assert sum("more reward than grpo" in line for line in answer.conclusions()) == 2
    to_paste = answer.to_paste()
    assert to_paste[0] == "To paste (max_contrast may be as good):"
    assert 'method="pods"' in to_paste[1]
