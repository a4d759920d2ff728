"""Measuring a model on a task: sample, grade, count; k times over the same problems."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import torch

from podslab.evaluation import fast_generation as generation
from podslab.tasks import Task
from podsrl.errors import InvalidInputError

Progress = Callable[[Iterable[Any]], Iterable[Any]]  # such as tqdm


@dataclass(frozen=True)
class Sampling:
    """How completions are sampled for an evaluation.

    temperature 0 is greedy decoding; max_new_tokens and batch_size are per completion and per call.
    top_k 0 and min_p None leave all tokens. chat_template_kwargs: for the tokenizer's template.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    max_new_tokens: int = 512
    batch_size: int = 64
    seed: int = 0
    top_k: int = 0
    min_p: float | None = None
    repetition_penalty: float = 1.0
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def as_in(cls, config: Mapping[str, Any]) -> "Sampling":
        """As a run with these settings trains, unless they say otherwise; what is None is left."""
        same = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed")
        given = {name: config.get(name) for name in (*same, "chat_template_kwargs")}
        given["max_new_tokens"] = config.get("max_completion_length")
        given["batch_size"] = config.get("evaluation_batch_size")
        if config.get("evaluation_temperature") is not None:
            given["temperature"] = config["evaluation_temperature"]
        return cls(**{name: value for name, value in given.items() if value is not None})


class Graded(NamedTuple):
    """One completion's grade, and its length in tokens."""

    answer: bool | None
    format: bool
    length: int


@dataclass(frozen=True)
class Scores:
    """Shares of problems and mean completion length in tokens, one entry per repeat.

    standard_error: of the mean answer accuracy, over problems (repeats of one problem are not
    independent): the standard deviation of the problems' means over the root of their number, and
    at least half of Wilson's interval, since all of a few being equal proves little.
    """

    answer_accuracy: list[float]
    format_accuracy: list[float]
    both_accuracy: list[float]
    mean_length: list[float]
    standard_error: float
    unscorable: int


def sample_and_grade(
    model: Any,
    tokenizer: Any,
    task: Task,
    rows: Sequence[Mapping[str, Any]],
    repeats: int,
    sampling: Sampling,
    progress: Progress = iter,
) -> list[list[Graded]]:
    """For every row its `repeats` graded completions, which `score` counts.

    The model is left in the mode it was in, and the global random state as it was, so that an
    evaluation in the middle of a training run does not change the run.

    Args:
        model: a causal language model of transformers.
        tokenizer: its tokenizer, with a chat template.
        task: gives the prompts and grades.
        rows: from `task.load`, or a process's share of them.
        repeats: completions per row, k >= 1.
        sampling: how to sample.
        progress: wraps the batches, such as tqdm.

    Raises:
        InvalidInputError: no rows, or repeats < 1.
    """
    if not rows or repeats < 1:
        raise InvalidInputError(
            f"an evaluation needs at least one row and one repeat; got {len(rows)} and {repeats}"
        )
    ids = _prompt_ids(tokenizer, [task.prompt(row) for row in rows], sampling)
    jobs = [(i, k) for i in range(len(rows)) for k in range(repeats)]
    # longest prompts first: less padding, and a full memory fails early
    queue = sorted(jobs, key=lambda job: -len(ids[job[0]]))
    batches = [queue[i : i + sampling.batch_size] for i in range(0, len(jobs), sampling.batch_size)]
    completions: dict[tuple[int, int], list[int]] = {}
    with _evaluating(model, sampling.seed):
        for batch in progress(batches):
            done = generate(model, tokenizer, [ids[i] for i, _ in batch], sampling)
            completions.update(zip(batch, done, strict=True))
    tokens = [completions[job] for job in jobs]
    texts = tokenizer.batch_decode(tokens, skip_special_tokens=True)
    grades = task.grade_batch(texts, [rows[i] for i, _ in jobs])
    graded = [Graded(*grade, len(own)) for grade, own in zip(grades, tokens, strict=True)]
    return [graded[i : i + repeats] for i in range(0, len(jobs), repeats)]


def score(graded_P_K: Sequence[Sequence[Graded]]) -> Scores:
    """Count the grades of P problems, k completions each; one that is None is not right."""
    by_repeat = list(zip(*graded_P_K, strict=True))
    right_P_K = np.array([[bool(g.answer) for g in row] for row in graded_P_K], dtype=float)
    problems, share = len(graded_P_K), right_P_K.mean()
    spread = right_P_K.mean(axis=1).std(ddof=1) if problems > 1 else 0.0
    trials = right_P_K.size if spread else problems
    wilson = (share * (1 - share) / trials + 1 / (4 * trials**2)) ** 0.5 / (1 + 1 / trials)
    return Scores(
        answer_accuracy=right_P_K.mean(axis=0).tolist(),
        format_accuracy=[fmean(g.format for g in grades) for grades in by_repeat],
        both_accuracy=[fmean(bool(g.answer) and g.format for g in gs) for gs in by_repeat],
        mean_length=[sum(g.length for g in grades) / problems for grades in by_repeat],
        standard_error=float(max(spread / problems**0.5, wilson)),
        unscorable=sum(g.answer is None for grades in by_repeat for g in grades),
    )


def complete(model: Any, tokenizer: Any, prompts: Sequence[Any], sampling: Sampling) -> list[str]:
    """One completion of each conversation, as text."""
    ids = _prompt_ids(tokenizer, prompts, sampling)
    with _evaluating(model, sampling.seed):
        done = generate(model, tokenizer, ids, sampling)
    texts: list[str] = tokenizer.batch_decode(done, skip_special_tokens=True)
    return texts


def _prompt_ids(tokenizer: Any, prompts: Sequence[Any], sampling: Sampling) -> list[list[int]]:
    if tokenizer.chat_template is None:
        raise InvalidInputError("the tokenizer has no chat template; instruction-tuned models do")
    render = partial(tokenizer.apply_chat_template, tokenize=False, add_generation_prompt=True)
    texts = [render(prompt, **sampling.chat_template_kwargs) for prompt in prompts]
    return [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]


@torch.no_grad()
def generate(
    model: Any, tokenizer: Any, prompts: Sequence[Sequence[int]], sampling: Sampling
) -> list[list[int]]:
    """One completion of each prompt, as token ids, without what follows the end token."""
    padded = tokenizer.pad(
        {"input_ids": [list(ids) for ids in prompts]}, padding_side="left", return_tensors="pt"
    ).to(model.device)
    config = copy.deepcopy(model.generation_config)
    own: Any = config.eos_token_id
    declared = own if isinstance(own, list) else [own]
    ends = [i for i in (*declared, tokenizer.eos_token_id) if i is not None]
    config.update(
        max_new_tokens=sampling.max_new_tokens,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=ends,
        do_sample=sampling.temperature > 0,
        repetition_penalty=sampling.repetition_penalty,  # the model's own is not what training has
    )
    for name in ("temperature", "top_p", "top_k", "min_p"):
        config.update(**{name: getattr(sampling, name) if sampling.temperature else None})
    out = generation.generate(model, padded["input_ids"], padded["attention_mask"], config)
    new = out[:, padded["input_ids"].shape[1] :].tolist()
    done = []
    for ids in new:
        end = next((place for place, token in enumerate(ids) if token in ends), len(ids))
        done.append(ids[: end + 1])
    return done


@contextmanager
def _evaluating(model: Any, seed: int) -> Iterator[None]:
    training = model.training
    devices = [model.device] if model.device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        model.eval()
        try:
            yield
        finally:
            model.train(training)
