import csv
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.published.kept_curves import keep, read_kept
from benchmarks.published.result_files import EXPERIMENTS, read_published
from podslab.report.summary import summarise
from podslab.report.write_report import write_report
from podslab.statistics.speedup import speed_up
from podsrl.errors import InvalidInputError

SAMPLE = Path(__file__).parents[2] / "tests" / "data" / "published"
PAPER = Path(__file__).parents[3] / "shared" / "data" / "paper_results"
paper = pytest.mark.skipif(not PAPER.is_dir(), reason=f"no published results in {PAPER}")


def block(accuracy, dataset="gsm8k", key="ans_acc"):
    """One checkpoint: five repeats, spread around the accuracy; other measures are elsewhere."""
    values = {"ans_acc": [0.01] * 5, "for_acc": [0.02] * 5, "both_acc": [0.03] * 5}
    values[key] = [accuracy + d for d in (-0.02, -0.01, 0.0, 0.01, 0.02)]
    return {dataset: {**values, "lengths": [200.0, 210.0, 190.0, 200.0, 200.0]}}


def write_setting(folder, setting, accuracies, runs=3, steps=100, **kind):
    """Result files whose checkpoints are, on purpose, not in the order of their steps."""
    for run in range(1, runs + 1):
        blocks = {
            f"checkpoint-{steps * i}": block(accuracy, **kind)
            for i, accuracy in enumerate(accuracies, start=1)
        }
        text = json.dumps(dict(sorted(blocks.items())))
        (folder / f"{setting}-Run{run}.json").write_text(text)


def write_base(folder, name, accuracy, **kind):
    (folder / name).write_text(json.dumps(block(accuracy, **kind)))


def only(folder):
    (comparison,) = read_published(folder)
    return comparison, summarise(comparison)


@paper
def test_the_papers_single_gpu_numbers_are_reproduced():
    comparison, (grpo, pods) = summarised("GSM8K, Qwen2.5-3B-Instruct, one L40S")
    assert f"{100 * grpo.peak.mean:.2f}" == "81.64"
    assert f"{100 * pods.peak.mean:.2f}" == "82.63"
    speedup = pods.speedups["grpo"]
    assert (speedup.reference_seconds, speedup.seconds) == (3 * 3600.0, 1.5 * 3600.0)
    assert speedup.ratio == 2.0
    assert len(grpo.seeds) == len(pods.seeds) == 10
    (note,) = comparison.notes
    assert "not in" in note
    assert "Llama" in note


@paper
def test_the_papers_multi_gpu_numbers_are_reproduced():
    _, (grpo_ga, pods) = summarised("GSM8K, Qwen2.5-3B-Instruct, full parameters, 8 H100s")
    speedup = pods.speedups["grpo_ga"]
    assert (speedup.reference_seconds, speedup.seconds) == (24 * 60.0, 14 * 60.0)
    assert f"{speedup.ratio:.2f}" == "1.71"
    assert not speedup.paired  # the published runs of the two arms have different seeds
    assert grpo_ga.seconds_per_step > 2 * pods.seconds_per_step


def test_a_sample_of_the_papers_results_is_read():
    """Two of the ten runs of each arm, as published; the tests above read them all."""
    _, (grpo, pods) = only(SAMPLE)
    assert (len(grpo.seeds), len(pods.seeds)) == (2, 2)
    assert pods.speedups["grpo"].ratio == 2.0
    assert f"{100 * pods.base.mean:.2f}" == "59.95"


def summarised(title):
    comparison = next(c for c in read_published(PAPER) if c.title == title)
    return comparison, summarise(comparison)


def test_the_main_setting_is_read_with_half_hours_between_checkpoints(tmp_path):
    rising = [0.5 + 0.025 * i for i in range(1, 13)]  # best 0.8 at 6 h; 0.792 not before
    write_setting(tmp_path, "Instruct-GSM8K-512-16-16", rising)
    write_setting(tmp_path, "Instruct-GSM8K-512-64-16", [0.6, 0.6, 0.792] + [0.7] * 9, steps=50)
    write_base(tmp_path, "base-qwen.json", 0.4)

    comparison, (grpo, pods) = only(tmp_path)
    assert comparison.measure == "answer_accuracy"
    speedup = pods.speedups["grpo"]
    assert (speedup.reference_seconds, speedup.seconds) == (6 * 3600.0, 1.5 * 3600.0)
    assert speedup.ratio == 4.0

    assert pods.base.mean == pytest.approx(0.4)
    assert pods.base.error is None  # measured once, for all runs
    assert (pods.steps, pods.seconds_per_step) == (600, 36.0)  # 6 h / 600
    assert (pods.generated, pods.trained) == (600 * 64, 600 * 16)
    assert grpo.training_seconds == 6 * 3600.0


def test_the_llama_setting_is_read_every_ten_minutes_for_an_hour_and_a_half(tmp_path):
    both = {"key": "both_acc"}
    # the tenth checkpoint, at 100 minutes, is beyond what the authors show
    write_setting(tmp_path, "Instruct-Llama-512-16-16-0.04", [0.1] * 5 + [0.6] * 4 + [0.9], **both)
    write_setting(tmp_path, "Instruct-Llama-512-64-16-0.04", [0.1, 0.6] + [0.5] * 7, **both)
    write_base(tmp_path, "base-llama.json", 0.05, **both)
    comparison, (_, pods) = only(tmp_path)
    assert comparison.measure == "both_accuracy"
    speedup = pods.speedups["grpo"]
    assert (speedup.reference_seconds, speedup.seconds) == (3600.0, 1200.0)
    assert speedup.ratio == 3.0
    assert pods.training_seconds == 5400.0


def test_the_math_setting_is_read_from_its_own_dataset(tmp_path):
    kind = {"dataset": "math500"}
    write_setting(tmp_path, "Instruct-MATH-NF-512-8-8", [0.3, 0.4] + [0.5] * 10, **kind)
    write_setting(tmp_path, "Instruct-MATH-NF-512-32-8", [0.5] * 12, **kind)
    comparison, (grpo, pods) = only(tmp_path)
    assert comparison.title == "MATH, Qwen2.5-3B-Instruct, one L40S"
    assert pods.speedups["grpo"].ratio == 3.0  # 1.5 h / 0.5 h
    assert grpo.base is None
    assert "base-qwen.json is missing" in comparison.notes[0]


def test_every_setting_of_the_paper_is_read(tmp_path):
    for experiment in EXPERIMENTS:
        key = {"answer_accuracy": "ans_acc", "both_accuracy": "both_acc"}[experiment.measure]
        for setting in experiment.arms.values():
            write_setting(tmp_path, setting, [0.5] * 12, dataset=experiment.dataset, key=key)
    found = read_published(tmp_path)
    for comparison, experiment in zip(found, EXPERIMENTS, strict=True):
        assert comparison.title == experiment.title
        assert [arm.name for arm in comparison.arms] == list(experiment.arms)
        for arm in comparison.arms:
            assert np.nanmean(arm.curves.accuracy) == pytest.approx(0.5), comparison.title


def test_a_scaling_experiment_with_arms_missing_says_which(tmp_path):
    for n in (16, 64, 256):
        write_setting(tmp_path, f"Instruct-GSM8K-512-{n}-16", [0.5] * 12)
    main, scaling = read_published(tmp_path)
    assert [arm.name for arm in main.arms] == ["grpo", "pods"]
    assert [arm.name for arm in scaling.arms] == ["n = 16", "n = 64", "n = 256"]
    assert any("Instruct-GSM8K-512-32-16, so n = 32 is not shown" in n for n in scaling.notes)


def test_a_run_with_fewer_checkpoints_counts_where_it_has_them(tmp_path):
    write_setting(tmp_path, "Instruct-GSM8K-512-16-16", [0.5] * 12)
    write_setting(tmp_path, "Instruct-GSM8K-512-64-16", [0.5] * 12)
    path = tmp_path / "Instruct-GSM8K-512-64-16-Run2.json"
    blocks = json.loads(path.read_text())
    path.write_text(json.dumps({f"checkpoint-{100 * i}": block(0.8) for i in range(1, 12)}))
    assert len(blocks) == 12
    comparison, (_, pods) = only(tmp_path)
    assert any("Run2.json has 11 checkpoints of 12" in note for note in comparison.notes)
    assert (pods.final.mean, pods.final.seeds) == (pytest.approx(0.5), 2)
    assert pods.peak.mean == pytest.approx(0.6)  # (0.5 + 0.8 + 0.5) / 3


def test_an_arm_whose_runs_all_have_fewer_checkpoints_ends_earlier(tmp_path):
    write_setting(tmp_path, "Instruct-GSM8K-512-16-16", [0.5] * 12)
    write_setting(tmp_path, "Instruct-GSM8K-512-64-16", [0.5] * 10 + [0.7])
    comparison, (_, pods) = only(tmp_path)
    assert sum("checkpoints of 12" in note for note in comparison.notes) == 3
    assert pods.final.mean == pytest.approx(0.7)
    assert (pods.training_seconds, pods.steps) == (11 * 1800.0, 1100)
    write_report([comparison], tmp_path / "report", "A report")


def test_a_base_file_without_the_dataset_is_noted_and_the_rest_reported(tmp_path):
    kind = {"dataset": "math500"}
    write_setting(tmp_path, "Instruct-MATH-NF-512-8-8", [0.3] + [0.5] * 11, **kind)
    write_setting(tmp_path, "Instruct-MATH-NF-512-32-8", [0.3] + [0.5] * 11, **kind)
    write_base(tmp_path, "base-qwen.json", 0.4)  # of gsm8k
    comparison, (_, pods) = only(tmp_path)
    assert pods.base is None
    assert pods.speedups["grpo"].ratio == 1.0
    assert any("base-qwen.json has no math500" in note for note in comparison.notes)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ('{"checkpoint-1": {"gsm8k"', "not JSON"),
        ("[]", "not an object"),
        ('{"checkpoint-1": {"math500": {"ans_acc": [1]}}}', "no numbers gsm8k/ans_acc"),
        ('{"checkpoint-1": {"gsm8k": {"ans_acc": ["x"], "lengths": [1]}}}', "gsm8k/ans_acc"),
        ('{"checkpoint-1": {"gsm8k": {"ans_acc": [], "lengths": []}}}', "in place of 5 finite"),
        ('{"checkpoint-1": {"gsm8k": {"ans_acc": [1, 1], "lengths": [1, 1]}}}', "in place of 5"),
        ('{"checkpoint-1": {"gsm8k": {"ans_acc": [1, 1, 1, 1, NaN]}}}', "in place of 5 finite"),
        ('{"step-1": {"gsm8k": {"ans_acc": [1], "lengths": [1]}}}', "not checkpoint-<step>"),
    ],
)
def test_a_damaged_result_file_is_refused_by_name(tmp_path, damage, says):
    write_setting(tmp_path, "Instruct-GSM8K-512-16-16", [0.5] * 12)
    write_setting(tmp_path, "Instruct-GSM8K-512-64-16", [0.5] * 12)
    (tmp_path / "Instruct-GSM8K-512-64-16-Run2.json").write_text(damage)
    with pytest.raises(InvalidInputError, match=r"64-16-Run2\.json is damaged") as caught:
        read_published(tmp_path)
    assert says in str(caught.value)


def test_a_folder_without_results_or_with_one_setting_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="no published results in"):
        read_published(tmp_path)
    write_setting(tmp_path, "Instruct-GSM8K-512-16-16", [0.5] * 12)
    with pytest.raises(InvalidInputError, match=r"Instruct-GSM8K-512-16-16 alone"):
        read_published(tmp_path)
    (tmp_path / "mine-Run1.json").write_text("{}")
    with pytest.raises(InvalidInputError, match=r"mine-Run1\.json: the name is not"):
        read_published(tmp_path)


def write_export(path, what, curves, late=3.0):
    """An export as the authors make them: a row for every time at which any run was evaluated."""
    names = [f"data/{run} - {column}" for run in curves for column in ("_step", what)]
    rows = []
    for number, (run, values) in enumerate(curves.items()):
        for i, value in enumerate(values):
            cells = dict.fromkeys(names, "")
            cells[f"data/{run} - _step"] = str(i * 32)
            cells[f"data/{run} - {what}"] = str(value)
            rows.append((i * 120.0 + late + number, cells))

    with path.open("w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(["eval/time", *names])
        for seconds, cells in sorted(rows, key=lambda row: row[0]):
            writer.writerow([seconds, *cells.values()])


def write_exports(folder, machine, model="GR7B"):
    ga = [0.0] * 14 + [0.8] * 4  # reached at 28 minutes
    pods = [0.0] * 7 + [0.8] * 11  # at 14
    curves = {f"{model}-s{seed}-p8-n32-m32-ga16": ga for seed in (11, 12)}
    curves |= {f"{model}-s{seed}-p8-n128-m32-ga4": pods for seed in (11, 13)}
    write_export(folder / f"{machine}-acc.csv", "eval/rewards/accuracy_reward/mean", curves)
    lengths = {run: [100.0] * 18 for run in curves}
    write_export(folder / f"{machine}-length.csv", "eval/completions/mean_length", lengths)


@pytest.mark.parametrize("machine", ["a100s", "h100s", "b200s"])
def test_multi_gpu_exports_are_read_at_the_points_nearest_to_two_minutes(tmp_path, machine):
    write_exports(tmp_path, machine)
    comparison, (grpo_ga, pods) = only(tmp_path)
    assert machine[:-1].upper() in comparison.title.upper()
    assert (grpo_ga.arm, grpo_ga.seeds, pods.seeds) == ("grpo_ga", (11, 12), (11, 13))
    speedup = pods.speedups["grpo_ga"]
    assert (speedup.reference_seconds, speedup.seconds) == (28 * 60.0, 14 * 60.0)
    # at 30 minutes the 16th evaluation, 15 * 32 micro-steps: of 16 or of 4 a step
    assert (grpo_ga.steps, pods.steps) == (30, 120)
    assert pods.base is None


def test_damaged_exports_are_refused_by_file_and_line(tmp_path):
    write_exports(tmp_path, "h100s")
    path = tmp_path / "h100s-acc.csv"
    lines = path.read_text().splitlines(keepends=True)

    path.write_text("".join(lines[:5]) + lines[5][: len(lines[5]) // 2])
    with pytest.raises(InvalidInputError, match=r"h100s-acc\.csv, line 6 is damaged"):
        read_published(tmp_path)

    path.write_text("".join([*lines[:3], lines[3].replace('"0.0"', '"none"')]))
    with pytest.raises(InvalidInputError, match=r"h100s-acc\.csv, line 4 is damaged.*none"):
        read_published(tmp_path)

    twice = [line.replace("-s12-", "-s11-") for line in lines]
    path.write_text("".join(twice))
    with pytest.raises(InvalidInputError, match=r"h100s-acc\.csv has several columns .*seed 11"):
        read_published(tmp_path)

    path.write_text("a,b\n1,2\n")
    with pytest.raises(InvalidInputError, match=r"no export of evaluation curves"):
        read_published(tmp_path)

    path.write_text("".join(lines))
    (tmp_path / "h100s-length.csv").unlink()
    with pytest.raises(InvalidInputError, match=r"no file .*h100s-length\.csv"):
        read_published(tmp_path)


def test_exports_with_one_arm_only_are_refused(tmp_path):
    curves = {"GRPO-s1-p8-n32-m32-ga16": [0.5] * 18}
    write_export(tmp_path / "x-acc.csv", "eval/rewards/accuracy_reward/mean", curves)
    write_export(tmp_path / "x-length.csv", "eval/completions/mean_length", curves)
    with pytest.raises(InvalidInputError, match="must hold runs of two arms"):
        read_published(tmp_path)


def test_curves_that_were_kept_give_the_same_speed_up(tmp_path):
    (comparison, *_) = read_published(Path(__file__).parents[2] / "tests" / "data" / "published")
    keep(SAMPLE, tmp_path / "published.json")
    kept = read_kept(tmp_path / "published.json")[comparison.title]
    reference, pods = (arm.curves for arm in comparison.arms)

    before = speed_up(reference, pods)
    after = speed_up(kept["grpo"], kept["pods"])
    assert (after.ratio, after.low, after.high) == (before.ratio, before.low, before.high)
    assert after.by_seed == before.by_seed


def test_the_five_settings_of_the_authors_are_kept_with_every_run():
    kept = read_kept(Path(__file__).parents[2] / "results" / "published.json")
    runs = []
    for arms in kept.values():
        if "pods" in arms:
            runs.append([len(arm.seeds) for arm in arms.values()])
    assert sorted(runs) == [[4, 5], [5, 5], [10, 10], [10, 10], [10, 10]]


def test_steps_and_every_measure_of_one_gpu_are_kept(tmp_path):
    keep(SAMPLE, tmp_path / "published.json")
    (title,) = read_kept(tmp_path / "published.json")
    for measure in ("answer_accuracy", "format_accuracy", "both_accuracy"):
        (comparison,) = read_published(SAMPLE, measure)
        kept = read_kept(tmp_path / "published.json", measure)[title]
        for arm in comparison.arms:
            np.testing.assert_array_equal(kept[arm.name].steps, arm.curves.steps)
            np.testing.assert_allclose(kept[arm.name].accuracy, arm.curves.accuracy, atol=1e-6)
