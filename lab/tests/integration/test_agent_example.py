"""examples/agent/hunt.py: its game can be won by its rules only, and it trains and reports."""

import random
import sys
from pathlib import Path

import pytest

pytest.importorskip("trl")

from podsrl.rollout_log.run_folder import RunFolder

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "agent"))
import hunt


@pytest.mark.parametrize("size", [hunt.SMALL_HUNT, hunt.LARGE_HUNT])
def test_who_follows_the_notes_finds_the_gold_and_a_wrong_box_loses(size):
    draw = random.Random(0)
    game = hunt.Hunt()

    for _ in range(50):
        row = hunt.hunt(draw, **size)
        box = int(game.reset(**row).split()[-1].rstrip("."))
        for left in range(size["calls"] - 1, -1, -1):
            found = game.open(box)
            if left:
                side, _, beside = found.split()
                box = int(beside) + (1 if side == "right" else -1)

        assert found == "gold"
        assert game.get_reward() == 1.0
        assert game.open(box) == "lost"  # and who goes on has lost

        game.reset(**row)
        wrong = row["boxes"][0] % size["top"] + 1
        assert [game.open(wrong), game.open(row["boxes"][0])] == ["lost", "lost"]
        assert game.get_reward() == 0.0


def test_careless_games_are_won_every_third_time():
    """0.65 + 0.35 / 8 = 0.694 for a right box, and 0.694 ** 3 = 0.334 for three."""
    draw = random.Random(0)
    won = [hunt.careless_game(draw)[-1][0] == "gold<eos>" for _ in range(5000)]
    assert sum(won) / len(won) == pytest.approx(0.334, abs=0.025)  # 3.7 standard errors


def test_the_example_trains_and_reports(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(hunt.SIZE, "steps", 20)
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    folder = tmp_path / "agent"
    monkeypatch.setattr("sys.argv", ["hunt.py", f"--output_dir={folder}", "--max_steps=2"])
    hunt.main()
    assert "unseen games won: " in capsys.readouterr().out
    run = RunFolder(folder)
    assert run.rollout_steps() == [1, 2]
    table = run.rollouts(2).to_pydict()
    assert (len(table["kept"]), sum(table["kept"])) == (128, 32)
    assert any(turns and '"name":"open"' in turns for turns in table["turns"])
    assert (folder / "rollouts.html").is_file()


@pytest.mark.parametrize(
    ("model", "first", "line"),
    [
        ([], "# two CPU cores, 3 minutes", "num_rollouts: 16"),
        (
            ["--model=Qwen/Qwen2.5-3B-Instruct"],
            "# one GPU of 80 GB, not measured",
            "use_vllm: True",
        ),
    ],
)
def test_the_settings_of_both_sizes_are_printed(model, first, line, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["hunt.py", "--dry-run", *model])
    hunt.main()
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == first
    assert line in printed
