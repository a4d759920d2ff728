"""What benchmarks/evidence concludes from runs, on runs whose conclusions are known."""

import dataclasses
import random
import re

import numpy as np
import pytest

from benchmarks.evidence import harness
from podslab.report.curves import ArmCurves
from podslab.report.drawing import render
from podslab.report.statistics import speed_up
from podsrl.errors import InvalidInputError
from support.synthetic_rollouts import rollouts
from support.synthetic_runs import write_run

pytest.importorskip("matplotlib")


def test_the_fit_recovers_what_prompts_share_and_what_they_do_not():
    pytest.importorskip("trl")
    from benchmarks.evidence.variances import fit_variances

    random, (prompts, size) = np.random.default_rng(0), (250, 500)
    between, within = 6.0, 20.0
    shared = random.normal(size=size) / size**0.5  # of length 1
    own = shared + random.normal(size=(prompts, 1, size)) * (between / size) ** 0.5
    right, wrong = random.integers(1, 8, size=(2, prompts, 2))
    noise = random.normal(size=(prompts, 2, size)) * (within / size) ** 0.5
    gradients = own + noise * (1 / right + 1 / wrong)[..., None] ** 0.5
    rows = np.stack([right, wrong], axis=2)
    found = fit_variances(3.0 * gradients, rows, resamples=200)
    for name, truth in (("between", between), ("within", within)):
        fitted, low, high = found[name]
        assert fitted == pytest.approx(truth, rel=0.1)
        assert low < truth < high
    with pytest.raises(InvalidInputError, match="share no direction"):
        fit_variances(gradients[:2] * np.array([1.0, -1.0])[:, None, None], rows[:2])
    with pytest.raises(InvalidInputError, match="at least 2"):
        fit_variances(gradients[:1], rows[:1])


# ---- speed-ups ----------------------------------------------------------------------------------


def curves(seconds, accuracy):
    fields = {field.name: np.array([seconds], float) for field in dataclasses.fields(ArmCurves)}
    fields |= {"arm": "x", "seeds": (0,), "accuracy": np.array([accuracy], float)}
    fields |= {"answers": np.full((1, len(seconds)), 1e6)}
    return ArmCurves(**fields)


def test_curves_are_cut_at_the_time_that_all_last():
    short, long = curves([0, 10], [0.0, 0.2]), curves([0, 5, 40], [0.0, 0.1, 0.9])
    cut = harness.equally_long(short, long)[1]
    assert np.nanmax(cut.accuracy) == 0.1
    assert np.isnan(cut.seconds[0, 2])


def test_speed_ups_are_drawn_with_their_verdict():
    found = speed_up(
        *(curves([0, 10, 20], accuracy) for accuracy in ([0.0, 0.2, 0.4], [0.0, 0.4, 0.6]))
    )
    faster = dataclasses.replace(found, low=1.5, high=2.0, reached=1.0)
    never = dataclasses.replace(
        found, seconds=None, ratio=None, low=0.0, high=0.0, reached=0.0, by_seed=(None,)
    )
    drawn = harness.figure({"A": {"here": faster}, "B": {"here": never}}, "speed-up")
    assert render(drawn, "png").startswith(b"\x89PNG")
    assert [axes.get_title(loc="left") for axes in drawn.axes] == ["A", "B"]
    said = [[text.get_text() for text in axes.texts] for axes in drawn.axes]
    assert said == [[], ["not reached"]]
    unclear = dataclasses.replace(found, low=0.0, high=1.2)
    judged = [harness.verdict(one) for one in (faster, never, unclear)]
    assert judged == ["faster", "slower", "undecided"]


def test_a_setting_in_which_the_reference_did_not_learn_has_no_verdict():
    flat, rising = curves([0, 10, 20], [0.1, 0.1, 0.1]), curves([0, 10, 20], [0.1, 0.4, 0.6])
    assert harness.verdict(speed_up(flat, rising)) == "nothing learned"


# ---- rates and rows ----------------------------------------------------------------------------


def write_comparison(folder, arms, config=None):
    """Arms by name: n, m, accuracies, seconds per step; two seeds, where n > m 1 % apart."""
    for name, (n, m, accuracies, seconds) in arms.items():
        for seed in (0, 1):
            shifted = [accuracy + (0.01 * seed if n > m else 0.0) for accuracy in accuracies]
            run = write_run(
                folder / name / f"seed-{seed}", name, seed, shifted, n, m, seconds,
                config={"downsampling_rule": "max_variance", **(config or {})},
            )  # fmt: skip
            run.write_rollouts(1, rollouts(n=n, m=m))
            run.write_environment()


def test_a_setting_that_was_run_joins_those_that_were_run_before(tmp_path, monkeypatch):
    pytest.importorskip("trl")
    from benchmarks.evidence import rows

    monkeypatch.chdir(tmp_path)
    drawn = []  # most of the time would be drawing
    monkeypatch.setattr(rows, "render", lambda figure, kind: drawn.append(figure) or b"a figure")
    runs, results = harness.RUNS, harness.RESULTS
    slow, fast = [0.1, 0.2, 0.3, 0.4, 0.5], [0.1, 0.4, 0.5, 0.6, 0.7]
    arms = {"grpo16": (16, 16, slow, 1.0), "pods": (64, 16, slow, 1.0), "few": (4, 2, fast, 1.0)}
    arms["across3"] = (3, 1, fast, 1.0)
    for name in ("mixed-16", "long-16", "form-16"):
        config = {"learning_rate": 1e-4, "gradient_accumulation_steps": 1}
        write_comparison(runs / f"rows-{name}", arms, config)
        tried = {
            f"{arm}_at_{rate}": own for arm, own in arms.items() for rate in ("5e-05", "0.0001")
        }
        write_comparison(runs / f"rows-{name}-rates-100", tried)
    rows.condense(["form-16", "long-16", "mixed-16"])
    page = (results / "rows.md").read_text()
    assert page.index("## Mixed difficulty, 16 rows") < page.index("3 times as long, 16 rows")
    across = next(line for line in page.splitlines() if "3 of each prompt | 16 | 3 → 1" in line)
    # 0.495 is reached at 40 steps of GRPO, and at 20 of the other
    assert "| 2.00x (2.00x to 2.00x) |" in across
    # these runs have one prompt per step, so one of GRPO's takes as long as 13 across the batch
    whole = 40 * 16 * (0.05 + 0.42) / (20 * (3 * 0.05 + 0.42))
    assert f"| nothing learned | {whole:.2f}x (" in across
    assert across.endswith("| 2% |")  # a quarter of a row, of 16 prompts with one each
    assert "hard-16" in page.rpartition("Not run so far")[2]
    assert (results / "rows.png").is_file()
    assert len(drawn) == 3 + 1  # of each setting, and one of all
    # of a reward of two parts both are counted together, and the answers alone
    together, alone = page.partition("## A small reward for the form")[2].split("answers alone")
    assert re.search(r"GRPO, 16 of each prompt \|.* 48\.0.*\| reference", together)
    assert re.search(r"GRPO, 16 of each prompt \|.* 50\.0.*\| reference", alone)
    assert page.count("By right answers alone") == 1
    before = page
    rows.condense([])
    assert (results / "rows.md").read_text() == before


def test_tuning_goes_on_until_the_rates_beside_the_best_are_tried(monkeypatch):
    from benchmarks.evidence import tuning

    peaks = {"low": 3e-5, "middle": 1e-4}  # tuning starts at 1e-4
    tried: dict[str, dict[float, list[float]]] = {}
    calls = []

    def run(name: str, config: dict, jobs: int) -> None:
        calls.append((name, *config["arms"]))
        for arm, settings in config["arms"].items():
            kind, rate = arm.split("_at_")[0], settings["learning_rate"]
            found = 1 - abs(np.log(rate / peaks[kind]))
            tried.setdefault(kind, {}).setdefault(rate, []).append(found)

    monkeypatch.setattr(tuning, "compare", run)
    tuning.tune("rows", "mixed-16", {"low": {}, "middle": {}}, lambda: tried, 2)
    assert sorted(tried["middle"]) == [7.5e-5, 1e-4, 1.5e-4, 2e-4]
    assert sorted(tried["low"]) == [2e-5, 3e-5, 5e-5, 7.5e-5, 1e-4, 1.5e-4, 2e-4]
    assert calls[-2] == ("rows-mixed-16-rates-100", "low_at_2e-05")
    # the two best of each once more, on a seed that the first ones did not see
    again = ("low_at_3e-05", "low_at_2e-05", "middle_at_0.0001", "middle_at_7.5e-05")
    assert calls[-1] == ("rows-mixed-16-rates-101", *again)
    assert tuning.best(tried["middle"]) == 1e-4


def test_a_setting_on_a_gpu_is_timed_on_the_wall_and_evaluated_greedily(monkeypatch):
    from benchmarks.evidence import tuning

    monkeypatch.setattr(tuning, "settings_of", lambda name: dict(tuning.SETTINGS[name].settings))
    on_cpu, on_gpu = (
        tuning.comparison(f"{where}-hard", {}, [0])["settings"] for where in ("answers", "gpu")
    )
    assert (on_cpu["training_clock"], on_gpu["training_clock"]) == ("cpu", "wall")
    assert (on_gpu["bf16"], on_gpu["use_cpu"]) == (True, False)
    assert on_gpu["evaluation_temperature"] == 0.0
    assert on_gpu["per_device_train_batch_size"] == 4 * on_cpu["per_device_train_batch_size"]
    assert not tuning.SETTINGS["gpu-hard"].rates_of


def test_the_page_of_predictions_is_what_its_command_writes():
    pytest.importorskip("trl")
    from benchmarks.evidence import foreseen

    root = foreseen.PUBLISHED.parents[2]
    assert foreseen.page(root) == (root / foreseen.PAGE).read_text()


# ---- words spelled backward ---------------------------------------------------------------------


def test_a_speller_is_right_without_slips_and_wrong_with_one():
    pytest.importorskip("torch")
    pytest.importorskip("reasoning_gym")
    from benchmarks.evidence.rows import SETTINGS
    from benchmarks.evidence.spelling import build_speller_tokenizer, lesson
    from podsgrading.extract import answer_tag
    from podslab.models.tiny.settings import TinySettings
    from podslab.tasks.base import in_format
    from podslab.tasks.by_name import get_task
    from podslab.tasks.reasoning_gym import score  # what the grading processes call

    setting = SETTINGS["words-16"].settings
    task = get_task(setting["task"], **setting["task_options"])
    rows, tokenizer = task.load("test"), build_speller_tokenizer()
    sentence = rows[0]["question"].rpartition(" ")[0]

    def taught(noise, count):
        """The row that asks for each word of the lesson, what it is told, and its grade."""
        options = TinySettings(**{**setting["tiny_options"], "noise": noise})
        example, draw = lesson(tokenizer, options), random.Random(0)
        for _ in range(count):
            (prompt, _), (working, _) = example(draw)
            word = prompt.strip().rpartition(" ")[2]
            asked = {"question": f"{sentence} {word}", "answer": word[::-1]}
            assert prompt == tokenizer.apply_chat_template(task.prompt(asked), tokenize=False)
            assert len(tokenizer(prompt)["input_ids"]) == len(word) + 2  # the sentence is one
            assert len(tokenizer(working)["input_ids"]) <= setting["max_completion_length"]
            text = working.removesuffix(tokenizer.eos_token)
            assert in_format(text)
            given = rows[0]["dataset"], rows[0]["config"], repr(asked)
            yield word, score(*given, answer_tag(text)) == 1.0

    assert all(row["question"].startswith(f"{sentence} ") for row in rows)
    assert all(right for _, right in taught(0.0, 50))
    found = list(taught(0.5, 1000))
    for length in (3, 6, 9):
        right = [right for word, right in found if len(word) == length]
        assert np.mean(right) == pytest.approx(
            np.prod([1 - 0.5 * index / 8 for index in range(length)]), abs=0.1
        )
