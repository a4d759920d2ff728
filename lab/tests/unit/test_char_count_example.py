"""examples/char_count.py: its solutions are right, and nothing but one right box counts."""

from pathlib import Path

from podsrl.plugins import import_module_or_file

EXAMPLE = Path(__file__).parents[3] / "examples" / "char_count.py"


def test_only_one_box_with_the_right_number_counts():
    task = import_module_or_file(str(EXAMPLE)).CharCount(train_size=64, test_size=64)
    for row in (*task.load("train"), *task.load("test")):
        words = row["question"].split()
        letter = words[2]
        word = words[-1].rstrip("?")
        assert row["answer"] == str(word.split("-").count(letter))
        assert task.grade(row["solution"], row).answer
        assert not task.grade(rf"\boxed{{{int(row['answer']) + 1}}}", row).answer
        assert not task.grade(row["solution"] * 2, row).answer
        assert not task.grade(row["answer"], row).answer

    train = {row["question"] for row in task.load("train")}
    test = {row["question"] for row in task.load("test")}
    assert len(train & test) < 3
