"""What the comparisons of `benchmarks.evidence.rows` train: their settings and their arms."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from podslab.report.curves import Clock

#: Rollouts generated and kept for each prompt, and other settings of each arm.
ARMS: dict[str, dict[str, Any]] = {
    "grpo16": {"like": "grpo", "num_generations": 16},
    "grpo8": {"like": "grpo", "num_generations": 8},
    "grpo4": {"like": "grpo", "num_generations": 4},
    "grpo_ga": {"like": "grpo_ga"},
    "pods": {},
    "few": {"num_rollouts": 4, "num_generations": 2},
    "across2": {"num_rollouts": 2, "num_generations": 1, "downsampling_rule": "max_contrast"},
    "across3": {"num_rollouts": 3, "num_generations": 1, "downsampling_rule": "max_contrast"},
    "across4": {"num_rollouts": 4, "num_generations": 1, "downsampling_rule": "max_contrast"},
}
#: What each arm is, in words.
WORDS = {
    "grpo16": "GRPO, 16 of each prompt",
    "grpo8": "GRPO, 8 of each prompt",
    "grpo4": "GRPO, 4 of each prompt",
    "grpo_ga": "GRPO-GA, all 64 of each prompt",
    "pods": "PODS 64 → 16, the paper's",
    "few": "PODS 4 → 2",
    "across2": "max_contrast, 2 of each prompt",
    "across3": "max_contrast, 3 of each prompt",
    "across4": "max_contrast, 4 of each prompt",
    "rounds": "PODS 4 → 2 in rounds of 2",  # measured, and taken out since
}
GRPO, ACROSS = ("grpo16", "grpo8", "grpo4"), ("across2", "across3", "across4")
#: Of each family the one that does best in tuning is run, and GRPO with 16, as in the paper, too.
FAMILIES = (GRPO, ACROSS)
#: The learning rates there are to try, of AdamW and of SGD.
RATES = (
    *(2.5e-6, 5e-6, 1e-5, 1.5e-5, 2e-5, 3e-5, 5e-5, 7.5e-5, 1e-4, 1.5e-4, 2e-4, 3e-4, 5e-4),
    *(7.5e-4, 1e-3, 5e-3, 1e-2, 2e-2, 3e-2, 5e-2, 1e-1),
)
FIRST_TUNING_SEED = 100
SEEDS = 5
ANSWERS = "answer_accuracy"
#: The authors' L40S: seconds to generate a rollout, and to update on one.
AUTHORS = Clock(generate=0.05, update=0.42)
EXPENSIVE = {"num_iterations": 2, "gradient_checkpointing": True}


@dataclass(frozen=True)
class Setting:
    """One setting: rows per step, seconds of processor time for each run, and what is trained.

    start: the learning rate to try first, and that of what is not tuned. measure: what counts as
    right. config: what it starts from. evaluations: after the first, evenly over the seconds.
    rates_of: the setting whose tuned learning rates it takes, if not its own.
    """

    what: str
    rows: int
    seconds: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    start: float = 1e-4
    measure: str = ANSWERS
    config: str = "evidence"
    evaluations: int = 8
    rates_of: str = ""


def _sums(columns: int, noise: float) -> dict[str, Any]:
    return {
        "task_options": {"min_columns": columns, "max_columns": columns},
        "tiny_options": {"min_columns": columns, "max_columns": columns, "noise": noise},
    }


#: Words of 3 to 9 letters: 3 tokens for each letter and 10 for the form.
_SPELLING = {
    "task": "reasoning_gym:spell_backward",
    "task_options": {"config": {"min_word_len": 3, "max_word_len": 9}},
    "model_name_or_path": "speller",  # stands for the folder that `get_speller` makes
    "tiny_options": {"min_columns": 3, "max_columns": 9, "noise": 0.5, "steps": 500},
    "max_completion_length": 40,
}
_LONG_SPELLING = {**_SPELLING, "task_options": {"config": {"min_word_len": 8, "max_word_len": 9}}}
#: A small reward for the form, to all rollouts or to those with wrong answers, as in the paper's
#: settings (c) and (a). One sample in three is well formed at the start.
_FORM = {
    "task_options": {"min_columns": 2, "max_columns": 7, "mode": "lenient"},
    "tiny_options": {"min_columns": 2, "max_columns": 7, "noise": 0.3, "form_noise": 0.24}
    | {"steps": 500},
}
_EVERY = {**_FORM, "form_reward": "every", "reward_weights": [1.0, 0.1, 0.1]}
_WRONG = {**_FORM, "form_reward": "wrong", "reward_weights": [1.0, 1.0, 1.0]}
_HARD = {"tiny_options": {"min_columns": 2, "max_columns": 7, "noise": 0.5, "steps": 500}}
#: What differs from `numbers.yaml`.
_PRETRAINED = {
    "num_rollouts": 8,
    "num_generations": 8,
    "downsampling_rule": "max_variance",
    "loss_type": "dapo",
    "mask_truncated_completions": True,
    "advantage_baseline": "kept",
    "skip_zero_advantage": False,
    "evaluation_problems": 96,
    "save_strategy": "no",
    "rollout_log": True,
}
_RARELY = "a pretrained model that is rarely right, all at one rate"
_RARE = _sums(6, 0.45)
_RARE["tiny_options"]["steps"] = 500
#: Stopped early in its warm start, without slips: its likeliest answer is right in two of five.
#: Where slips were trained in (`noise`) it is right in 19 of 20: there training makes it surer.
_LEARN = {
    "tiny_options": {"min_columns": 2, "max_columns": 7, "noise": 0.0, "steps": 200},
    "evaluation_temperature": 0.0,
}


def _answers(
    name: str, what: str, seconds: int, evaluations: int = 4, tuned: bool = False, **options: int
) -> Setting:
    """A set of `benchmarks.answers`; tuned: has rates of its own; options: of its task."""
    own = {
        "task": "answers",
        "task_options": {"kinds": name, "test_size": 256, **options},  # the name stands for kinds
        "model_name_or_path": "answerer",  # stands for the folder that `get_answerer` makes
        "evaluation_problems": 256,
        "evaluation_batch_size": 32,  # questions of like length: half the time of all at once
        "max_completion_length": 16,
    }
    settings, rates_of = {**_PRETRAINED, **own}, "" if tuned else "answers-middle"
    rates = "at the rates of the middle set" if rates_of else "at the best of two to six rates"
    what = f"a pretrained model, {what}, {rates}"
    return Setting(what, 16, seconds, settings, 1e-5, ANSWERS, "numbers", evaluations, rates_of)


#: Counting letters, after a look at solutions: `examples/char_count.py` makes the model.
_COUNTING = {
    **_PRETRAINED,
    "task": "examples/char_count.py",
    "model_name_or_path": "letter-counter",  # stands for the folder that the example makes
    "evaluation_problems": 256,
    "evaluation_batch_size": 32,
    "evaluation_temperature": 0.0,
    "max_completion_length": 80,
}


def _few(prompts: int) -> dict[str, Any]:
    """A third is right in 2 of 3 rollouts at the start, a third in .4, a third in none at all."""
    return {
        "task_options": {"min_columns": 2, "max_columns": 7, "train_size": prompts},
        "tiny_options": {"min_columns": 2, "max_columns": 5, "noise": 0.15, "steps": 500},
    }


SETTINGS = {
    "mixed-16": Setting("mixed difficulty", 16, 40),
    "few-512": Setting(
        "512 prompts, again and again, at the rates for mixed difficulty", 16, 100, _few(512)
    ),
    "few-4000": Setting("4,000 prompts, at the rates for mixed difficulty", 16, 100, _few(4000)),
    "pretrained-16": Setting(_RARELY, 16, 300, _PRETRAINED, 3e-5, ANSWERS, "numbers", 4),
    "answers-easy": _answers("easy", "30 to 60 % right at first", 60),
    "answers-middle": _answers("middle", "10 to 30 % right at first", 80, tuned=True),
    "answers-hard": _answers("hard", "2 to 10 % right at first", 150, evaluations=6),
    "answers-long": _answers("middle", "10 to 30 % right at first, three times as long", 240, 6),
    "answers-few": _answers("few", "90 questions of all sets again and again", 80, train_size=90),
    "char-count": Setting(
        what="counting letters, evaluated greedily",
        rows=16,
        seconds=300,
        settings=_COUNTING,
        start=5e-6,
        config="numbers",
        evaluations=3,
    ),
    "learn-16": Setting("sums that a small model can't do yet", 16, 50, _LEARN, 3e-5),
    "mixed-128": Setting("mixed difficulty", 128, 100, start=2e-4),
    "hard-16": Setting("hard prompts, expensive update", 16, 60, {**_HARD, **EXPENSIVE}, 7.5e-5),
    "hard-128": Setting("hard prompts, expensive update", 128, 160, {**_HARD, **EXPENSIVE}),
    "rare-16": Setting("nearly hopeless, expensive update", 16, 70, {**_RARE, **EXPENSIVE}, 5e-5),
    "uniform-16": Setting("one difficulty", 16, 40, {**_sums(4, 0.3), "max_completion_length": 64}),
    "long-16": Setting("mixed difficulty, 3 times as long", 16, 150, EXPENSIVE, 5e-5),
    "four-64": Setting("mixed difficulty, 4 times the rows", 64, 80, start=1.5e-4),
    "sgd-16": Setting(
        "nearly hopeless, by SGD", 16, 140, {**_RARE, **EXPENSIVE, "optim": "sgd"}, 2e-2
    ),
    "words-16": Setting("words of mixed length", 16, 20, _SPELLING, 2e-4),
    "words-hard-16": Setting(
        "long words, expensive update", 16, 25, {**_LONG_SPELLING, **EXPENSIVE}, 2e-4
    ),
    "form-16": Setting("a small reward for the form", 16, 40, _EVERY, measure="both_accuracy"),
    "form-wrong-16": Setting(
        "wrong answers are paid for their form", 16, 40, _WRONG, measure="both_accuracy"
    ),
}


def _greedily(name: str, seconds: int, where: str = "", start: float = 0.0) -> Setting:
    """A setting whose evaluations take the likeliest answer, in place of one drawn at random.

    What a model gains by only becoming surer of what it knows does not count there. where: of what
    else is changed, for `what`. start: the first learning rate to try, if it has rates of its own.
    """
    of = SETTINGS[name]
    what = f"{of.what.partition(', at the')[0]}{where}, evaluated greedily"
    settings = {**of.settings, "evaluation_temperature": 0.0}
    greedily = replace(of, what=what, seconds=seconds, settings=settings)
    if start:
        return replace(greedily, start=start, rates_of="")
    rates = ", at the rates of the middle set" if of.rates_of and not where else ""
    return replace(greedily, what=f"{what}{rates}", rates_of=of.rates_of or name)


SETTINGS |= {
    "mixed-greedy": _greedily("mixed-16", 40),
    "rare-greedy": _greedily("rare-16", 70),
    "answers-greedy": _greedily("answers-middle", 240),
    # with rates of its own: those of the middle set are too high for GRPO here
    "answers-easy-greedy": _greedily("answers-easy", 300, start=5e-6),
    "answers-long-greedy": _greedily("answers-middle", 600, ", 600 s"),
    "answers-hard-greedy": replace(_greedily("answers-hard", 600), evaluations=3),
}


def _on_gpu(name: str, seconds: int) -> Setting:
    """A set of questions on one GPU, with four times the rows, evaluated greedily."""
    of = _greedily(name, seconds, ", on a GPU of several runs", start=2e-5)
    own = {"use_cpu": False, "bf16": True, "training_clock": "wall"}
    own |= {"evaluation_batch_size": 256, "rollout_log": False}
    return replace(of, rows=64, settings={**of.settings, **own}, evaluations=4)


_ON_GPU = {"easy": 30, "middle": 30, "hard": 40}
SETTINGS |= {f"gpu-{name}": _on_gpu(f"answers-{name}", _ON_GPU[name]) for name in _ON_GPU}

#: Those that `benchmarks.evidence.rows` runs; the others are for `benchmarks.methods` alone.
ROWS = [
    name
    for name in SETTINGS
    if not name.startswith(("few-", "char-", "learn-", "pretrained-", "answers-", "gpu-"))
    and not name.endswith("-greedy")
]


def settings_of(name: str) -> dict[str, Any]:
    """What a setting changes of the config `evidence`; its model is made if need be."""
    settings = dict(SETTINGS[name].settings)
    if settings.get("model_name_or_path") == "speller":
        from benchmarks.evidence.spelling import get_speller  # with torch, which nothing else needs

        settings["model_name_or_path"] = str(get_speller(settings["tiny_options"]))
    if settings.get("model_name_or_path") == "letter-counter":
        folder = Path("runs/char-count/start")
        if not folder.is_dir():
            subprocess.run([sys.executable, "examples/char_count.py"], check=True)
        settings["model_name_or_path"] = str(folder)
    if settings.get("model_name_or_path") == "answerer":
        from benchmarks.answers import get_answerer, kinds_of
        from podslab.training.lab_trainer import has_bfloat16

        settings.setdefault("bf16", has_bfloat16())
        on_gpu = not settings.get("use_cpu", True)
        settings["model_name_or_path"] = str(get_answerer(on_gpu))
        options = settings["task_options"]
        settings["task_options"] = {**options, "kinds": kinds_of(options["kinds"])}
    return settings
