"""Whatever a user mistypes: exit code 2, one line, and nothing on the disk has changed."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from podsrl.cli import main
from podsrl.rollout_log import files
from support.synthetic_runs import write_run
from support.tiny_run import TINY_RUN

CHANGES: list[dict[str, Any]] = [
    {"arms": {"x": {"like": "grop"}}},
    {"arms": {"x": {"learning_rat": 1e-5}}},
    {"arms": {}},
    {"settings": {"max_completion_length": "long"}},
    {"seeds": 0},
    {"budget": {"hours": 1}},
    {"evaluations": -1},
    {"sedes": 1},
]


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in with a file and a run, and configs that are right."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-file").write_text("mine")
    write_run(tmp_path / "a-run", "pods", 0, (0.1, 0.5))

    settings = {**TINY_RUN, "model_name_or_path": "tiny"}
    right = yaml.safe_dump({**settings, "output_dir": "new/out"})
    (tmp_path / "right.yaml").write_text(right)
    (tmp_path / "twice.yaml").write_text(f"{right}max_steps: 4\n")
    (tmp_path / "broken.py").write_text("def task(:\n")
    (tmp_path / "broken.yaml").write_text("a: [1\nb")

    del settings["max_steps"]  # a comparison has a budget
    comparison = {
        "settings": {**settings, "lr_scheduler_type": "constant"},
        "arms": {"grpo": {}, "pods": {}},
        "seeds": 1,
        "budget": {"steps": 2},
        "output_dir": "new/out",
    }
    for number, change in enumerate([{}, *CHANGES]):
        own = {**comparison["settings"], **change.get("settings", {})}
        changed = {**comparison, **change, "settings": own}
        (tmp_path / f"comparison-{number}.yaml").write_text(yaml.safe_dump(changed))
    return tmp_path


def test_every_mistake_is_one_line_and_changes_nothing(bed, capsys):
    train = ["train", "--config", "right.yaml"]
    compare = ["compare", "--config", "comparison-0.yaml"]
    evaluate = ["evaluate", "tiny", "--task", "arithmetic"]
    mistakes = [
        [*train, "--output_dir", "a-file"],
        [*train, "--output_dir", "a-file/below"],
        [*train, "--output_dir", "a-run"],
        [*train, "--model_name_or_path", "./none"],
        [*train, "--model_name_or_path", "a-file"],
        [*train, "--model_name_or_path", "a-run"],
        [*train, "--data_path", "none"],
        ["train", "--config", "none.yaml"],
        ["train", "--config", "twice.yaml"],
        ["train", "--config", "broken.yaml"],
        [*train, "--downsampling_rule", "max_varience"],
        [*train, "--downsampling_rule", "broken.py:rule"],
        [*train, "--task", "broken.py"],
        [*train, "--task_options", "[1]"],
        [*train, "--evaluation_batch_size", "0"],
        [*train, "--max_unscorable", "2"],
        [*train, "--lr_scheduler_type", "constantt"],
        [*train, "--learning_rates", "1"],
        [*train, "stray"],
        [*compare, "--output_dir", "a-file"],
        [*compare, "--shard", "3/2"],
        ["demo", "--output_dir", "a-file"],
        ["demo", "--max_stpes", "3"],
        [*evaluate, "--data_path", "none"],
        [*evaluate, "--problems", "0"],
        ["evaluate", "a-run", "--task", "arithmetic"],
        ["report", "none"],
        ["report", "a-file"],
        ["report", ""],
        ["report", "a-run", "--out", "a-file"],
        ["report", "a-run", "--reference", "grop", "--out", "new/out"],
        ["tasks", "chekc"],
        ["tasks", "check", "arithmetic", "--split", "dev"],
        ["recommend", "none"],
        ["recommend", "a-run", "--memory", "-1"],
        ["compare", "none.py"],
        ["compare", "train.py", "--methods", "grop"],
    ]
    for number in range(1, 1 + len(CHANGES)):
        mistakes.append(["compare", "--config", f"comparison-{number}.yaml"])

    before = contents(bed)
    for words in mistakes:
        assert main(words) == 2, words
        said = capsys.readouterr().err
        assert said.startswith(f"pods {words[0]}: "), words
        assert said.count("\n") == 1, (words, said)
        assert len(said) < 600, (words, said)
        assert contents(bed) == before, words


def contents(folder: Path) -> dict[Path, bytes]:
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            found[path] = path.read_bytes()
    return found


@pytest.mark.parametrize(("verb", "options"), [("report", ["--out"]), ("recommend", [])])
def test_steps_of_two_processes_out_of_order_end_a_command_in_one_line(
    tmp_path, capsys, verb, options
):
    folder = tmp_path / "run"
    write_run(folder, "pods", 0, (0.1, 0.5))
    path = folder / "metrics.jsonl"
    rows = files.read_lines(path)
    for row in [*rows, *rows]:
        files.append_line(path, row)
    words = [*options, str(tmp_path / "out")] if options else []
    assert main([verb, str(folder), *words]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"{path} has step" in said
    assert "several runs wrote into this folder" in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--dryrun"], "unknown option --dryrun; did you mean '--dry-run'"),
        (["--dry_run"], "unknown option --dry_run; did you mean '--dry-run'"),
        (["--dry-run", "--max_steps", "0"], "max_steps=0; allowed: 1 or more"),
        (["--dry-run", "--max_steps", "-3"], "max_steps=-3; allowed: 1 or more"),
        (["--dry-run", "--temperature", "0"], "temperature=0.0; allowed: above 0"),
        (["--dry-run", "--gradient_accumulation_steps", "0"], "gradient_accumulation_steps=0;"),
        (["--dry-run", "--per_device_train_batch_size", "-8"], "per_device_train_batch_size=-8;"),
        (["--dry-run", "--lora_r", "8"], "lora_r is given, and use_peft is not"),
        (["--dry-run", "--lora-alpha=8"], "lora_alpha is given, and use_peft is not"),
        (["--lr", "1e-5"], "unknown flag 'lr'; did you mean 'learning_rate'?"),
        (["--group-size=8"], "unknown flag 'group-size'; did you mean 'num_rollouts'?"),
        (["--dry-run", "--deepspeed", "none.json"], "deepspeed"),
    ],
)
def test_a_dry_run_refuses_what_a_run_would_do_otherwise(bed, capsys, words, says):
    assert main(["train", "--config", "right.yaml", *words]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("name", ["demo", "comparison-0.yaml", "demo-smollm2"])
def test_a_config_of_a_comparison_is_no_runs(bed, capsys, name):
    assert main(["train", "--config", name, "--dry-run"]) == 2
    assert f"with several arms: pods compare --config {name}" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["nowhere", "owner/nowhere", "gpt2"])
def test_a_dry_run_says_that_it_did_not_ask_the_hub(bed, capsys, name):
    assert main(["train", "--config", "right.yaml", "--model", name, "--dry-run"]) == 0
    assert f"there is no folder {name}: when the run starts, the hub" in capsys.readouterr().out
    assert main(["train", "--config", "right.yaml", "--dry-run"]) == 0
    assert "the hub" not in capsys.readouterr().out


def test_a_config_given_to_recommend_is_told(bed, capsys):
    assert main(["recommend", "right.yaml"]) == 2
    assert "right.yaml is a config, and no run" in capsys.readouterr().err
