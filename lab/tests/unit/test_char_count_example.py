"""examples/char_count.py: its solutions are right, and nothing but one right box counts."""

from pathlib import Path

from podsrl.plugins import import_module_or_file

EXAMPLE = Path(__file__).parents[3] / "examples" / "char_count.py"


def test_only_one_box_with_the_right_number_counts():
    task = import_module_or_file(str(EXAMPLE)).CharCount(train_size=64, test_size=64)
    for row in (*task.load("train"), *task.load("test")):
        letter, word = row["question"].split()[2], row["question"].split()[-1].rstrip("?")
        assert row["answer"] == str(word.split("-").count(letter))
        assert task.grade(row["solution"], row).answer
        assert not task.grade(f"\\boxed{{{int(row['answer']) + 1}}}", row).answer
        assert not task.grade(row["solution"] * 2, row).answer
        assert not task.grade(row["answer"], row).answer
    questions = [{row["question"] for row in task.load(split)} for split in ("train", "test")]
    assert len(questions[0] & questions[1]) < 3
