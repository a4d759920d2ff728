"""reasoning-gym: about a hundred generators with verifiers (arXiv 2505.24760).

A problem of its dataset chain_sum: "State the final answer to the following arithmetic problem:
1663 - 5242 - 9376 - 8961 + 7634 =", with the answer "-14282".
"""

import ast
import functools
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from podsgrading.extract import answer_tag, declared_answer, unwrapped
from podsgrading.math.numbers import read_number, states_number
from podsgrading.pool import shared_pool
from podslab.tasks.base import Grade, Row, Task, check_choice, check_deadline, in_format
from podsrl.errors import InvalidInputError, MissingDependencyError, UnknownNameError, suggestion

_FUNCTION = "podslab.tasks.reasoning_gym:score"
_MAX_VERIFIED = 20_000
#: A verifier's score above this is a right answer; partial credit is less.
_RIGHT = 0.999
#: How far the seeds of the splits are apart; a dataset uses seed + index.
_SEED_OF_SPLIT = {"train": 0, "test": 1 << 28}
#: Datasets whose verifiers run an answer as Python: by `eval`, for one written as a list ...
EVALUATED = ("binary_matrix", "n_queens", "spiral_matrix", "string_insertion")
#: ... and by sympy's `parse_expr`, for a formula.
PARSED = (
    "countdown",
    "intermediate_integration",
    "polynomial_multiplication",
    "puzzle24",
    "simple_integration",
)
#: Datasets whose verifiers accept what is no answer ("nan", any text, a longer word), and what must
#: hold, too.
CHECKED: dict[str, Callable[[str, Mapping[str, Any]], bool]] = {
    "coin_flip": lambda text, entry: abs(Fraction(text) - Fraction(entry["answer"])) <= 1e-4,
    "complex_arithmetic": lambda text, entry: "nan" not in text.lower(),
    "countdown": lambda text, entry: _is_worth(text, entry["metadata"]["target"]),
    "fraction_simplification": lambda text, entry: _states(text, entry["answer"]),
    "game_of_life_halting": lambda text, entry: (
        text.strip(" \n.'\"").lower() == str(entry["answer"]).lower()
    ),
    "gsm_symbolic": lambda text, entry: _states(text, entry["answer"]),
    "intermediate_integration": lambda text, entry: (
        "Integral" not in text or "Integral" in entry["answer"]
    ),
    "letter_jumble": lambda text, entry: len(text.split()) == len(entry["answer"].split()),
    "number_sorting": lambda text, entry: "nan" not in text.lower(),
    "puzzle24": lambda text, entry: _makes_24(text, entry["metadata"]["numbers"]),
    "simple_integration": lambda text, entry: "Integral" not in text,
    "spell_backward": lambda text, entry: text.lower() == entry["answer"].lower(),
    "time_intervals": lambda text, entry: re.fullmatch(r"(?:[0-9:., ]|days?\b)+", text) is not None,
}
#: A formula without attributes, text or names from which anything else could be reached.
_FORMULA = re.compile(
    r"(?:[0-9\s+*/^(),-]|(?<=[0-9])\.|\.(?=[0-9])|(?<![A-Za-z_])(?:a?(?:sin|cos|tan)|exp|log|ln|sqrt"
    r"|Integral|pi|[A-Za-z])(?![A-Za-z0-9_]))*",
    re.ASCII,
)


class ReasoningGym(Task):
    """Generated problems of one of reasoning-gym's datasets, graded by its own verifier.

    A verifier's score of 1 is a right answer; partial credit is not. The two splits have different
    seeds, and a test question that is also a training question is left out.

    Args:
        dataset: its name in reasoning-gym, "chain_sum"; see github.com/open-thought/reasoning-gym.
        size: training problems; there are a fifth as many for testing.
        seed: another seed gives other problems.
        config: options of the dataset as JSON or a mapping, {"max_terms": 4}.
        deadline: seconds of processor time for one answer; after that it is unscorable.
    """

    name = "reasoning_gym"
    summary = "reasoning_gym:NAME, a hundred generated tasks (extra podsrl-lab[reasoning_gym])"
    source = "github.com/open-thought/reasoning-gym; each dataset's score_answer is the grader"
    example = {"question": "", "answer": ""}  # noqa: RUF012 (generated; see `examples`)
    example_right = example_wrong = ""

    def __init__(
        self,
        dataset: str = "chain_sum",
        size: int = 1000,
        seed: int = 0,
        config: str | Mapping[str, Any] = "{}",
        deadline: float = 10.0,
    ) -> None:
        if size < 5:
            raise InvalidInputError(f"size must be at least 5; got {size}")
        self._dataset = dataset
        self._size = size
        self._seed = seed
        self._deadline = check_deadline(deadline)
        try:
            options = json.loads(config) if isinstance(config, str) else dict(config)
            self._config = json.dumps(options, sort_keys=True)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"config must be JSON; got {config!r} ({error})") from error

        _make(dataset, self._config, 1, seed)  # its name and options are right, or say so now

    def load(self, split: str, path: str | None = None) -> list[Row]:
        """Rows with `question`, `answer`, and what the verifier needs to make the problem again."""
        check_choice("split", split, self.splits)
        if path is not None:
            raise InvalidInputError("reasoning_gym generates its problems; leave --data_path out")
        if split == "train":
            return list(self._train)

        trained_on = {row["question"] for row in self._train}
        rows = [row for row in self._generate(split) if row["question"] not in trained_on]
        if not rows:
            raise InvalidInputError(
                f"{self._dataset} has too few different problems for {self._size}: every test"
                " question is a training question too; give a smaller size"
            )
        return rows

    @functools.cached_property
    def _train(self) -> list[Row]:  # some generators take half a minute
        return self._generate("train")

    def examples(self) -> tuple[Row, str, str]:
        """A generated row, its gold completion and an empty answer."""
        row = self.load("train")[0]
        return row, self.gold_completion(row), "<answer></answer>"

    def grade(self, completion: str, row: Mapping[str, Any]) -> Grade:
        """Ask the dataset's verifier."""
        return self.grade_batch([completion], [row])[0]

    def grade_batch(
        self, completions: Sequence[str], rows: Sequence[Mapping[str, Any]]
    ) -> list[Grade]:
        """Ask the dataset's verifier, in the grading processes.

        If it refuses an answer that stands in a box or in bold type, it is asked again without.
        """
        answers = [answer_tag(text) or declared_answer(text) or "" for text in completions]
        scores = self._scores(answers, rows)

        plain_answers = [unwrapped(answer) for answer in answers]
        again: list[int] = []  # the places that are asked about again
        for place, score in enumerate(scores):
            is_refused = score is not None and score < _RIGHT
            is_wrapped = plain_answers[place] not in ("", answers[place].strip())
            if is_refused and is_wrapped:
                again.append(place)

        plain_scores = self._scores(
            [plain_answers[place] for place in again], [rows[place] for place in again]
        )
        for place, score in zip(again, plain_scores, strict=True):
            scores[place] = score

        return [
            Grade(None if score is None else score > _RIGHT, in_format(text))
            for score, text in zip(scores, completions, strict=True)
        ]

    def _scores(
        self, answers: Sequence[str], rows: Sequence[Mapping[str, Any]]
    ) -> list[float | None]:
        """The verifier's scores; no answer, and one that is too long, have 0."""
        verified: list[int] = []
        calls: list[tuple[str, str, str, str]] = []
        for place, (answer, row) in enumerate(zip(answers, rows, strict=True)):
            if 0 < len(answer) <= _MAX_VERIFIED:
                verified.append(place)
                calls.append((row["dataset"], row["config"], row["problem"], answer))

        scores: list[float | None] = [0.0] * len(answers)
        pool = shared_pool(self._deadline, "reasoning_gym")
        for place, score in zip(verified, pool.run(_FUNCTION, calls), strict=True):
            scores[place] = score
        return scores

    def _generate(self, split: str) -> list[Row]:
        """The rows of a split, with some questions of the other one among them."""
        size = self._size if split == "train" else self._size // 5
        seed = self._seed + _SEED_OF_SPLIT[split]
        return [
            {
                "question": str(entry["question"]),
                "answer": "" if entry["answer"] is None else str(entry["answer"]),
                "dataset": self._dataset,
                "config": self._config,
                "problem": _as_text(entry, index, seed),
            }
            for index, entry in enumerate(_make(self._dataset, self._config, size, seed))
        ]


def score(dataset: str, config: str, problem: str, answer: str) -> float:
    """The verifier's score of an answer to a problem that `ReasoningGym.load` made."""
    entry = _entry(dataset, config, problem)
    if dataset in PARSED and not _FORMULA.fullmatch(answer):
        return 0.0
    if dataset in EVALUATED:
        _forbid_eval(dataset)

    try:
        verifier_score = float(_make(dataset, config, 1, 0).score_answer(answer, entry))
        if verifier_score <= _RIGHT or dataset not in CHECKED:
            return verifier_score
        is_answer = CHECKED[dataset](answer, entry)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return 0.0  # it is no answer of the right kind
    return verifier_score if is_answer else 0.0


def _entry(dataset: str, config: str, problem: str) -> Any:
    """reasoning-gym's own entry of a problem, from what `_as_text` made of it."""
    entry = ast.literal_eval(problem)
    if "index" not in entry:
        return entry

    made_again = _make(dataset, config, entry["index"] + 1, entry["seed"])[entry["index"]]
    if made_again["question"] != entry["question"]:
        raise InvalidInputError(f"{dataset} makes another problem than when it was loaded")
    return made_again


def _forbid_eval(dataset: str) -> None:
    """Let a verifier read literals where it calls `eval`, in this process.

    A module's own name stands before the built-in one.
    """
    cls, _ = _classes()[dataset]
    vars(sys.modules[cls.__module__])["eval"] = ast.literal_eval


def _makes_24(text: str, numbers: Sequence[int]) -> bool:
    """Does it use each of the four numbers once, and is it worth 24?"""
    used = sorted(map(int, re.findall("[0-9]+", text)))
    return used == sorted(numbers) and _is_worth(text, 24)


def _states(text: str, gold: str) -> bool:
    """Does it state the gold number, and not somewhere in another sentence?"""
    number = read_number(gold, prose=True)
    return number is not None and states_number(number, text, prose=True)


def _is_worth(text: str, target: int) -> bool:
    """Is it arithmetic that makes exactly `target`? (A verifier may take what comes near.)"""
    from sympy.parsing.sympy_parser import parse_expr

    return _arithmetic(text) and bool(parse_expr(text.strip()) == target)


def _arithmetic(text: str) -> bool:
    """Numbers, brackets and the four operations: neither powers nor whole division."""
    return re.fullmatch(r"(?:(?!\*\*|//)[0-9\s+*/()-])+", text) is not None


def _as_text(entry: dict[str, Any], index: int, seed: int) -> str:
    """The problem as a Python literal: in JSON its tuples would be lists, and verifiers care.

    One that holds other objects (knights_knaves) is named by its index and seed instead. Not all
    are: some generators depend on the hash seed of the process.
    """
    text = repr(dict(entry))
    try:
        ast.literal_eval(text)
    except ValueError:
        return repr({"index": index, "seed": seed, "question": entry["question"]})
    return text


@functools.lru_cache(maxsize=256)
def _make(dataset: str, config: str, size: int, seed: int) -> Any:
    names = _classes()
    if dataset not in names:
        all_of_them = f"it has {', '.join(sorted(names))}"
        hint = suggestion(dataset.lower(), names, all_of_them)
        raise UnknownNameError(f"reasoning-gym has no dataset {dataset!r}; {hint}")

    from reasoning_gym.factory import create_dataset

    options = {**json.loads(config), "size": size, "seed": seed}
    try:
        return create_dataset(dataset, **options)
    except (AttributeError, TypeError, ValueError, AssertionError) as error:
        raise InvalidInputError(f"reasoning-gym's {dataset} with {config}: {error}") from error


def _classes() -> dict[str, Any]:
    """Name -> (its class, that of its options)."""
    try:
        from reasoning_gym.factory import DATASETS
    except ImportError as error:
        raise MissingDependencyError(
            "these tasks need a package: in a checkout pip install -e 'lab[reasoning_gym]'"
        ) from error
    return DATASETS
