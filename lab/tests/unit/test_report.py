import argparse
import contextlib
import io
import json
import re
import shutil
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from benchmarks.published import __main__ as published
from podslab.cli import report as command
from podslab.evaluation.records import append_evaluation, evaluations
from podslab.report.drawing import looks
from podslab.report.figures import draw
from podslab.report.load_runs import Choices, load_comparison
from podslab.report.summary import summarise
from podslab.report.write_report import write_report
from podsrl.errors import PodsError
from support.synthetic_rollouts import rollouts
from support.synthetic_runs import write_run

SLOW = (0.1, 0.4, 0.6, 0.8)
FAST = (0.1, 0.8, 0.8, 0.8)
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        write_run(folder / f"grpo-{seed}", "grpo", seed, SLOW)
        run = write_run(folder / f"pods-{seed}", "pods", seed, FAST, n=4, m=2)
        for step in (1, 2, 3, 4):
            run.write_rollouts(step, rollouts(text=f"step {step}: {{group}}.{{rollout}}"))
    return folder


def pods(*words):
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return command.run(parser.parse_args([str(word) for word in words]))


@pytest.fixture(scope="module")
def report(runs, tmp_path_factory):
    """The report of `runs`, which no test changes: its folder, and what the command printed."""
    folder = tmp_path_factory.mktemp("report")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert pods(runs, "--out", folder) == 0
    return folder, printed.getvalue()


@pytest.fixture
def no_figures(monkeypatch):
    """For tests of the text alone: drawing is most of the time of a report."""
    monkeypatch.setattr("podslab.report.write_report.draw", lambda *arguments: {})


def test_a_report_holds_figures_a_table_and_one_page(report):
    folder, printed = report
    names = {"accuracy", "seconds_per_step", "length"}
    figures = {path.name for path in (folder / "figures").iterdir()}
    assert figures == {f"{name}.{kind}" for name in names for kind in ("png", "svg")}
    for path in (folder / "figures").glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG\r\n")
    for path in (folder / "figures").glob("*.svg"):
        assert ElementTree.fromstring(path.read_bytes()).tag.endswith("svg")

    numbers = json.loads((folder / "summary.json").read_text())
    assert numbers["comparisons"][0]["arms"][1]["speedups"]["grpo"]["ratio"] == 3.0

    page = (folder / "report.html").read_text()
    assert page.count("data:image/svg+xml;base64,") == 3
    assert "<strong>10 % → 80 %</strong> <span>pods: answers right, in 30 steps (30 s of" in page
    assert page.count("arithmetic: answers right") == 1  # the title stands once

    assert "| speed-up over grpo | reference | 3.00x |" in printed
    assert (folder / "summary.md").read_text().splitlines()[2] in printed


def test_the_same_runs_give_the_same_bytes(runs, report, tmp_path):
    def bytes_in(folder):
        return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.*")}

    pods(runs, "--out", tmp_path)
    first = bytes_in(report[0])
    again = bytes_in(tmp_path)
    assert len(first) == 9  # 3 figures twice, page, JSON, Markdown
    assert first == again


def test_a_modelled_report_lies_beside_the_measured_one_and_says_so(runs, report, tmp_path):
    shutil.copytree(report[0], tmp_path, dirs_exist_ok=True)
    measured = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}

    pods(runs, "--out", tmp_path, "--clock", "generate=0.05,update=0.42")
    assert {path: path.read_bytes() for path in measured} == measured

    modelled = [path for path in tmp_path.rglob("*.*") if path not in measured]
    assert len(modelled) == len(measured)
    assert all(path.stem.endswith("-modelled") for path in modelled)

    page = (tmp_path / "report-modelled.html").read_text()
    assert "<strong>Modelled time.</strong>" in page
    assert "generate 0.05 s, update 0.42 s" in page
    page = (tmp_path / "report.html").read_text()
    assert "odelled" not in re.sub(r"<style>.*</style>", "", page, flags=re.DOTALL)

    for name, time in (("summary", "measured"), ("summary-modelled", "modelled")):
        (comparison,) = json.loads((tmp_path / f"{name}.json").read_text())["comparisons"]
        assert comparison["time"] == time


def test_a_speedup_that_is_not_reached_is_shown(tmp_path, no_figures):
    write_run(tmp_path / "runs" / "a", "grpo", 0, FAST)
    write_run(tmp_path / "runs" / "b", "pods", 0, (0.1, 0.2, 0.3, 0.3))
    report = write_report([load_comparison([tmp_path / "runs"], Choices())], tmp_path, "t")
    text = (tmp_path / "summary.md").read_text()
    assert "| speed-up over grpo | reference | not reached |" in text
    assert "* **not reached**: pods over grpo (95 % interval: — (one seed))." in text
    assert "<strong>not reached</strong> <span>pods over grpo" in report.page.read_text()


def test_nobody_learning_gives_no_ratio_on_the_page_and_no_line_to_reach(tmp_path, no_figures):
    for arm in ("grpo", "pods"):
        write_run(tmp_path / "runs" / arm, arm, 0, (0.06, 0.06, 0.06, 0.06))
    comparison = load_comparison([tmp_path / "runs"], Choices())
    page = write_report([comparison], tmp_path, "t").page.read_text()
    visible = re.sub(r"<style>.*?</style>|src=\"[^\"]*\"|<script.*?</script>", "", page, flags=re.S)
    assert "<strong>nothing learned</strong>" in visible
    assert not re.search(r"\d\.\d+x", visible)
    assert "<strong>6.0 % → 6.0 %</strong>" in visible
    lines = draw(comparison, summarise(comparison))["accuracy"].axes[0].lines
    assert [line.get_label() for line in lines] == ["grpo", "pods"]  # and not "99 % of grpo"


def test_many_arms_become_panels_of_six_lines_with_the_references_in_all(tmp_path):
    names = ["grpo", "grpo_ga", "pods", "n2", "n4", "n8", "n16", "n32", "n64", "n128"]
    for name in names:
        write_run(tmp_path / name, name, 0, SLOW)
    comparison = load_comparison([tmp_path], Choices())
    panels = draw(comparison, summarise(comparison))["accuracy"].axes

    all_shown = set()
    for panel in panels:
        labels = [line.get_label() for line in panel.lines]
        shown = [label for label in labels if not label.startswith("99")]  # of a level to reach
        assert len(shown) == 6
        assert {"grpo", "grpo_ga"} <= set(shown)
        all_shown |= set(shown)
    assert len(panels) == 2
    assert all_shown == set(names)
    assert [len(legend.texts) for legend in panels[0].figure.legends] == [12]  # and 2 levels


def test_an_arm_looks_the_same_in_every_figure_and_no_two_look_alike():
    many = [f"arm {i}" for i in range(30)]
    found = looks(["pods", "grpo", *many])
    assert len({look.color for look in found.values()}) == 32
    assert looks(["pods"])["pods"] == found["pods"] == looks(["x", "pods", "n32"])["pods"]
    assert looks(["n32", "grpo"])["n32"] == looks(["n32", "pods", "grpo_ga"])["n32"]
    assert (
        len({(look.dashes, look.marker) for look in looks(["grpo", "grpo_ga", "pods"]).values()})
        == 3
    )


def test_an_axis_does_not_turn_noise_into_drama(tmp_path):
    write_run(tmp_path, "pods", 0, (0.81, 0.82, 0.815, 0.82))
    comparison = load_comparison([tmp_path], Choices())
    low, high = draw(comparison, summarise(comparison))["accuracy"].axes[0].get_ylim()
    assert high - low >= 20  # points, for one that is measured


def test_runs_of_one_arm_are_reported_without_a_reference(tmp_path, no_figures):
    write_run(tmp_path / "run", "pods", 0, FAST, n=64)
    write_report([load_comparison([tmp_path / "run"], Choices())], tmp_path / "out", "t")
    assert "speed-up" not in (tmp_path / "out" / "summary.md").read_text()


@pytest.mark.parametrize(("seeds", "covered"), [(1, None), (2, "50 %"), (3, "75 %"), (5, None)])
def test_an_interval_from_few_seeds_comes_with_how_often_it_holds(
    tmp_path, no_figures, seeds, covered
):
    for seed in range(seeds):
        write_run(tmp_path / "runs" / f"a{seed}", "grpo", seed, SLOW)
        write_run(tmp_path / "runs" / f"b{seed}", "pods", seed, FAST)
    page = write_report([load_comparison([tmp_path / "runs"], Choices())], tmp_path, "t").page
    note = (
        f"with {seeds} seeds the interval of a speed-up is too narrow: a bootstrap over so few"
        " covers the truth in about"
    )
    for text in (page.read_text(), (tmp_path / "summary.md").read_text()):
        assert (f"{note} {covered} of cases" in text) if covered else (note not in text)


def test_names_from_runs_are_escaped_in_the_page_and_plain_in_figures(tmp_path):
    arm = f"pods $x_{{1}}$ | {HOSTILE}"
    write_run(tmp_path / "runs" / "a", "grpo", 0, SLOW)
    write_run(tmp_path / "runs" / "b", arm, 0, FAST, config={HOSTILE: HOSTILE})
    report = write_report([load_comparison([tmp_path / "runs"], Choices())], tmp_path, HOSTILE)
    page = report.page.read_text()
    assert "alert(1)</script>" not in page
    assert "<img src=x" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert page.count("<script") == 0
    table = (tmp_path / "summary.md").read_text()
    assert r"\|" in table


def test_the_page_allows_its_own_style_only_and_nothing_from_the_network(report):
    page = (report[0] / "report.html").read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src &#39;none&#39;; style-src &#39;sha256-")
    assert "unsafe" not in policy
    without_data = re.sub(r"data:[^\"]*|http-equiv", "", page)
    assert not re.search(r"https?:|//cdn|@import|url\(", without_data)


def test_the_page_says_how_to_look_into_the_rollouts(runs, tmp_path, no_figures):
    page = write_report([load_comparison([runs], Choices())], tmp_path, "t").page.read_text()
    assert f"pods inspect {runs}" in page


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["x", "--clock", "update=fast"], "'update=fast' is not understood"),
        (["nowhere"], "no run in nowhere"),
    ],
)
def test_a_wrong_command_line_says_what_to_do(words, says):
    with pytest.raises(PodsError, match=re.escape(says)):
        pods(*words)


def test_a_reference_can_be_named(runs, tmp_path, capsys, no_figures):
    pods(runs, "--out", tmp_path, "--reference", "pods")
    assert "| speed-up over pods | 0.33x | reference |" in capsys.readouterr().out


@pytest.mark.slow
def test_published_results_are_reported_with_a_figure_set_for_each_experiment(tmp_path, capsys):
    measured = {"ans_acc": 0.5, "for_acc": 1, "both_acc": 0.5, "lengths": 9}
    block = {"gsm8k": {name: [value] * 5 for name, value in measured.items()}}
    for setting in ("16-16", "64-16", "64-8"):
        better = {"gsm8k": {**block["gsm8k"], "ans_acc": [0.6] * 5}}
        blocks = {f"checkpoint-{i}": block if i < 9 else better for i in range(1, 13)}
        path = tmp_path / "results" / f"Instruct-GSM8K-512-{setting}-Run1.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(blocks))
    assert published.main([str(tmp_path / "results"), "--out", str(tmp_path / "out")]) == 0
    assert published.main([str(tmp_path / "nowhere")]) == 2
    assert len(list((tmp_path / "out" / "figures").iterdir())) == 2 * 3 * 2
    assert capsys.readouterr().out.count("## GSM8K") == 2


def test_a_run_with_evaluations_and_without_phases_has_all_figures(tmp_path):
    run = write_run(tmp_path / "runs", "grpo", 0, (0.1, 0.4, 0.6, 0.8))
    lines = (run.path / "metrics.jsonl").read_text()
    untimed = re.sub(r'("pods/seconds_[a-z]+"): [^,}]*', r"\1: null", lines)
    assert untimed != lines
    (run.path / "metrics.jsonl").write_text(untimed)
    comparison = load_comparison([tmp_path / "runs"], Choices())
    assert comparison.arms[0].phases == {}
    write_report([comparison], tmp_path / "report", "t")
    figures = {path.stem for path in (tmp_path / "report" / "figures").iterdir()}
    assert figures == {"accuracy", "seconds_per_step", "length"}


def test_a_report_of_rewards_speaks_of_rewards_everywhere(tmp_path):
    for arm, best in (("grpo", -5.0), ("pods", -4.0)):
        for seed in (0, 1):
            run = write_run(tmp_path / "runs" / arm / str(seed), arm, seed, (0.1, 0.2, 0.3))
            points = evaluations(run)
            (run.path / "evaluations.jsonl").unlink()
            for point, reward in zip(points, (-10.0, -8.0, best), strict=True):
                append_evaluation(run, replace(point, rewards=[[reward, reward]]))
    report = write_report([load_comparison([tmp_path / "runs"], Choices())], tmp_path, "t")
    figures = {path.stem for path in (tmp_path / "figures").iterdir()}
    assert figures == {"reward", "seconds_per_step", "length"}

    page = re.sub(r"src=\"[^\"]*\"", "", report.page.read_text())
    assert "<strong>-10.00 → -4.00</strong> <span>pods: mean reward, in 20 steps" in page
    assert "reference's mean reward first reaches 99 % of its rise" in page
    assert "Reward (mean reward) over training time." in page
    assert "99 % of the rise of the arm to compare with" in page
    assert "ccuracy" not in page
