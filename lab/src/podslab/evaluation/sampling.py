"""Measuring a model on a task: sample, grade, count; k times over the same problems."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from podslab.evaluation import fast_generation as generation
from podslab.tasks import Task
from podsrl.errors import InvalidInputError

#: Wraps an iterable and shows how far it is, such as tqdm.
Progress = Callable[[Iterable[Any]], Iterable[Any]]

#: What an evaluation takes over from a run's settings under the same name.
_AS_IN_TRAINING = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "seed",
    "chat_template_kwargs",
)


@dataclass(frozen=True)
class Sampling:
    """The settings by which an evaluation samples completions.

    Args:
        temperature: 0 is greedy decoding.
        top_p, top_k, min_p: Which tokens are left to draw from; 1, 0 and None leave all.
        max_new_tokens: The tokens of a completion at most.
        batch_size: The completions that are generated at once.
        seed: Of the random numbers.
        repetition_penalty: As in transformers; 1 is none.
        chat_template_kwargs: For the tokenizer's template.
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
        given = {name: config.get(name) for name in _AS_IN_TRAINING}
        given["max_new_tokens"] = config.get("max_completion_length")
        given["batch_size"] = config.get("evaluation_batch_size")
        if config.get("evaluation_temperature") is not None:
            given["temperature"] = config["evaluation_temperature"]
        return cls(**{name: value for name, value in given.items() if value is not None})


class Graded(NamedTuple):
    """One completion's grade (None: it could not be graded), and its length in tokens."""

    answer: bool | None
    format: bool
    length: int


@dataclass(frozen=True)
class Scores:
    """Shares of problems and mean completion length in tokens, one entry per repeat.

    Args:
        answer_accuracy: The share with a right answer.
        format_accuracy: The share in the asked form.
        both_accuracy: The share of right answers in the asked form.
        mean_length: In tokens.
        standard_error: Of the mean answer accuracy, over problems, since repeats of one problem are
            not independent.
        unscorable: How many completions could not be graded.
        rewards: Of every problem and repeat 1 for a right answer, 0 for a wrong one, and None where
            it could not be graded.
    """

    answer_accuracy: list[float]
    format_accuracy: list[float]
    both_accuracy: list[float]
    mean_length: list[float]
    standard_error: float
    unscorable: int
    rewards: list[list[float | None]]


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
        model: A causal language model of transformers.
        tokenizer: Its tokenizer, with a chat template.
        task: It gives the prompts and grades.
        rows: From `task.load`, or a process's share of them.
        repeats: Completions per row, k >= 1.
        sampling: How to sample.
        progress: It wraps the batches, such as tqdm.

    Raises:
        InvalidInputError: There are no rows, or repeats < 1.
    """
    if not rows or repeats < 1:
        raise InvalidInputError(
            f"an evaluation needs at least one row and one repeat; got {len(rows)} and {repeats}"
        )
    prompt_ids = _prompt_ids(tokenizer, [task.prompt(row) for row in rows], sampling)

    # Rollouts are numbered row by row; the longest prompts are generated for first, which is less
    # padding, and a memory that is too small is full early.
    row_of_rollout = [row for row in range(len(rows)) for _ in range(repeats)]
    queue = sorted(
        range(len(row_of_rollout)),
        key=lambda rollout: -len(prompt_ids[row_of_rollout[rollout]]),
    )
    size = sampling.batch_size
    batches = [queue[start : start + size] for start in range(0, len(queue), size)]

    completions: list[list[int]] = [[] for _ in row_of_rollout]
    with _evaluating(model, sampling.seed):
        for batch in progress(batches):
            prompts = [prompt_ids[row_of_rollout[rollout]] for rollout in batch]
            generated = generate(model, tokenizer, prompts, sampling)
            for rollout, completion in zip(batch, generated, strict=True):
                completions[rollout] = completion

    texts = tokenizer.batch_decode(completions, skip_special_tokens=True)
    grades = task.grade_batch(texts, [rows[row] for row in row_of_rollout])
    graded = [
        Graded(grade.answer, grade.format, len(completion))
        for grade, completion in zip(grades, completions, strict=True)
    ]
    return [graded[start : start + repeats] for start in range(0, len(graded), repeats)]


def score(graded_P_K: Sequence[Sequence[Graded]]) -> Scores:
    """Count the grades of P problems, k completions each; one that is None is not right."""
    right_P_K = np.array([[bool(graded.answer) for graded in row] for row in graded_P_K])
    in_form_P_K = np.array([[bool(graded.format) for graded in row] for row in graded_P_K])
    length_P_K = np.array([[graded.length for graded in row] for row in graded_P_K])
    return Scores(
        answer_accuracy=right_P_K.mean(axis=0).tolist(),
        format_accuracy=in_form_P_K.mean(axis=0).tolist(),
        both_accuracy=(right_P_K & in_form_P_K).mean(axis=0).tolist(),
        mean_length=length_P_K.mean(axis=0).tolist(),
        standard_error=_standard_error(right_P_K),
        unscorable=sum(graded.answer is None for row in graded_P_K for graded in row),
        rewards=[
            [None if graded.answer is None else float(graded.answer) for graded in row]
            for row in graded_P_K
        ],
    )


def _standard_error(right_P_K: np.ndarray) -> float:
    """The standard error of the share of right answers, over problems.

    It is the standard deviation of the problems' means over the root of their number. It is at
    least half of Wilson's interval for one standard deviation,

        sqrt(p (1 - p) / t + 1 / (4 t^2)) / (1 + 1 / t),

    for a share p of t trials, since all of a few being equal proves little. Repeats count as trials
    where problems differ.
    """
    problems = len(right_P_K)
    deviation = right_P_K.mean(axis=1).std(ddof=1) if problems > 1 else 0.0
    share = right_P_K.mean()
    trials = right_P_K.size if deviation else problems
    wilson = (share * (1 - share) / trials + 1 / (4 * trials**2)) ** 0.5 / (1 + 1 / trials)
    return float(max(deviation / problems**0.5, wilson))


def complete(model: Any, tokenizer: Any, prompts: Sequence[Any], sampling: Sampling) -> list[str]:
    """One completion of each conversation, as text."""
    prompt_ids = _prompt_ids(tokenizer, prompts, sampling)
    with _evaluating(model, sampling.seed):
        completions = generate(model, tokenizer, prompt_ids, sampling)
    texts: list[str] = tokenizer.batch_decode(completions, skip_special_tokens=True)
    return texts


def _prompt_ids(tokenizer: Any, prompts: Sequence[Any], sampling: Sampling) -> list[list[int]]:
    if tokenizer.chat_template is None:
        raise InvalidInputError("the tokenizer has no chat template; instruction-tuned models do")

    ids = []
    for prompt in prompts:
        text = tokenizer.apply_chat_template(
            prompt, tokenize=False, add_generation_prompt=True, **sampling.chat_template_kwargs
        )
        ids.append(tokenizer(text, add_special_tokens=False)["input_ids"])
    return ids


@torch.no_grad()
def generate(
    model: Any, tokenizer: Any, prompts: Sequence[Sequence[int]], sampling: Sampling
) -> list[list[int]]:
    """One completion of each prompt, as token ids, without what follows the end token."""
    batch = tokenizer.pad(
        {"input_ids": [list(ids) for ids in prompts]}, padding_side="left", return_tensors="pt"
    ).to(model.device)
    ends = _end_tokens(model, tokenizer)
    config = _generation_config(model, tokenizer, sampling, ends)
    rows = generation.generate(model, batch["input_ids"], batch["attention_mask"], config)

    prompt_length = batch["input_ids"].shape[1]
    completions = []
    for ids in rows[:, prompt_length:].tolist():
        end = next((place for place, token in enumerate(ids) if token in ends), len(ids))
        completions.append(ids[: end + 1])
    return completions


def _end_tokens(model: Any, tokenizer: Any) -> list[int]:
    """The tokens that end a completion: the model's, which may be several, and the tokenizer's."""
    declared: Any = model.generation_config.eos_token_id
    if not isinstance(declared, list):
        declared = [declared]
    return [token for token in (*declared, tokenizer.eos_token_id) if token is not None]


def _generation_config(model: Any, tokenizer: Any, sampling: Sampling, ends: list[int]) -> Any:
    """The model's own config, with all that decides which tokens are drawn as in training."""
    config = copy.deepcopy(model.generation_config)
    config.update(
        max_new_tokens=sampling.max_new_tokens,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=ends,
        do_sample=sampling.temperature > 0,
        repetition_penalty=sampling.repetition_penalty,
    )
    # Greedy decoding reads none of these, and transformers warns of those that are set.
    is_sampled = sampling.temperature > 0
    config.update(
        temperature=sampling.temperature if is_sampled else None,
        top_p=sampling.top_p if is_sampled else None,
        top_k=sampling.top_k if is_sampled else None,
        min_p=sampling.min_p if is_sampled else None,
    )
    return config


@contextmanager
def _evaluating(model: Any, seed: int) -> Iterator[None]:
    """The model in evaluation mode, with random numbers of its own; both are put back."""
    was_training = model.training
    devices = [model.device] if model.device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        model.eval()
        try:
            yield
        finally:
            model.train(was_training)
