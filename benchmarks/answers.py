"""Sets of questions for the pretrained model, by a rule that was written before any comparison.

SmolLM2-135M answers in long texts. So it is first shown some questions of each kind with the bare
answer, for a few minutes of supervised training; `get_answerer` keeps that model. Then its pass
rate is measured on 32 questions of each kind, 8 samples each:

    python -m benchmarks.answers               # results/answers.json: 15 minutes
    python -m benchmarks.answers --left-out    # what no set can have, too: minutes on a GPU

The kinds are the four of the task `numbers` and all datasets of reasoning-gym with questions of at
most 100 tokens and answers of at most 14, where no answer is right more than once in four (there
guessing would pay). A set has the four kinds with the shortest questions whose pass rate is in its
band. `SHOWN` is the first of 8, 16, 32, ... with which each set has at least two kinds.
"""

import json
import statistics
import sys
import tempfile
from collections import Counter, defaultdict
from functools import cache, partial
from pathlib import Path
from typing import Any

from podslab.evaluation.sampling import Sampling, sample_and_grade, score
from podslab.models import resolve
from podslab.models.cache import cached
from podslab.tasks.answers import Answers
from podslab.tasks.numbers import KINDS
from podslab.training.config_file import parse_options
from podsrl.errors import InvalidInputError
from podsrl.rollout_log.files import write_json
from podsrl.rollout_log.run_folder import RunFolder

FILE = Path("results/answers.json")
#: Pass rates of the sets: from, to.
BANDS = {"easy": (0.30, 0.60), "middle": (0.10, 0.30), "hard": (0.02, 0.10)}
KINDS_OF_A_SET = 4
QUESTION_TOKENS, ANSWER_TOKENS, MOST_FREQUENT = 100, 14, 0.25
PROBLEMS, SAMPLES, LIMIT = 32, 8, 16
LONGER = 64  # tokens, for the kinds that no set can have
SHOWN = 16  # questions of each kind with their answers, in supervised training
_VERSION = 2  # counted up when the model that `get_answerer` makes changes


def kinds_of(name: str) -> list[str]:
    """The kinds of questions of the set `name`; "few": of all sets."""
    if name == "few":
        return [kind for band in BANDS for kind in kinds_of(band)]
    low, high = BANDS[name]
    fit = {kind: own for kind, own in measured_before().items() if "left_out" not in own}
    inside = [kind for kind, own in fit.items() if low <= own.get("right", -1) < high]
    return sorted(inside, key=lambda kind: fit[kind]["question_tokens"])[:KINDS_OF_A_SET]


def measure_lengths(tokenizer: Any) -> dict[str, dict[str, Any]]:
    """Of each kind the tokens of its questions and answers, and why it is left out, if it is."""
    from reasoning_gym.factory import DATASETS

    found: dict[str, dict[str, Any]] = {}
    for kind in [*KINDS, *sorted(DATASETS)]:
        try:
            task = Answers([kind], test_size=PROBLEMS, train_size=PROBLEMS)
            rows = task.load("test")
        except InvalidInputError as error:
            found[kind] = {"left_out": str(error)}
            continue
        asked = [tokenizer.apply_chat_template(task.prompt(row), tokenize=False) for row in rows]
        question = statistics.median(len(tokenizer(text)["input_ids"]) for text in asked)
        answers = [row["answer"] for row in rows]
        lengths = sorted(len(tokenizer(answer)["input_ids"]) for answer in answers)
        answer, most = lengths[int(0.9 * len(rows))], max(Counter(answers).values()) / len(rows)
        own = {"question_tokens": question, "answer_tokens": answer, "most_frequent": most}
        fits = question <= QUESTION_TOKENS and answer <= ANSWER_TOKENS
        reason = "one answer too often" if fits else "too long"
        found[kind] = own if fits and most <= MOST_FREQUENT else {**own, "left_out": reason}
    return found


def measured_before() -> dict[str, Any]:
    """What `FILE` holds of each kind; nothing if it is not there."""
    return dict(json.loads(FILE.read_text(encoding="utf-8"))["kinds"]) if FILE.is_file() else {}


def get_answerer(on_gpu: bool = False) -> Path:
    """The folder of SmolLM2-135M-Instruct that answers with the answer alone; made if need be.

    on_gpu: make it there; that model is another one, as numbers are rounded otherwise.
    """
    origin = {"model": "SmolLM2-135M-Instruct, shown bare answers", "license": "Apache-2.0"}
    name = f"smollm2-answers-{_VERSION}{'-gpu' if on_gpu else ''}"
    return cached(name, partial(_make, on_gpu=on_gpu), origin)


def _make(folder: Path, on_gpu: bool) -> None:
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import SFTConfig, SFTTrainer

    from podslab.training.lab_trainer import completions_only, has_bfloat16, keep_memory

    keep_memory()
    path = resolve("smollm2")
    tokenizer = AutoTokenizer.from_pretrained(path)
    kinds = measured_before() or measure_lengths(tokenizer)  # that takes minutes
    fit = [kind for kind, own in kinds.items() if "left_out" not in own]
    # other questions than those of the comparisons, by another seed
    task = Answers(fit, seed=1_000_000, train_size=SHOWN * len(fit))
    rows = [
        {
            "prompt": task.prompt(row),
            "completion": [{"role": "assistant", "content": row["answer"]}],
        }
        for row in task.load("train")
    ]
    with tempfile.TemporaryDirectory() as out:
        args = SFTConfig(
            out,
            per_device_train_batch_size=16,
            num_train_epochs=1,
            learning_rate=5e-5,
            lr_scheduler_type="constant",
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=not on_gpu,
            bf16=on_gpu or has_bfloat16(),
            gradient_checkpointing=False,
        )
        model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        data = Dataset.from_list(rows)
        with completions_only():
            SFTTrainer(model, args=args, train_dataset=data, processing_class=tokenizer).train()
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def measure(left_out: bool = False) -> None:
    """Measure every kind of `FILE` that fits, and write it after each; what is there is kept.

    left_out: those that no set can have, in place of these.
    """
    import torch

    from podslab.models.load import load_model

    model, tokenizer = load_model(str(get_answerer(left_out and torch.cuda.is_available())))
    kinds = measured_before() or measure_lengths(tokenizer)
    for kind, own in kinds.items():
        if ("left_out" in own) != left_out or "right" in own or "question_tokens" not in own:
            continue
        own |= measured(model, tokenizer, kind, LONGER if left_out else LIMIT)
        print(f"{kind}: {own['right']:.1%}", flush=True)
        write_json(FILE, {"kinds": kinds})
    for name in BANDS:
        print(name, ", ".join(kinds_of(name)))


def measured(model: Any, tokenizer: Any, kind: str, limit: int) -> dict[str, Any]:
    """The pass rate of a kind, with answers of up to `limit` tokens, and where it was measured."""
    import torch

    from podslab.training.lab_trainer import has_bfloat16

    task = Answers([kind], test_size=PROBLEMS, train_size=PROBLEMS)
    context = model.config.max_position_embeddings - 2 * limit  # with the template
    rows = [r for r in task.load("test") if len(tokenizer(r["question"])["input_ids"]) < context]
    longest = max(len(row["question"]) for row in rows)
    batch = PROBLEMS * SAMPLES if longest < 2000 else PROBLEMS // 2  # memory
    sampling = Sampling(max_new_tokens=limit, batch_size=batch)
    device = model.device.type
    in_bfloat16 = device == "cuda" or has_bfloat16()  # as they are trained
    with torch.autocast(device, torch.bfloat16, enabled=in_bfloat16):
        graded = sample_and_grade(model, tokenizer, task, rows, SAMPLES, sampling)
    scores = score(graded)
    right = statistics.fmean(scores.answer_accuracy)
    kept = {"right": right, "standard_error": scores.standard_error, "device": device}
    return {**kept, "problems": len(rows), "limit": limit}


def by_kind(run: RunFolder) -> dict[str, dict[str, float]]:
    """What a run learned of each kind of questions, by its rollouts, which are drawn at random.

    "first" and "last" are the shares of right ones in the first and the last quarter of its steps;
    "guess" is the share of the most frequent answer among those of the questions to train on.
    """
    kind_of, guess = _questions(run.config()["task_options"])
    found = {kind: {"guess": share} for kind, share in guess.items()}
    steps = run.rollout_steps()
    quarter = max(1, len(steps) // 4)
    for when, part in (("first", steps[:quarter]), ("last", steps[-quarter:])):
        right: dict[str, list[float]] = defaultdict(list)
        for step in part:
            by_prompt = run.rollouts(step).group_by("prompt").aggregate([("reward", "list")])
            for row in by_prompt.to_pylist():
                kind = next(kind for text, kind in kind_of.items() if text in row["prompt"])
                right[kind] += row["reward_list"]
        for kind, rewards in right.items():  # with a prompt or two a step one may be missing
            found[kind][when] = statistics.fmean(rewards)
    return found


@cache
def _questions(task_options: str) -> tuple[dict[str, str], dict[str, float]]:
    """The kind of each question to train on, as it ends in a prompt; how often guessing is right.

    Making them takes seconds, and the runs of a comparison have the same ones.
    """
    options = parse_options(task_options)
    task = Answers(**options)
    rows = task.load("train")
    kind_of = {f"\n{task.prompt(row)[-1]['content']}<|": row["kind"] for row in rows}
    guess: dict[str, float] = {}
    for kind in options["kinds"]:
        answers = [row["answer"] for row in rows if row["kind"] == kind]
        guess[kind] = Counter(answers).most_common(1)[0][1] / len(answers)
    return kind_of, guess


if __name__ == "__main__":
    measure("--left-out" in sys.argv[1:])
