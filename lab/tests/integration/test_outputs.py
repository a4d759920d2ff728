"""What the commands of the laboratory write never takes a file of the user's."""

import shutil

import pytest

pytest.importorskip("trl")

from podsrl.cli import main
from podsrl.rollout_log.output import is_own_page
from podsrl.rollout_log.run_folder import RunFolder
from support.synthetic_runs import write_run


@pytest.fixture
def runs(tmp_path):
    for arm in ("grpo", "pods"):
        write_run(tmp_path / "runs" / arm, arm, 0, (0.1, 0.5, 0.8))
    return tmp_path / "runs"


def content(folder):
    return {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}


def refused(words, folder, capsys):
    """The one line that says why; the folder is as it was, without a file more."""
    before = content(folder)
    assert main([str(word) for word in words]) == 2
    assert content(folder) == before
    return capsys.readouterr().err.splitlines()[-1]


# ---- pods report ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["report.html", "summary.md", "summary.json", "figures/accuracy.png"]
)
def test_a_report_replaces_no_file_of_somebody_else(name, runs, tmp_path, capsys):
    mine = tmp_path / "paper" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    line = refused(["report", runs, "--out", tmp_path / "paper"], tmp_path, capsys)
    assert line.startswith(f"pods report: {mine} would be overwritten")


def test_nor_a_folder_or_what_a_link_leads_to(runs, tmp_path, capsys):
    (tmp_path / "a" / "summary.md").mkdir(parents=True)
    assert "summary.md would be" in refused(["report", runs, "--out", tmp_path / "a"], runs, capsys)

    (tmp_path / "b").mkdir()
    (tmp_path / "thesis.md").write_text("mine")
    (tmp_path / "b" / "summary.md").symlink_to(tmp_path / "thesis.md")
    assert "summary.md would be" in refused(["report", runs, "--out", tmp_path / "b"], runs, capsys)

    (tmp_path / "c").write_text("mine")
    assert "can't write to" in refused(["report", runs, "--out", tmp_path / "c"], runs, capsys)


def test_a_report_takes_the_place_of_an_earlier_one_and_of_what_a_kill_left(runs, tmp_path):
    out = tmp_path / "report"
    words = ["report", str(runs), "--out", str(out)]
    assert main(words) == 0
    assert is_own_page(out / "report.html")
    first = content(out)

    (out / "summary.md").unlink()  # the page is there first
    shutil.rmtree(out / "figures")
    (out / "notes.txt").write_text("mine")
    assert main(words) == 0
    assert content(out).keys() == first.keys() | {out / "notes.txt"}
    assert main([*words, "--clock", "generate=1,update=1"]) == 0  # under names of its own
    assert (out / "summary.md").read_bytes() == first[out / "summary.md"]


# ---- pods train and pods compare -----------------------------------------------------------------


@pytest.mark.parametrize("arm", ["", "arm: pods\n"])
def test_a_run_does_not_write_its_config_over_the_one_that_it_reads(
    arm, config, tmp_path, capsys, monkeypatch
):
    path = tmp_path / "config.yaml"
    config()
    path.write_text(path.read_text() + arm)
    monkeypatch.chdir(tmp_path)
    words = ["train", "--config", "config.yaml", "--output_dir", "."]
    line = refused(words, tmp_path, capsys)
    assert line.startswith("pods train: --config config.yaml is where the run would write its own")


def test_a_run_starts_in_no_folder_with_a_config_of_something_else(config, tmp_path, capsys):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "config.yaml").write_text("database: sqlite\n")
    line = refused(["train", "--config", config(), "--output_dir", folder], folder, capsys)
    assert "holds files that are not a run's" in line


def test_a_run_that_ended_before_its_first_step_may_start_again(config, tmp_path):
    RunFolder(tmp_path / "run").write_config({"arm": "pods", "seed": 0})
    words = ["train", "--config", config(max_steps=1), "--dry-run"]
    assert main(words) == 0


@pytest.mark.parametrize("folder", [".", ".."])
def test_a_demo_wants_a_folder_by_its_name(folder, tmp_path, capsys, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    line = refused(["demo", "--output_dir", folder], tmp_path, capsys)
    assert line.startswith(f"pods demo: --output_dir {folder} has no name of its own")


def test_a_comparison_starts_in_no_folder_with_other_files(tmp_path, capsys):
    (tmp_path / "comparison").mkdir()
    (tmp_path / "comparison" / "notes.txt").write_text("mine")
    script = tmp_path / "train.py"
    script.write_text("print('never run')\n")
    for words in (["--config", "demo"], [script]):
        words = ["compare", *words, "--output_dir", tmp_path / "comparison"]
        assert "holds files that are no comparison's" in refused(words, tmp_path, capsys)
