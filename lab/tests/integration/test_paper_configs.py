"""The paper's experiments: each loads, is sized as the paper says, and trains a tiny model."""

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

pytest.importorskip("trl")

from podslab.comparison.comparison import ComparisonSpec, RunKey
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

QWEN = "Qwen/Qwen2.5-3B-Instruct"
LLAMA = "meta-llama/Llama-3.2-3B-Instruct"


@dataclass(frozen=True)
class Setting:
    """What the paper says of a setting; prompts are those of a step."""

    model: str
    task: str
    n: int = 64
    m: int = 16
    prompts: int = 1
    beta: float = 0.0
    completion_tokens: int = 512
    hours: float = 6.0
    minutes_between_evaluations: int = 30

    @property
    def on_eight_gpus(self) -> bool:
        return self.prompts == 16


ON_EIGHT_GPUS: dict[str, Any] = {
    "n": 128,
    "m": 32,
    "prompts": 16,
    "completion_tokens": 1024,
    "hours": 0.5,
    "minutes_between_evaluations": 2,
}
SETTINGS = {
    "a-gsm8k": Setting(QWEN, "gsm8k"),
    "b-math": Setting(QWEN, "math", n=32, m=8),
    "c-gsm8k-llama": Setting(LLAMA, "gsm8k", beta=0.04, hours=1.5, minutes_between_evaluations=10),
    "d-chemistry": Setting(QWEN, "sciknoweval"),
    "e-gsm8k-8xh100": Setting(QWEN, "gsm8k", **ON_EIGHT_GPUS),
    "f-gsm8k-8xa100": Setting("Qwen/Qwen2.5-7B-Instruct", "gsm8k", **ON_EIGHT_GPUS),
}
#: What a machine without a GPU needs otherwise.
ON_A_CPU = {"use_vllm": False, "bf16": False, "use_cpu": True, "dtype": "float32"}
FOLDERS = {"gsm8k": "gsm8k", "math": "math500", "sciknoweval": "sciknoweval"}


def load(name: str, **fields: Any) -> Spec:
    return parse({**read_config(f"paper/{name}"), **ON_A_CPU, **fields})


def compare_spec(name: str) -> ComparisonSpec:
    config = read_config(f"compare/paper-{name}")
    return parse_comparison({**config, "settings": ON_A_CPU}, name)


class Sizes(NamedTuple):
    """What an arm generates and keeps of each prompt, its batches, and its rule."""

    n: int
    m: int
    micro_batch: int
    accumulation: int
    rule: str


def sizes_of(spec: ComparisonSpec) -> dict[str, Sizes]:
    """The sizes of each arm."""
    found = {}
    for arm in spec.arms:
        args = spec.run_spec(RunKey(arm, spec.seeds[0])).training
        found[arm] = Sizes(
            n=args.num_rollouts,
            m=args.num_generations,
            micro_batch=args.per_device_train_batch_size,
            accumulation=args.gradient_accumulation_steps,
            rule=args.downsampling_rule,
        )
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
    found = sizes_of(compare_spec("sizes-gsm8k")).values()
    by_n = {(16, 16), (32, 16), (64, 16), (128, 16), (256, 16)}
    by_m = {(64, 2), (64, 4), (64, 8), (64, 16)}
    assert {(sizes.n, sizes.m) for sizes in found} == by_n | by_m
    for sizes in found:
        assert sizes.micro_batch == sizes.m
        assert sizes.accumulation == 1


def test_the_ablation_of_rules_changes_nothing_else():
    assert sizes_of(compare_spec("rules-gsm8k")) == {
        "pods": (64, 16, 16, 1, "max_variance"),
        "max_reward": (64, 16, 16, 1, "max_reward"),
        "random": (64, 16, 16, 1, "random"),
        "percentile": (64, 16, 16, 1, "percentile"),
    }


#: What each arm of the small versions generates and keeps, and its rule.
SMALL_ARMS = {
    "grpo": (16, 16, "max_variance"),
    "grpo_ga": (64, 64, "max_variance"),
    "pods": (64, 16, "max_variance"),
    "pods_32": (32, 16, "max_variance"),
    "m2": (64, 2, "max_variance"),
    "m4": (64, 4, "max_variance"),
    "m8": (64, 8, "max_variance"),
    "n128": (128, 16, "max_variance"),
    "n256": (256, 16, "max_variance"),
    "max_reward": (64, 16, "max_reward"),
    "random": (64, 16, "random"),
    "percentile": (64, 16, "percentile"),
}


@pytest.mark.parametrize(
    ("name", "arms"),
    [
        ("small-v1", ["grpo", "pods_32"]),
        ("small-settings", ["grpo", "grpo_ga", "pods"]),
        (
            "small-sizes",
            ["grpo", "grpo_ga", "pods", "pods_32", "m2", "m4", "m8", "n128", "n256"],
        ),
        ("small-rules", ["pods", "max_reward", "random", "percentile"]),
    ],
)
def test_a_small_version_has_the_arms_of_its_experiment(name, arms):
    found = sizes_of(parse_comparison(read_config(f"compare/{name}"), name))
    assert sorted(found) == sorted(arms)
    for arm, sizes in found.items():
        assert (sizes.n, sizes.m, sizes.rule) == SMALL_ARMS[arm]
        assert sizes.micro_batch * sizes.accumulation == sizes.m  # one prompt per step


FORM = "<think>so</think>\n<answer>{}</answer>"
WRONG = FORM.format("no number")
RIGHT = FORM.format("{gold}")


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
    well_formed = form + 4 * tag
    expected_of = {
        WRONG: well_formed,
        f"{WRONG} and so": 0.93 * form + 4 * tag,
        "<think>so</think> then <answer>no number</answer>": 4 * tag,
        "<answer>no number</answer>": 2 * tag,
        "no number": 0.0,
        RIGHT.format(gold=task.example["answer"]): 1.0 + (well_formed if right_too else 0.0),
    }

    columns = {name: [value] for name, value in task.example.items()}
    functions = run_rewards(task, spec.run.form_reward)
    for text, expected in expected_of.items():
        total = 0.0
        for weight, function in zip(weights, functions, strict=True):
            (score,) = function([text], **columns)
            total += weight * score
        assert total == pytest.approx(expected), text


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_has_the_papers_sizes(name):
    setting = SETTINGS[name]
    spec = load(name)
    args = spec.training
    preview = Preview.of(spec)

    assert spec.model.model_name_or_path == setting.model
    assert spec.run.task == setting.task
    assert (args.num_rollouts, args.num_generations) == (setting.n, setting.m)
    assert preview.prompts == setting.prompts
    assert preview.rollouts == setting.prompts * setting.n
    assert preview.rows == setting.prompts * setting.m

    assert (args.beta, args.max_completion_length) == (setting.beta, setting.completion_tokens)
    assert spec.run.max_training_seconds == 3600 * setting.hours
    assert args.learning_rate == 5e-6
    assert args.lr_scheduler_type == "constant"

    if spec.model.use_peft:
        assert (spec.model.lora_r, args.weight_decay, args.max_grad_norm) == (64, 0.1, 0.1)
        assert args.temperature == 0.9
    else:
        assert (preview.processes, args.per_device_train_batch_size) == (8, 16)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_dry_run_prints_sizes_and_the_launch_command(name, capsys):
    setting = SETTINGS[name]
    assert main(["train", "--config", f"paper/{name}", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    rollouts = setting.prompts * setting.n
    assert f"{setting.prompts} prompts x {setting.n} rollouts = {rollouts} rollouts" in printed
    assert f"keep        {setting.m} of {setting.n} per prompt by max_variance" in printed
    start = "accelerate launch --num_processes 8" if setting.on_eight_gpus else "pods train"
    assert f"launch      {start}" in printed


@pytest.mark.parametrize("name", SETTINGS)
def test_its_comparison_has_the_papers_arms(name):
    setting = SETTINGS[name]
    spec = compare_spec(name)
    found = {arm: (sizes.n, sizes.m, sizes.accumulation) for arm, sizes in sizes_of(spec).items()}
    if setting.on_eight_gpus:
        assert found == {"grpo_ga": (32, 32, 16), "pods": (128, 32, 4)}
        assert len(spec.seeds) == 5
    else:
        assert found == {"grpo": (setting.m, setting.m, 1), "pods": (setting.n, setting.m, 1)}
        assert len(spec.seeds) == 10
    assert (spec.unit, spec.amount) == ("training_seconds", 3600 * setting.hours)
    assert spec.amount / spec.evaluations == 60 * setting.minutes_between_evaluations


@pytest.mark.parametrize("name", sorted(p.stem for p in (CONFIGS / "compare").glob("*.yaml")))
def test_every_shipped_comparison_has_a_dry_run_without_a_gpu(name, capsys):
    assert main(["compare", "--config", f"compare/{name}", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"of training time in all|\b\d+ steps each", printed)
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
    setting = SETTINGS[name]
    overrides: dict[str, Any] = {
        **ON_A_CPU,
        "model_name_or_path": tiny_model,
        "output_dir": tmp_path / "run",
        "data_path": SAMPLE / FOLDERS[setting.task],
        "processes": 1,
        # two groups of 32, or one of 16
        "gradient_accumulation_steps": 2 if setting.on_eight_gpus else 1,
        "max_steps": 2,
        "max_completion_length": 8,
        "evaluation_problems": 2,
        "evaluation_repeats": 1,
        "evaluations": 1,
        "save_strategy": "no",
    }
    if setting.task == "math":  # of the data here only MATH-500 is the task's
        overrides["train_split"] = "math500"
    flags = []
    for key, value in overrides.items():
        flags += [f"--{key}", str(value)]
    assert main(["train", "--config", f"paper/{name}", *flags]) == 0

    run = RunFolder(tmp_path / "run")
    last = run.metrics()[-1]
    assert last["step"] == 2
    generated = last["pods/rollouts_generated"]
    trained = last["pods/rollouts_trained"]
    assert generated * setting.m == trained * setting.n
    assert [e.step for e in evaluations(run)] == [0, 2]
