"""Neither `pods inspect --export` nor `pods select --output` takes the place of a user's file."""

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("duckdb")

from podsrl.cli import main
from podsrl.rollout_log.output import PAGE_MARK, OutputFile, is_own_page
from support.inspected import write_run

ROWS = [
    {"prompt": "1 + 1", "completion": str(i), "reward": float(i == 2), "step": 1} for i in range(4)
]


@pytest.fixture
def rollouts(tmp_path):
    """A JSONL file of the user's."""
    path = tmp_path / "own.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run", steps=(1, 2)).path


def content(folder):
    """Every file below a folder, with its bytes and where it links to."""
    return {
        path.relative_to(folder): (path.is_symlink(), path.read_bytes() if path.is_file() else None)
        for path in folder.rglob("*")
    }


def refused(words, folder, capsys):
    """The one line that says why; the folder is as it was, without a file more."""
    before = content(folder)
    assert main([str(word) for word in words]) == 2
    assert content(folder) == before
    [line] = capsys.readouterr().err.splitlines()
    return line


# ---- pods inspect --export -----------------------------------------------------------------------


def test_a_page_does_not_replace_the_rollouts_that_it_shows(rollouts, tmp_path, capsys):
    line = refused(["inspect", rollouts, "--export", rollouts], tmp_path, capsys)
    assert line == f"pods inspect: --export {rollouts} is the file that is read: name another one"


@pytest.mark.parametrize("link", [os.symlink, os.link])
@pytest.mark.parametrize("is_the_input", ["--export", "PATH"])
def test_nor_by_another_name_of_theirs(link, is_the_input, rollouts, tmp_path, capsys):
    other = tmp_path / "page.html"
    link(rollouts, other)
    words = ["inspect", rollouts, "--export", other]
    if is_the_input == "PATH":
        other.rename(tmp_path / "linked.jsonl")
        words = ["inspect", tmp_path / "linked.jsonl", "--export", rollouts]
    assert "is the file that is read" in refused(words, tmp_path, capsys)


def test_nor_where_the_working_directory_makes_the_paths_differ(
    rollouts, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    line = refused(["inspect", rollouts, "--export", "./own.jsonl"], tmp_path, capsys)
    assert "is the file that is read" in line


@pytest.mark.parametrize("name", ["config.yaml", "metrics.jsonl", "finished.json", "page"])
def test_a_page_takes_no_name_that_a_run_or_anything_else_may_have(name, run, tmp_path, capsys):
    line = refused(["inspect", run, "--export", run / name], tmp_path, capsys)
    assert line == f"pods inspect: --export {run / name} must end in .html or .htm"


def test_a_page_does_not_take_the_place_of_a_folder(run, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refused(["inspect", run, "--export", "."], tmp_path, capsys) == (
        "pods inspect: --export . is a folder: name a file in it"
    )
    (tmp_path / "pages.html").mkdir()
    assert "is a folder" in refused(["inspect", run, "--export", "pages.html"], tmp_path, capsys)


@pytest.mark.parametrize("text", ["<!doctype html>\n<title>A thesis</title>", "", "\0\xff"])
def test_a_page_of_somebody_else_stays(text, run, tmp_path, capsys):
    page = tmp_path / "thesis.html"
    page.write_text(text)
    assert refused(["inspect", run, "--export", page], tmp_path, capsys) == (
        f"pods inspect: --export {page} exists, and this command did not make it: name another"
        " file, or remove it"
    )


def test_a_page_of_our_own_is_replaced_and_a_link_to_it_stays_a_link(run, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["inspect", str(run), "--export", str(page)]) == 0
    assert is_own_page(page)
    both = page.stat().st_size

    link = tmp_path / "newest.html"
    link.symlink_to(page)
    assert main(["inspect", str(run), "--export", str(link), "--step", "1"]) == 0
    assert link.is_symlink()
    assert 0 < page.stat().st_size < both
    assert not list(tmp_path.glob(".*"))  # nothing half-written is left


def test_one_missing_folder_is_made_and_a_mistyped_path_is_told(run, tmp_path, capsys):
    page = tmp_path / "pages" / "page.html"
    assert main(["inspect", str(run), "--export", str(page)]) == 0
    assert is_own_page(page)

    page = tmp_path / "pgaes" / "new" / "page.html"
    capsys.readouterr()
    assert refused(["inspect", run, "--export", page], tmp_path, capsys) == (
        f"pods inspect: --export {page} can't be written: the folder {tmp_path / 'pgaes'} does not"
        " exist. Make it first, if that is the path that you mean"
    )


def test_a_file_in_the_place_of_a_folder_is_told(rollouts, tmp_path, capsys):
    page = rollouts / "page.html"
    line = refused(["inspect", rollouts, "--export", page], tmp_path, capsys)
    assert f"the folder {rollouts} is a file" in line


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="a folder that nobody can write to")
def test_a_folder_that_can_not_be_written_to_is_told_before_the_rollouts_are_read(run, capsys):
    assert main(["inspect", str(run), "--export", "/proc/page.html"]) == 2
    assert "--export /proc/page.html can't be written: /proc: " in capsys.readouterr().err


def test_a_page_that_fails_leaves_the_one_before_it(run, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["inspect", str(run), "--export", str(page)]) == 0
    capsys.readouterr()
    words = ["inspect", run, "--export", page, "--step", "99"]
    assert "no rollouts of these steps" in refused(words, tmp_path, capsys)


def test_what_comes_there_while_the_page_is_made_stays(tmp_path):
    page = tmp_path / "page.html"
    output = OutputFile(page, "--export", (".html",), is_own=is_own_page)
    output.check()
    page.write_text("<title>A thesis</title>")
    with pytest.raises(ValueError, match="exists"):
        output.write(PAGE_MARK)
    assert page.read_text() == "<title>A thesis</title>"


def test_what_breaks_while_it_is_written_leaves_the_file_of_before(tmp_path):
    page = tmp_path / "page.html"
    output = OutputFile(page, "--export", (".html",), is_own=is_own_page)
    output.write(PAGE_MARK + b"before")

    def write_half():
        with output.writing() as part:
            part.write_bytes(b"half")
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk"):
        write_half()
    assert page.read_bytes() == PAGE_MARK + b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


# ---- pods select --output ------------------------------------------------------------------------


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
def test_what_is_kept_does_not_replace_what_it_was_chosen_from(link, rollouts, tmp_path, capsys):
    output = rollouts
    if link is not None:
        output = tmp_path / "kept.jsonl"
        link(rollouts, output)
    words = ["select", rollouts, "--keep", "2", "--output", output]
    assert "is the file that is read" in refused(words, tmp_path, capsys)


def test_what_was_kept_before_stays(rollouts, tmp_path, capsys):
    kept = tmp_path / "kept.jsonl"
    words = ["select", str(rollouts), "--keep", "2", "--output", str(kept)]
    assert main(words) == 0
    capsys.readouterr()
    assert "exists, and this command did not make it" in refused(words, tmp_path, capsys)


def test_what_is_kept_is_not_put_among_what_is_read(run, tmp_path, capsys):
    within = run / "rollouts" / "step_000003" / "rank_0_of_1.parquet"
    within.parent.mkdir()
    for output in (within, run / "kept.parquet"):
        words = ["select", run, "--keep", "2", "--output", output]
        assert "is in the folder that is read" in refused(words, tmp_path, capsys)


@pytest.mark.parametrize("name", ["kept.parquet", "kept.txt", "kept"])
def test_what_is_kept_of_jsonl_is_jsonl(name, rollouts, tmp_path, capsys):
    words = ["select", rollouts, "--keep", "2", "--output", tmp_path / name]
    assert "must end in .jsonl" in refused(words, tmp_path, capsys)


def test_select_writes_into_no_folder_that_was_mistyped_and_none_in_its_place(
    run, tmp_path, capsys
):
    (tmp_path / "there.parquet").mkdir()
    words = ["select", run, "--keep", "2", "--output"]
    line = refused([*words, tmp_path / "a" / "b" / "kept.parquet"], tmp_path, capsys)
    assert f"the folder {tmp_path / 'a'} does not exist" in line
    assert "is a folder" in refused([*words, tmp_path / "there.parquet"], tmp_path, capsys)
    assert main([*map(str, words), str(tmp_path / "a" / "kept.parquet")]) == 0
