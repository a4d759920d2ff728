"""The paper's experiments: each loads, is sized as the paper says, and trains a tiny model."""

from typing import Any

import pytest

pytest.importorskip("trl")

from podslab.comparison.comparison import ComparisonSpec, RunOf
from podslab.comparison.comparison_config import parse_comparison
from podslab.evaluation.records import evaluations
from podslab.tasks import get_task
from podslab.training.config_file import CONFIGS, read_config
from podslab.training.preflight import reward_functions as run_rewards
from podslab.training.preview import Preview
from podslab.training.spec import Spec, parse
from podsrl.cli import main
from podsrl.rollout_log.run_folder import RunFolder
from support.data import SAMPLE

QWEN, LLAMA = "Qwen/Qwen2.5-3B-Instruct", "meta-llama/Llama-3.2-3B-Instruct"
#: name: model, task, n, m, prompts per step, rollouts per step, beta, completion tokens, hours
SETTINGS = {
    "a-gsm8k": (QWEN, "gsm8k", 64, 16, 1, 64, 0.0, 512, 6.0),
    "b-math": (QWEN, "math", 32, 8, 1, 32, 0.0, 512, 6.0),
    "c-gsm8k-llama": (LLAMA, "gsm8k", 64, 16, 1, 64, 0.04, 512, 1.5),
    "d-chemistry": (QWEN, "sciknoweval", 64, 16, 1, 64, 0.0, 512, 6.0),
    "e-gsm8k-8xh100": (QWEN, "gsm8k", 128, 32, 16, 2048, 0.0, 1024, 0.5),
    "f-gsm8k-8xa100": ("Qwen/Qwen2.5-7B-Instruct", "gsm8k", 128, 32, 16, 2048, 0.0, 1024, 0.5),
}
#: What a machine without a GPU needs otherwise.
ON_A_CPU = {"use_vllm": False, "bf16": False, "use_cpu": True, "dtype": "float32"}
FOLDERS = {"gsm8k": "gsm8k", "math": "math500", "sciknoweval": "sciknoweval"}


def load(name: str, **fields: Any) -> Spec:
    return parse({**read_config(f"paper/{name}"), **ON_A_CPU, **fields})


def compare_spec(name: str) -> ComparisonSpec:
    config = read_config(f"compare/paper-{name}")
    return parse_comparison({**config, "settings": ON_A_CPU}, name)


def sizes_of(spec: ComparisonSpec) -> dict[str, tuple[Any, ...]]:
    """Of each arm: n, m, rows per micro-batch, accumulation and the rule."""
    found = {}
    for arm in spec.arms:
        args = spec.run_spec(RunOf(arm, spec.seeds[0])).training
        batch = args.per_device_train_batch_size, args.gradient_accumulation_steps
        found[arm] = (args.num_rollouts, args.num_generations, *batch, args.downsampling_rule)
    return found


def test_every_shipped_paper_config_is_one_of_the_papers():
    names = sorted(path.stem for path in (CONFIGS / "paper").glob("*.yaml"))
    assert names == sorted([*SETTINGS, "v1-gsm8k"])


def test_the_first_versions_figure_has_its_settings():
    spec = load("v1-gsm8k")
    args = spec.training
    assert (spec.model.model_name_or_path, spec.run.task) == (QWEN, "gsm8k")
    assert (spec.model.lora_r, spec.model.lora_alpha) == (64, 64)
    assert (args.num_rollouts, args.num_generations, Preview.of(spec).prompts) == (32, 16, 1)
    assert (args.learning_rate, args.weight_decay, args.max_grad_norm) == (5e-6, 0.1, 1.0)
    assert args.lr_scheduler_type == "constant_with_warmup"
    assert args.warmup_steps == 0.01 * args.max_steps
    assert args.max_completion_length == 1024
    assert args.max_steps / spec.run.evaluations == 100
    assert spec.run.evaluation_repeats == 5


def test_the_first_versions_comparison_is_grpo_against_pods_on_eight_seeds():
    spec = compare_spec("v1-gsm8k")
    assert (len(spec.seeds), spec.unit, spec.amount / spec.evaluations) == (8, "steps", 100)
    assert sizes_of(spec) == {
        "grpo": (16, 16, 16, 1, "max_variance"),
        "pods": (32, 16, 16, 1, "max_variance"),
    }


def test_the_ablation_of_sizes_changes_n_and_m_at_one_prompt_per_step():
    spec = compare_spec("sizes-gsm8k")
    assert {(n, m) for n, m, *_ in sizes_of(spec).values()} == {
        *((n, 16) for n in (16, 32, 64, 128, 256)),
        *((64, m) for m in (2, 4, 8, 16)),
    }
    assert all(m == rows and steps == 1 for _, m, rows, steps, _ in sizes_of(spec).values())


def test_the_ablation_of_rules_changes_nothing_else():
    found = sizes_of(compare_spec("rules-gsm8k"))
    assert {tuple(sizes) for *sizes, _ in found.values()} == {(64, 16, 16, 1)}
    rules = {arm: rule for arm, (*_, rule) in found.items()}
    names = ("max_reward", "random", "percentile")
    assert rules == {"pods": "max_variance", **{name: name for name in names}}


@pytest.mark.parametrize("name", ["small-v1", "small-settings", "small-sizes", "small-rules"])
def test_a_small_version_has_the_arms_of_its_experiment(name):
    found = sizes_of(parse_comparison(read_config(f"compare/{name}"), name))
    own = {arm: (n, m, rule) for arm, (n, m, *_, rule) in found.items()}
    grpo, ga, pods = ((n, m, "max_variance") for n, m in ((16, 16), (64, 64), (64, 16)))
    rules = {rule: (64, 16, rule) for rule in ("max_reward", "random", "percentile")}
    generated = {f"n{n}": (n, 16, "max_variance") for n in (128, 256)}
    kept = {f"m{m}": (64, m, "max_variance") for m in (2, 4, 8)}
    pods_32 = {"pods_32": (32, 16, "max_variance")}
    assert (
        own
        == {
            "small-v1": {"grpo": grpo, **pods_32},
            "small-settings": {"grpo": grpo, "grpo_ga": ga, "pods": pods},
            "small-sizes": {
                "grpo": grpo,
                "grpo_ga": ga,
                "pods": pods,
                **kept,
                **generated,
                **pods_32,
            },
            "small-rules": {"pods": pods, **rules},
        }[name]
    )
    assert all(rows * steps == m for n, m, rows, steps, _ in found.values())  # one prompt per step


FORM = "<think>so</think>\n<answer>{}</answer>"
WRONG, RIGHT = FORM.format("no number"), FORM.format("{gold}")


# what each text earns: 1 for the answer, e for the form (less 1 % a character outside), t a tag
@pytest.mark.parametrize(
    ("name", "form", "tag", "right_too"),
    [
        ("v1-gsm8k", 0.1, 0.025, False),
        ("a-gsm8k", 0.1, 0.025, False),
        ("b-math", 0.0, 0.0, False),
        ("c-gsm8k-llama", 0.01, 0.0025, True),
        ("d-chemistry", 0.01, 0.0025, True),
        ("e-gsm8k-8xh100", 1.0, 0.25, True),
        ("f-gsm8k-8xa100", 1.0, 0.25, True),
    ],
)
def test_rewards_are_those_of_the_authors_code(name, form, tag, right_too):
    spec = load(name)
    task = get_task(spec.run.task)
    weights = spec.training.reward_weights or []
    shaped = 1.0 + right_too * (form + 4 * tag)
    for text, expected in {
        WRONG: form + 4 * tag,
        f"{WRONG} and so": 0.93 * form + 4 * tag,
        "<think>so</think> then <answer>no number</answer>": 4 * tag,
        "<answer>no number</answer>": 2 * tag,
        "no number": 0.0,
        RIGHT.format(gold=task.example["answer"]): shaped,
    }.items():
        rewards = run_rewards(task, spec.run.form_reward)
        scores = [f([text], **{k: [v] for k, v in task.example.items()}) for f in rewards]
        assert len(weights) == len(scores)
        total = sum(w * score[0] for w, score in zip(weights, scores, strict=True))
        assert total == pytest.approx(expected), text


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_has_the_papers_sizes(name):
    model, task, n, m, prompts, rollouts, beta, tokens, hours = SETTINGS[name]
    spec = load(name)
    preview, args = Preview.of(spec), spec.training
    assert spec.model.model_name_or_path == model
    assert spec.run.task == task
    assert (args.num_rollouts, args.num_generations) == (n, m)
    assert (preview.prompts, preview.rollouts, preview.rows) == (prompts, rollouts, prompts * m)
    assert (args.beta, args.max_completion_length) == (beta, tokens)
    assert spec.run.max_training_seconds == 3600 * hours
    assert args.learning_rate == 5e-6
    assert args.lr_scheduler_type == "constant"
    if spec.model.use_peft:
        assert (spec.model.lora_r, args.weight_decay, args.max_grad_norm) == (64, 0.1, 0.1)
        assert args.temperature == 0.9
    else:
        assert (preview.processes, args.per_device_train_batch_size) == (8, 16)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_dry_run_prints_sizes_and_the_launch_command(name, capsys):
    _, _, n, m, prompts, rollouts, *_ = SETTINGS[name]
    assert main(["train", "--config", f"paper/{name}", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert f"{prompts} prompts x {n} rollouts = {rollouts} rollouts" in printed
    assert f"keep        {m} of {n} per prompt by max_variance" in printed
    start = "accelerate launch --num_processes 8" if name[0] in "ef" else "pods train"
    assert f"launch      {start}" in printed


@pytest.mark.parametrize("name", SETTINGS)
def test_its_comparison_has_the_papers_arms(name):
    spec = compare_spec(name)
    _, _, n, m, *_, hours = SETTINGS[name]
    sizes = {}
    for arm in spec.arms:
        args = spec.run_spec(RunOf(arm, spec.seeds[0])).training
        sizes[arm] = (args.num_rollouts, args.num_generations, args.gradient_accumulation_steps)
    if name[0] in "ef":
        assert sizes == {"grpo_ga": (32, 32, 16), "pods": (128, 32, 4)}
        assert len(spec.seeds) == 5
    else:
        assert sizes == {"grpo": (m, m, 1), "pods": (n, m, 1)}
        assert len(spec.seeds) == 10
    assert (spec.unit, spec.amount) == ("training_seconds", 3600 * hours)
    minutes = {"c": 10, "e": 2, "f": 2}.get(name[0], 30)
    assert spec.amount / spec.evaluations == 60 * minutes


@pytest.mark.parametrize("name", sorted(p.stem for p in (CONFIGS / "compare").glob("*.yaml")))
def test_every_shipped_comparison_has_a_dry_run_without_a_gpu(name, capsys):
    assert main(["compare", "--config", f"compare/{name}", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "of training time in all" in printed or "1000 steps each" in printed
    assert f"in runs/{name}" in printed


def test_settings_for_eight_processes_are_not_run_on_one_by_accident(capsys, tmp_path, tiny_model):
    flags = ["--model_name_or_path", str(tiny_model), "--output_dir", str(tmp_path / "run")]
    flags += ["--data_path", str(tmp_path), "--use_cpu", "true", "--bf16", "false"]
    row = '{"question": "1+1?", "answer": "#### 2"}\n'
    for split in ("train", "test"):
        (tmp_path / f"{split}.jsonl").write_text(row.replace("1?", f"1? ({split})") * 40)
    assert main(["train", "--config", "paper/e-gsm8k-8xh100", *flags]) == 2
    assert "meant for 8 processes" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_trains_the_tiny_model_in_place_of_its_own(name, tiny_model, tmp_path, capsys):
    task = SETTINGS[name][1]
    folder = SAMPLE / FOLDERS[task]
    overrides: dict[str, Any] = {
        **ON_A_CPU,
        "model_name_or_path": tiny_model,
        "output_dir": tmp_path / "run",
        "data_path": folder,
        "processes": 1,
        "gradient_accumulation_steps": 2 if name[0] in "ef" else 1,  # two groups of 32, or of 16
        "max_steps": 2,
        "max_completion_length": 8,
        "evaluation_problems": 2,
        "evaluation_repeats": 1,
        "evaluations": 1,
        "save_strategy": "no",
    }
    if task == "math":  # of the data here only MATH-500 is the task's
        overrides["train_split"] = "math500"
    flags = [word for key, value in overrides.items() for word in (f"--{key}", str(value))]
    assert main(["train", "--config", f"paper/{name}", *flags]) == 0
    run = RunFolder(tmp_path / "run")
    n, m = SETTINGS[name][2:4]
    last = run.metrics()[-1]
    assert last["step"] == 2
    assert last["pods/rollouts_generated"] * m == last["pods/rollouts_trained"] * n
    assert [e.step for e in evaluations(run)] == [0, 2]
