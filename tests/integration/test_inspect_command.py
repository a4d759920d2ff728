"""`pods inspect`: where its page goes, what is on it, and what it refuses."""

import pytest

from podsrl.cli import main
from podsrl.rollout_log.inspector import pack_rollouts
from podsrl.rollout_log.run_folder import DamagedFileWarning, RunFolder
from support.synthetic_rollouts import rollouts


def write_run(folder, steps=(1,), **kinds):
    run = RunFolder(folder)
    run.write_config({"arm": "pods", "seed": 0})
    for step in steps:
        run.write_rollouts(step, rollouts(**kinds))
    return run


def test_the_page_lies_beside_the_rollouts_unless_another_place_is_given(tmp_path, capsys):
    write_run(tmp_path / "out")
    assert main(["inspect", str(tmp_path / "out")]) == 0
    page = tmp_path / "out" / "rollouts.html"
    assert capsys.readouterr().out == f"wrote {page} (open it in a browser)\n"
    there = tmp_path / "elsewhere" / "page.html"
    assert main(["inspect", str(tmp_path / "out"), "--output", str(there)]) == 0
    assert there.read_bytes() == page.read_bytes()


def test_runs_of_a_folder_are_named_by_their_paths(tmp_path):
    for name in ("grpo/seed-0", "grpo/seed-1", "pods/seed-0"):
        write_run(tmp_path / "runs" / name)
    assert main(["inspect", str(tmp_path / "runs")]) == 0
    page = (tmp_path / "runs" / "rollouts.html").read_text()
    for name in ("grpo/seed-0", "grpo/seed-1", "pods/seed-0"):
        assert f'"name": "{name}"' in page


def test_a_page_of_fewer_rollouts_has_evenly_spaced_steps_and_says_so(tmp_path):
    run = write_run(tmp_path, steps=range(1, 12), groups=2, n=4)  # 8 rollouts in each of 11 steps
    packed = pack_rollouts([("a", run)], limit=24)
    assert [step["step"] for step in packed.index["runs"][0]["steps"]] == [1, 6, 11]
    assert packed.note.startswith("24 of 88 rollouts are on this page, in evenly spaced steps")
    assert pack_rollouts([("a", run)], limit=88).note == ""


def test_a_damaged_step_is_left_out_and_the_page_says_so(tmp_path):
    run = write_run(tmp_path, steps=(1, 2))
    run.rollout_parts(2)[0].write_bytes(b"PAR1 no")
    with pytest.warns(DamagedFileWarning, match=r"step_000002/rank_0_of_1\.parquet is damaged"):
        packed = pack_rollouts([("a", run)], limit=100)
    assert [step["step"] for step in packed.index["runs"][0]["steps"]] == [1]
    assert main(["inspect", str(tmp_path)]) == 0
    assert "step_000002/rank_0_of_1.parquet is damaged" in (tmp_path / "rollouts.html").read_text()


def test_a_folder_without_rollouts_is_refused(tmp_path, capsys):
    assert main(["inspect", str(tmp_path / "nothing")]) == 2
    assert "no run in" in capsys.readouterr().err
    write_run(tmp_path / "off", steps=())
    assert main(["inspect", str(tmp_path / "off")]) == 2
    assert "no rollouts in" in capsys.readouterr().err
    assert not (tmp_path / "off" / "rollouts.html").exists()
