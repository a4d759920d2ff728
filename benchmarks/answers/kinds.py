"""What is measured of a kind of questions: its lengths, and the model's pass rate."""

import statistics
from collections import Counter
from typing import Any

import torch
from reasoning_gym.factory import DATASETS

from benchmarks.answers.sets import Kinds
from podslab.evaluation.sampling import Sampling, sample_and_grade, score
from podslab.tasks.answers import Answers
from podslab.tasks.numbers import KINDS
from podslab.training.lab_trainer import has_bfloat16
from podsrl.errors import InvalidInputError

PROBLEMS, SAMPLES = 32, 8
#: What a kind may have at most to be in a set: tokens, and the share of its most frequent answer,
#: above which guessing would pay.
QUESTION_TOKENS, ANSWER_TOKENS, MOST_FREQUENT = 100, 14, 0.25
#: Questions of more characters need much memory, and are sampled in small batches.
_LONG_QUESTION = 2000


def measure_lengths(tokenizer: Any) -> Kinds:
    """The lengths of every kind's questions and answers, and why it is left out, if it is."""
    kinds: Kinds = {}
    for kind in [*KINDS, *sorted(DATASETS)]:
        try:
            task = Answers([kind], test_size=PROBLEMS, train_size=PROBLEMS)
            kinds[kind] = _lengths(task, tokenizer)
        except InvalidInputError as error:
            kinds[kind] = {"left_out": str(error)}
    return kinds


def _lengths(task: Answers, tokenizer: Any) -> dict[str, Any]:
    rows = task.load("test")
    question_lengths = []
    answer_lengths = []
    for row in rows:
        question = tokenizer.apply_chat_template(task.prompt(row), tokenize=False)
        question_lengths.append(len(tokenizer(question)["input_ids"]))
        answer_lengths.append(len(tokenizer(row["answer"])["input_ids"]))

    question_tokens = statistics.median(question_lengths)
    answer_tokens = sorted(answer_lengths)[int(0.9 * len(rows))]
    counts = Counter(row["answer"] for row in rows)
    most_frequent = max(counts.values()) / len(rows)

    lengths = {
        "question_tokens": question_tokens,
        "answer_tokens": answer_tokens,
        "most_frequent": most_frequent,
    }
    if question_tokens > QUESTION_TOKENS or answer_tokens > ANSWER_TOKENS:
        return {**lengths, "left_out": "too long"}
    if most_frequent > MOST_FREQUENT:
        return {**lengths, "left_out": "one answer too often"}
    return lengths


def measure_pass_rate(model: Any, tokenizer: Any, kind: str, limit: int) -> dict[str, Any]:
    """The pass rate of a kind, with answers of up to `limit` tokens, and where it was measured."""
    task = Answers([kind], test_size=PROBLEMS, train_size=PROBLEMS)

    # Questions that fill the model's context are left out, with room for the template.
    context = model.config.max_position_embeddings - 2 * limit
    rows = []
    for row in task.load("test"):
        if len(tokenizer(row["question"])["input_ids"]) < context:
            rows.append(row)

    has_long_questions = any(len(row["question"]) >= _LONG_QUESTION for row in rows)
    batch_size = PROBLEMS // 2 if has_long_questions else PROBLEMS * SAMPLES
    sampling = Sampling(max_new_tokens=limit, batch_size=batch_size)

    # In the precision in which they are trained.
    device = model.device.type
    in_bfloat16 = device == "cuda" or has_bfloat16()
    with torch.autocast(device, torch.bfloat16, enabled=in_bfloat16):
        graded = sample_and_grade(model, tokenizer, task, rows, SAMPLES, sampling)

    scores = score(graded)
    return {
        "right": statistics.fmean(scores.answer_accuracy),
        "standard_error": scores.standard_error,
        "device": device,
        "problems": len(rows),
        "limit": limit,
    }
